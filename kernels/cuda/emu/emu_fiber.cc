// Fibers: stacks that are switched by hand, and the engine of an OS thread that they belong to.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "emu_engine.h"

namespace gk {

__thread Current* current __attribute__((tls_model("initial-exec"), visibility("hidden"))) = nullptr;

// gk_switch saves the callee's registers on the stack, leaves its stack pointer in *save and goes on from load.
asm(R"(
.text
.hidden gk_switch
.globl gk_switch
.type gk_switch, @function
gk_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size gk_switch, .-gk_switch
)");

// prepare makes a fiber begin at fiber_main when it is switched to. The stack is as after a call: 8 off a multiple of 16.
void prepare(Fiber* f) {
    void** top = (void**)(f->stack + STACK);
    *--top = nullptr;
    *--top = (void*)fiber_main;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    f->sp = top;
}

// new_fiber maps a stack with a page below it that cannot be touched.
static Fiber* new_fiber(Engine* e) {
    if (e->fibers == MAX_THREADS) abort();  // each thread has at most one
    char* p = (char*)mmap(nullptr, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    mprotect(p, PAGE, PROT_NONE);
    Fiber* f = &e->all[e->fibers++];
    f->stack = p + PAGE;
    prepare(f);
    return f;
}

Fiber* take_fiber(Engine* e) {
    Fiber* f = e->free;
    if (!f) return new_fiber(e);
    e->free = f->next_free;
    return f;
}

void give_fiber(Engine* e, Fiber* f) {
    f->next_free = e->free;
    e->free = f;
}

static void free_engine(void* p) {
    Engine* e = (Engine*)p;
    for (int i = 0; i < e->fibers; i++) munmap(e->all[i].stack - PAGE, STACK + PAGE);
    for (Warp* w : e->warps) free(w);
    for (Copies& c : e->copies) free(c.list);
    if (e->shared_memory) munmap(e->shared_memory, (size_t)SHARED_ARRAYS * SHARED_ROOM);
    free(e->all);
    free(e);
    current = nullptr;
}

Engine* engine() {
    if (current) return own();
    static pthread_key_t key;
    static const int failed = pthread_key_create(&key, free_engine);
    Engine* e = (Engine*)calloc(1, sizeof(Engine));
    e->all = (Fiber*)calloc(MAX_THREADS, sizeof(Fiber));
    if (!failed) pthread_setspecific(key, e);
    current = e;
    return e;
}

}  // namespace gk
