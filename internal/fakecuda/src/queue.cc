// Streams: a queue and a worker thread each. The thread is started by the first work and ends when the stream is destroyed
// and drained.
//
// The NULL stream (legacy default stream) has the old semantics: its work waits for what was put on every blocking stream of
// the context before it, and what is put on a blocking stream afterwards waits for it. Streams made with
// CU_STREAM_NON_BLOCKING take no part in that.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "fake.h"

namespace fake {

bool Point::reached() const { return !stream || stream->completed >= seq; }

double now_ms() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static bool may_start(const Stream& s, const Command& c) {
    if (g.stopping) return true;
    if (g.held || s.held) return false;
    return std::all_of(c.after.begin(), c.after.end(), [](const Point& p) { return p.reached(); });
}

// pause makes work take as long as the test asked for. The jitter is a function of stream and position: runs repeat.
static void pause(const Stream& s, uint64_t seq) {
    uint64_t us = g.knobs.work_delay_us;
    if (g.knobs.work_jitter_us) us += (s.id * 7919 + seq * 104729) % 997 * g.knobs.work_jitter_us / 997;
    if (us) usleep(us);
}

// run_one runs the first command of s. Work in a broken context is skipped; its points are reached all the same.
static void run_one(Lock& lock, const StreamRef& s) {
    Command c = std::move(s->queue.front());
    const ContextRef ctx = s->ctx;
    if (!g.stopping && (ctx->sticky == CUDA_SUCCESS || c.work.kind == ADMIN)) {
        CUresult r = c.work.kind == ADMIN ? CUDA_SUCCESS : take_fault("work");
        ++g.total_work;
        lock.unlock();
        pause(*s, c.seq);
        if (r != CUDA_SUCCESS) c.work.run = nullptr;
        if (c.work.run) r = c.work.run();
        c.work.run = nullptr;  // what it held is let go without the lock
        lock.lock();
        if (r != CUDA_SUCCESS) poison(ctx, r, c.work.what);
    }
    s->queue.pop_front();
    s->completed = c.seq;
    g.progress.notify_all();
}

static void* worker(void* arg) {
    StreamRef s = *(StreamRef*)arg;
    delete (StreamRef*)arg;
    Lock lock(g.mu);
    for (;;) {
        s->arrived.wait(lock, [&] { return s->closing || !s->queue.empty(); });
        if (s->queue.empty()) break;
        g.progress.wait(lock, [&] { return may_start(*s, s->queue.front()); });
        run_one(lock, s);
    }
    auto& of_context = s->ctx->streams;
    of_context.erase(std::remove(of_context.begin(), of_context.end(), s), of_context.end());
    --g.workers;
    g.progress.notify_all();
    return nullptr;
}

// start_worker makes the thread with all signals blocked, so that the process's signals go to threads that expect them.
// Faults of an instruction come through all the same when they are not blocked, which they are not.
static void start_worker(const StreamRef& s) {
    sigset_t all, before;
    sigfillset(&all);
    for (int sig : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, sig);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    s->started = true;
    ++g.workers;
    if (pthread_create(&thread, nullptr, worker, new StreamRef(s)) != 0) abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

static Point tail(const StreamRef& s) {
    Point p;
    p.stream = s;
    p.seq = s->submitted;
    return p;
}

// tails are the ends of all streams of a context, those included that are destroyed but not drained.
std::vector<Point> tails(const Context& ctx) {
    std::vector<Point> out;
    for (auto& s : ctx.streams) out.push_back(tail(s));
    return out;
}

// implied are the points that the NULL stream's rule adds.
static void add_implied(const StreamRef& s, std::vector<Point>* after) {
    const Context& ctx = *s->ctx;
    if (s == ctx.legacy) {
        for (auto& other : ctx.streams)
            if (other != s && other->blocking()) after->push_back(tail(other));
    } else if (s->blocking() && ctx.legacy) {
        after->push_back(tail(ctx.legacy));
    }
    after->erase(std::remove_if(after->begin(), after->end(), [](const Point& p) { return p.reached(); }), after->end());
}

// enqueue puts work behind everything on s, and behind the given points. It returns the work's own point.
Point enqueue(const StreamRef& s, Work w, std::vector<Point> after) {
    add_implied(s, &after);
    if (!s->started) {
        start_worker(s);
        if (charge(s->ctx->device, g.knobs.stream_bytes)) s->ctx->own_bytes += g.knobs.stream_bytes;
    }
    Command c = {++s->submitted, std::move(w), std::move(after)};
    s->queue.push_back(std::move(c));
    s->arrived.notify_one();
    return tail(s);
}

// wait_for blocks the caller, and answers what the context has come to.
CUresult wait_for(Lock& lock, const ContextRef& ctx, const std::vector<Point>& points) {
    g.progress.wait(lock, [&] {
        return g.stopping || std::all_of(points.begin(), points.end(), [](const Point& p) { return p.reached(); });
    });
    return ctx->sticky;
}

// wait_for_device is the implicit synchronisation of calls that free memory.
void wait_for_device(Lock& lock, int device) {
    std::vector<Point> points;
    ContextRef any;
    for (auto& e : g.contexts.live)
        if (device < 0 || e.second->device == device) {
            any = e.second;
            for (auto& p : tails(*e.second)) points.push_back(p);
        }
    if (any) wait_for(lock, any, points);
}

// find_stream looks a handle up in the current context.
CUresult find_stream(Call& call, CUstream h, StreamRef* out) {
    if (h == nullptr || h == CU_STREAM_LEGACY) {
        *out = call.ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (h == CU_STREAM_PER_THREAD) return call.fail(CUDA_ERROR_NOT_SUPPORTED, "per-thread default streams are not emulated");
    StreamRef s = g.streams.get(h);
    if (!s) return call.fail(CUDA_ERROR_INVALID_HANDLE, "this stream does not exist (any more)");
    *out = s;
    return CUDA_SUCCESS;
}

static CUresult check_implicit(Call& call, const StreamRef& s) {
    if (s != call.ctx->legacy) return CUDA_SUCCESS;
    for (auto& other : call.ctx->streams)
        if (other->capture && other->blocking()) {
            invalidate(other->capture);
            return call.fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                             "the NULL stream was used while a blocking stream is capturing");
        }
    return CUDA_SUCCESS;
}

// submit puts work on a stream, or into the graph that the stream is capturing.
CUresult submit(Call& call, CUstream h, Work w) {
    StreamRef s;
    if (CUresult r = find_stream(call, h, &s)) return r;
    if (s->ctx != call.ctx)
        return call.fail(CUDA_ERROR_INVALID_HANDLE, "the stream belongs to another context than the current one");
    if (s->capture) return capture_node(call, s, std::move(w));
    if (CUresult r = check_implicit(call, s)) return r;
    enqueue(s, std::move(w));
    return CUDA_SUCCESS;
}

CUresult submit_and_wait(Call& call, CUstream h, Work w) {
    StreamRef s;
    if (CUresult r = find_stream(call, h, &s)) return r;
    if (s->ctx != call.ctx)
        return call.fail(CUDA_ERROR_INVALID_HANDLE, "the stream belongs to another context than the current one");
    if (CUresult r = check_implicit(call, s)) return r;
    return wait_for(call.lock, call.ctx, {enqueue(s, std::move(w))});
}

StreamRef new_stream(const ContextRef& ctx, unsigned flags, int priority) {
    StreamRef s = std::make_shared<Stream>();
    s->ctx = ctx;
    s->flags = flags;
    s->priority = std::min(0, std::max(-5, priority));
    s->id = g.stream_ids++;
    ctx->streams.push_back(s);
    return s;
}

// close_stream lets the worker end once it has drained the queue.
void close_stream(const StreamRef& s) {
    s->closing = true;
    s->arrived.notify_all();
    if (s->started) return;
    auto& of_context = s->ctx->streams;
    of_context.erase(std::remove(of_context.begin(), of_context.end(), s), of_context.end());
}

// stop_workers drops what has not begun and waits for all worker threads to end.
void stop_workers(Lock& lock) {
    g.stopping = true;
    g.held = false;
    for (auto& c : g.contexts.live)
        for (const StreamRef& s : std::vector<StreamRef>(c.second->streams)) close_stream(s);
    g.progress.notify_all();
    g.progress.wait(lock, [] { return g.workers == 0; });
    for (auto& c : g.contexts.live) c.second->legacy = nullptr;
    g.stopping = false;
}

}  // namespace fake
