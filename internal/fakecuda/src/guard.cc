// Access to memory that may be out of bounds: a fault on a worker ends the work instead of the process.
//
// Go handles SIGSEGV too. Our handler only takes what happens inside guarded, which only workers enter, and hands everything
// else to the handler that was there before, so nil dereferences in Go panic as ever.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "fake.h"

namespace fake {

struct GuardFrame {
    sigjmp_buf back;
    volatile uint64_t address;
    volatile int signal, write, misaligned;
};

// initial-exec: no allocation on first use, which could be inside a signal handler.
static thread_local GuardFrame* guard_frame __attribute__((tls_model("initial-exec"))) = nullptr;
static struct sigaction previous[NSIG];

static void on_fault(int sig, siginfo_t* info, void* context) {
    GuardFrame* f = guard_frame;
    if (!f) {
        const struct sigaction& p = previous[sig];
        if (p.sa_flags & SA_SIGINFO) {
            p.sa_sigaction(sig, info, context);
        } else if (p.sa_handler == SIG_DFL || p.sa_handler == SIG_IGN) {
            sigaction(sig, &p, nullptr);  // the instruction runs again and ends the process
        } else {
            p.sa_handler(sig);
        }
        return;
    }
    const ucontext_t* u = (const ucontext_t*)context;
    f->signal = sig;
    f->address = (uint64_t)info->si_addr;
    f->write = (u->uc_mcontext.gregs[REG_ERR] & 2) != 0;
    f->misaligned =
        sig == SIGBUS ? info->si_code == BUS_ADRALN : info->si_code == SI_KERNEL;  // #GP: a vector load off its alignment
    siglongjmp(f->back, 1);
}

static void install_handlers() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction a;
        memset(&a, 0, sizeof a);
        a.sa_sigaction = on_fault;
        a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
        sigfillset(&a.sa_mask);
        for (int sig : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(sig, &a, &previous[sig]);
    });
}

// Each thread that enters guarded has a stack for the handler: the fault may be an overflow of the stack it runs on.
static void give_signal_stack() {
    static thread_local bool given = false;
    if (given) return;
    given = true;
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE)) return;
    const size_t size = 64 << 10;
    void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t s = {};
    s.ss_sp = p;
    s.ss_size = size;
    if (p != MAP_FAILED) sigaltstack(&s, nullptr);
}

// guarded runs f and reports whether it ended. If it touched what it must not, fault says what; objects on the stacks between
// are abandoned, so f must hold no lock.
bool guarded(const std::function<void()>& f, Fault700* fault) {
    install_handlers();
    give_signal_stack();
    GuardFrame frame;
    frame.address = 0;
    frame.signal = frame.write = frame.misaligned = 0;
    GuardFrame* const outer = guard_frame;
    if (sigsetjmp(frame.back, 1)) {
        guard_frame = outer;
        fault->signal = frame.signal;
        fault->address = frame.address;
        fault->write = frame.write;
        fault->misaligned = frame.misaligned;
        return false;
    }
    guard_frame = &frame;
    f();
    guard_frame = outer;
    return true;
}

// guarded_work turns a fault into a result and a message that names the memory. where says what was running, if it knows.
CUresult guarded_work(const std::string& what, const std::function<void()>& f,
                      const std::function<std::string(uint64_t)>& where) {
    Fault700 fault;
    if (guarded(f, &fault)) return CUDA_SUCCESS;
    const std::string place = where ? where(fault.address) : "";
    Lock lock(g.mu);
    if (fault.signal == SIGFPE || fault.signal == SIGILL) {
        note(what + place + (fault.signal == SIGFPE ? ": integer division by zero" : ": trap"));
        return CUDA_ERROR_LAUNCH_FAILED;
    }
    if (fault.misaligned) {
        note(what + place + ": misaligned or non-canonical address");
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    }
    note(what + place + ": illegal " + (fault.write ? "write to " : "read of ") + describe(fault.address));
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

}  // namespace fake
