// NCCL on emulated devices: communicators, groups of calls, and what is refused. Where the library would go on with something undefined,
// this one refuses and notes a finding.
#include "nccl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

EXPORT const char* ncclGetErrorString(int code);

namespace fake {

static Table<NcclComm>& nccl_comms() {
    static auto& t = *new Table<NcclComm>(13);
    return t;
}

// What a thread has collected between ncclGroupStart and ncclGroupEnd.
struct NcclGroup {
    int depth = 0, error = ncclSuccess;
    std::vector<std::pair<NcclRef, NcclTask>> tasks;
    uint64_t epoch = 0;
};

// nccl_group is this thread's: an empty one after a reset. Under the lock.
static NcclGroup& nccl_group() {
    static thread_local NcclGroup group;
    if (group.epoch != g.epoch) {
        group = NcclGroup();
        group.epoch = g.epoch;
    }
    return group;
}

static int nccl_refuse(Call& call, int code, const std::string& why, NcclComm* c = nullptr) {
    if (c) c->error = why;
    note(format("%s: %s: %s", call.made_by().c_str(), ncclGetErrorString(code), why.c_str()));
    if (nccl_group().depth) nccl_group().error = code;
    return code;
}

// run_detached runs f on a thread of its own, without signals.
static void run_detached(std::function<void()> f) {
    auto* held = new std::function<void()>(std::move(f));
    pthread_t thread;
    auto main = [](void* arg) -> void* {
        auto* f = (std::function<void()>*)arg;
        (*f)();
        delete f;
        return nullptr;
    };
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, nullptr, main, held) != 0) abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// nccl_ready finds a communicator whose calls may be made, in its context.
static int nccl_ready(Call& call, void* h, NcclRef* out) {
    NcclRef c = nccl_comms().get(h);
    if (!c) return nccl_refuse(call, ncclInvalidArgument, "this communicator does not exist (any more)");
    ContextRef ctx = current_context();
    if (!ctx || ctx != c->ctx) return nccl_refuse(call, ncclInvalidUsage, "the current context is not the communicator's", c.get());
    if (c->polls > 0 || c->state == ncclInProgress)
        return nccl_refuse(call, ncclInvalidArgument, "the communicator is used before the call before has returned ncclSuccess", c.get());
    if (c->finalized) return nccl_refuse(call, ncclInvalidUsage, "the communicator is used after ncclCommFinalize", c.get());
    if (c->state != ncclSuccess) return c->state;
    call.ctx = ctx;
    *out = c;
    return ncclSuccess;
}

// in_progress is what a call of a communicator that does not block may say.
static int in_progress(const NcclRef& c) {
    c->polls = g.knobs.nccl_in_progress;
    return c->polls > 0 ? ncclInProgress : ncclSuccess;
}

// wrong_memory returns what is wrong with a task's memory, or "".
static std::string wrong_memory(const NcclComm& c, const NcclTask& t) {
    const size_t bytes = t.call.count * nccl_size(t.call.type);
    size_t send = bytes, recv = bytes;
    if (t.call.what == NCCL_REDUCE_SCATTER) send *= c.size;
    if (t.call.what == NCCL_ALL_GATHER) recv *= c.size;
    const bool sends = t.call.what != NCCL_RECV && (t.call.what != NCCL_BROADCAST || c.rank == t.call.root), receives = t.call.what != NCCL_SEND;
    if (sends) {
        const std::string why = check_range(t.send, send);
        if (!why.empty()) return "send buffer: " + why;
    }
    if (receives) {
        const std::string why = check_range(t.recv, recv);
        if (!why.empty()) return "receive buffer: " + why;
    }
    if (!sends || !receives || t.send + send <= t.recv || t.recv + recv <= t.send) return "";
    const uint64_t want = t.call.what == NCCL_REDUCE_SCATTER   ? t.send + c.rank * bytes
                          : t.call.what == NCCL_ALL_GATHER ? t.send - c.rank * bytes
                                                           : t.send;
    return t.recv == want ? "" : "the buffers overlap, and not as in place";
}

static std::string wrong_call(const NcclComm& c, const NcclTask& t) {
    const size_t width = nccl_size(t.call.type);
    const bool reduces = t.call.what == NCCL_ALL_REDUCE || t.call.what == NCCL_REDUCE_SCATTER;
    if (width == 0) return format("type %d is not emulated", t.call.type);
    if (reduces && t.call.type < ncclInt64) return format("reductions of type %d are not emulated", t.call.type);
    if (reduces && t.call.op != ncclSum && t.call.op != ncclMax && t.call.op != ncclMin && t.call.op != ncclAvg)
        return format("operation %d is not emulated", t.call.op);
    if (t.call.root < 0 || t.call.root >= c.size) return format("root or peer %d", t.call.root);
    if (t.send % width || t.recv % width) return "a buffer is not aligned to its type";
    return wrong_memory(c, t);
}

// put_work enqueues tasks that are done together, behind the communicator's last ones.
static int put_work(Call& call, const NcclRef& c, const std::vector<NcclTask>& tasks) {
    StreamRef s;
    if (find_stream(call, tasks[0].stream, &s) != CUDA_SUCCESS || s->ctx != c->ctx)
        return nccl_refuse(call, ncclInvalidArgument, "the stream is not of the communicator's device", c.get());
    for (auto& t : tasks)
        if (t.stream != tasks[0].stream) return nccl_refuse(call, ncclInvalidUsage, "sends and receives of one group on several streams are not emulated", c.get());
    const std::string what = tasks[0].call.text() + " made by " + tasks[0].made_by;
    Work w = {KERNEL, what, [c, tasks, what] {
                  CUresult r = guarded_work(what, [&] {
                      if (tasks[0].call.what < NCCL_SEND)
                          nccl_perform(c.get(), tasks[0]);
                      else
                          nccl_exchange(c.get(), tasks);
                  });
                  return r;
              }};
    if (s->capture) return capture_node(call, s, std::move(w)) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
    c->last = enqueue(s, std::move(w), {c->last});
    return ncclSuccess;
}

// launch enqueues what a group has collected: collectives in order, then all sends and receives of a communicator as one.
static int launch(Call& call, std::vector<std::pair<NcclRef, NcclTask>> tasks) {
    std::map<NcclComm*, std::vector<NcclTask>> messages;
    std::map<NcclComm*, NcclRef> comms;
    for (auto& [c, t] : tasks) {
        comms[c.get()] = c;
        if (t.call.what >= NCCL_SEND)
            messages[c.get()].push_back(t);
        else if (int r = put_work(call, c, {t}))
            return r;
    }
    for (auto& [c, list] : messages)
        if (int r = put_work(call, comms[c], list)) return r;
    int result = ncclSuccess;
    for (auto& e : comms)
        if (int r = in_progress(e.second)) result = r;
    return result;
}

// add takes one call: into the thread's group, or as a group of its own.
static int add(Call& call, void* h, NcclTask t) {
    NcclRef c;
    if (int r = nccl_ready(call, h, &c)) {
        if (nccl_group().depth) nccl_group().error = r;
        return r;
    }
    if (t.call.count == 0) return ncclSuccess;
    const std::string why = wrong_call(*c, t);
    if (!why.empty()) return nccl_refuse(call, ncclInvalidArgument, why, c.get());
    t.made_by = call.made_by();
    if (nccl_group().depth) {
        nccl_group().tasks.push_back({c, t});
        return ncclSuccess;
    }
    if (t.call.what >= NCCL_SEND && t.call.root == c->rank)
        return nccl_refuse(call, ncclInvalidUsage, "a message to the rank itself needs its other end in the same group", c.get());
    return launch(call, {{c, t}});
}

// join waits for the other ranks, on a thread of its own.
static void join(const NcclRef& c) {
    auto& own = c->segment->ranks[c->rank];
    int none = 0, result = ncclSuccess, size = 0;
    if (!c->segment->size.compare_exchange_strong(size, c->size) && size != c->size) result = ncclInvalidArgument;
    if (!own.pid.compare_exchange_strong(none, getpid())) result = ncclInvalidUsage;
    if (result == ncclSuccess) {
        own.device = c->ctx->device + 1;
        if (!nccl_barrier(c.get())) result = ncclInternalError;
        for (int r = 0; r < c->size && result == ncclSuccess; r++) {
            auto& other = c->segment->ranks[r];
            if (r != c->rank && other.pid == own.pid && other.device == own.device) result = ncclInvalidUsage;  // "Duplicate GPU detected"
        }
    }
    unlink(c->path.c_str());
    Lock lock(g.mu);
    if (result != ncclSuccess && !c->aborted) note(c->made_by + ": the ranks do not make a communicator: " + c->name());
    c->initialised = true;
    c->state = result;
    g.progress.notify_all();
}

// new_comm begins to make a communicator; join goes on.
static int new_comm(Call& call, void** out, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
    call.ctx = current_context();
    if (!call.ctx) return nccl_refuse(call, ncclUnhandledCudaError, "no context is current");
    if (nccl_group().depth) return nccl_refuse(call, ncclInvalidUsage, "communicators are not made in groups here");
    if (size < 1 || size > nccl_ranks || rank < 0 || rank >= size) return nccl_refuse(call, ncclInvalidArgument, format("rank %d of %d", rank, size));
    if (!config || config->size < sizeof *config || config->magic != 0xcafebeef || config->version < 21400 || config->blocking != 0)
        return nccl_refuse(call, ncclInvalidArgument, "a configuration that is not one of NCCL's, or that blocks");
    if (strncmp(id.internal, "fakenccl-", 9) != 0 || id.internal[127] != 0) return nccl_refuse(call, ncclInvalidArgument, "this is no unique id");
    auto c = std::make_shared<NcclComm>();
    c->ctx = call.ctx;
    c->made_by = call.made_by();
    c->rank = rank;
    c->size = size;
    c->path = std::string("/dev/shm/") + id.internal;
    if (!nccl_map(c.get())) return nccl_refuse(call, ncclSystemError, "no shared memory: " + c->path);
    *out = (void*)nccl_comms().put(c);
    run_detached([c] { join(c); });
    return ncclInProgress;
}

// finalize waits for the communicator's work and for the other ranks.
static void finalize(const NcclRef& c) {
    bool done = nccl_wait(c.get(), [&] {
        Lock lock(g.mu);
        return c->last.reached();
    });
    NcclCall end;
    end.what = NCCL_FINALIZE;
    if (done && nccl_agree(c.get(), end)) c->state = ncclSuccess;
}

// drop ends a communicator: what runs of it ends too.
static void drop(Lock& lock, void* h, const NcclRef& c) {
    if (!c->finalized || c->aborted) {
        c->segment->ranks[c->rank].gone = 1;
        unlink(c->path.c_str());
    }
    g.progress.wait(lock, [&] { return c->initialised && (c->last.reached() || g.stopping); });
    nccl_comms().live.erase((uintptr_t)h);
}

void abort_nccl() {
    for (auto& e : nccl_comms().live) {
        e.second->aborted = true;
        e.second->segment->ranks[e.second->rank].gone = 1;
        unlink(e.second->path.c_str());
    }
}

void forget_nccl() { nccl_comms().live.clear(); }

std::string nccl_leaks() {
    std::string out;
    for (auto& e : nccl_comms().live) out += "NCCL communicator made by " + e.second->made_by + "\n";
    return out;
}

}  // namespace fake

using fake::NcclCall;
using fake::NcclComm;
using fake::NcclRef;
using fake::NcclTask;

#define NCCL()                       \
    fake::Call call(__func__, ANY_TIME); \
    if (call.result != CUDA_SUCCESS) return (int)call.result

EXPORT const char* ncclGetErrorString(int code) {
    switch (code) {
        case fake::ncclSuccess: return "no error";
        case fake::ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case fake::ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case fake::ncclInternalError: return "internal error - please report this issue to the NCCL developers";
        case fake::ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case fake::ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case fake::ncclRemoteError: return "remote process exited or there was a network error";
        case fake::ncclInProgress: return "NCCL operation in progress";
    }
    return "unknown result code";
}

EXPORT const char* ncclGetLastError(void* h) {
    static thread_local std::string text;
    fake::Lock lock(g.mu);
    NcclRef c = fake::nccl_comms().get(h);
    text = c ? c->error : "";
    return text.c_str();
}

EXPORT int ncclGetVersion(int* out) {
    NCCL();
    *out = g.knobs.nccl_version;
    return fake::ncclSuccess;
}

EXPORT int ncclGetUniqueId(fake::ncclUniqueId* out) {
    NCCL();
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return fake::ncclSystemError;
    memset(out, 0, sizeof *out);
    std::string name = "fakenccl-";
    for (unsigned char b : random) name += fake::format("%02x", b);
    memcpy(out->internal, name.data(), name.size());
    return fake::ncclSuccess;
}

EXPORT int ncclCommInitRankConfig(void** out, int size, fake::ncclUniqueId id, int rank, const fake::ncclConfig_t* config) {
    NCCL();
    return fake::new_comm(call, out, size, id, rank, config);
}

EXPORT int ncclCommInitRankScalable(void** out, int size, int rank, int ids, const fake::ncclUniqueId* id, const fake::ncclConfig_t* config) {
    NCCL();
    if (ids != 1 || !id) return fake::nccl_refuse(call, fake::ncclInvalidArgument, "other numbers of unique ids than one are not emulated");
    return fake::new_comm(call, out, size, *id, rank, config);
}

EXPORT int ncclCommGetAsyncError(void* h, int* out) {
    NCCL();
    NcclRef c = fake::nccl_comms().get(h);
    if (!c) return fake::nccl_refuse(call, fake::ncclInvalidArgument, "this communicator does not exist (any more)");
    *out = c->polls > 0 ? (int)fake::ncclInProgress : g.knobs.nccl_async && c->initialised ? g.knobs.nccl_async : c->state.load();
    if (c->polls > 0) --c->polls;
    return fake::ncclSuccess;
}

EXPORT int ncclCommFinalize(void* h) {
    NCCL();
    NcclRef c;
    if (int r = fake::nccl_ready(call, h, &c)) return r;
    c->finalized = true;
    c->state = fake::ncclInProgress;
    fake::run_detached([c] { fake::finalize(c); });
    return fake::ncclInProgress;
}

EXPORT int ncclCommDestroy(void* h) {
    NCCL();
    NcclRef c = fake::nccl_comms().get(h);
    if (!c) return fake::nccl_refuse(call, fake::ncclInvalidArgument, "this communicator does not exist (any more)");
    if (c->state == fake::ncclInProgress) return fake::nccl_refuse(call, fake::ncclInvalidUsage, "the communicator is destroyed before it is finalized", c.get());
    fake::drop(call.lock, h, c);
    return fake::ncclSuccess;
}

EXPORT int ncclCommAbort(void* h) {
    NCCL();
    NcclRef c = fake::nccl_comms().get(h);
    if (!c) return fake::nccl_refuse(call, fake::ncclInvalidArgument, "this communicator does not exist (any more)");
    c->aborted = true;
    fake::drop(call.lock, h, c);
    return fake::ncclSuccess;
}

EXPORT int ncclGroupStart() {
    NCCL();
    auto& group = fake::nccl_group();
    if (group.depth++ == 0) {
        group.error = fake::ncclSuccess;
        group.tasks.clear();
    }
    return fake::ncclSuccess;
}

EXPORT int ncclGroupEnd() {
    fake::Call call(__func__, ANY_TIME);
    if (call.result != CUDA_SUCCESS) {  // a group that could not be launched has ended too
        fake::nccl_group().depth = 0;
        fake::nccl_group().tasks.clear();
        return (int)call.result;
    }
    if (fake::nccl_group().depth == 0) return fake::nccl_refuse(call, fake::ncclInvalidUsage, "this thread has begun no group");
    if (--fake::nccl_group().depth > 0) return fake::ncclSuccess;
    auto tasks = std::move(fake::nccl_group().tasks);
    fake::nccl_group().tasks.clear();
    if (fake::nccl_group().error) return fake::nccl_group().error;
    call.ctx = fake::current_context();
    return tasks.empty() ? (int)fake::ncclSuccess : fake::launch(call, std::move(tasks));
}

EXPORT int ncclBroadcast(uint64_t send, uint64_t recv, size_t count, int type, int root, void* comm, CUstream stream) {
    NCCL();
    return fake::add(call, comm, {{fake::NCCL_BROADCAST, type, 0, root, count}, send, recv, stream, ""});
}

EXPORT int ncclAllReduce(uint64_t send, uint64_t recv, size_t count, int type, int op, void* comm, CUstream stream) {
    NCCL();
    return fake::add(call, comm, {{fake::NCCL_ALL_REDUCE, type, op, 0, count}, send, recv, stream, ""});
}

EXPORT int ncclReduceScatter(uint64_t send, uint64_t recv, size_t count, int type, int op, void* comm, CUstream stream) {
    NCCL();
    return fake::add(call, comm, {{fake::NCCL_REDUCE_SCATTER, type, op, 0, count}, send, recv, stream, ""});
}

EXPORT int ncclAllGather(uint64_t send, uint64_t recv, size_t count, int type, void* comm, CUstream stream) {
    NCCL();
    return fake::add(call, comm, {{fake::NCCL_ALL_GATHER, type, 0, 0, count}, send, recv, stream, ""});
}

EXPORT int ncclSend(uint64_t send, size_t count, int type, int peer, void* comm, CUstream stream) {
    NCCL();
    return fake::add(call, comm, {{fake::NCCL_SEND, type, 0, peer, count}, send, 0, stream, ""});
}

EXPORT int ncclRecv(uint64_t recv, size_t count, int type, int peer, void* comm, CUstream stream) {
    NCCL();
    return fake::add(call, comm, {{fake::NCCL_RECV, type, 0, peer, count}, 0, recv, stream, ""});
}
