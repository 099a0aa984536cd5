// The calls about streams. How they work is in queue.cc.
#include <algorithm>

#include "fake.h"

using fake::StreamRef;

static CUresult make_stream(fake::Call& call, CUstream* out, unsigned flags, int priority) {
    if (!out || (flags & ~1u)) return CUDA_ERROR_INVALID_VALUE;
    StreamRef s = fake::new_stream(call.ctx, flags, priority);
    s->made_by = call.made_by();
    s->handle = *out = (CUstream)g.streams.put(s);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream* out, unsigned flags) {
    API(CONTEXT);
    return make_stream(call, out, flags, 0);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
    API(CONTEXT);
    return make_stream(call, out, flags, priority);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream h) {
    API(CONTEXT);
    StreamRef s = g.streams.get(h);
    if (!s) return call.fail(CUDA_ERROR_INVALID_HANDLE, "this stream does not exist (any more)");
    if (s->capture) {
        fake::invalidate(s->capture);
        return call.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing");
    }
    s->held = false;
    g.streams.live.erase((uintptr_t)h);
    fake::close_stream(s);
    g.progress.notify_all();
    return CUDA_SUCCESS;
}

// not_capturing is for calls that look at a stream's progress.
static CUresult not_capturing(fake::Call& call, const StreamRef& s) {
    if (!s->capture) return CUDA_SUCCESS;
    fake::invalidate(s->capture);
    return call.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing");
}

EXPORT CUresult cuStreamSynchronize(CUstream h) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (CUresult r = not_capturing(call, s)) return r;
    if (CUresult r = fake::capture_forbids(call)) return r;
    if (CUresult r = fake::check_implicit(call, s)) return r;
    fake::Point end = fake::tail(s);
    if (s == s->ctx->legacy) {
        fake::Work marker;
        marker.what = "synchronisation of the NULL stream";
        end = fake::enqueue(s, marker);
    }
    CUresult r = fake::wait_for(call.lock, s->ctx, {end});
    if (r == CUDA_SUCCESS) fake::release_idle_pools(s->ctx->device);
    return r;
}

EXPORT CUresult cuStreamQuery(CUstream h) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (CUresult r = not_capturing(call, s)) return r;
    std::vector<fake::Point> ends = {fake::tail(s)};
    fake::add_implied(s, &ends);
    if (s->ctx->sticky != CUDA_SUCCESS) return s->ctx->sticky;
    return std::all_of(ends.begin(), ends.end(), [](const fake::Point& p) { return p.reached(); }) ? CUDA_SUCCESS
                                                                                                   : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamGetFlags(CUstream h, unsigned* out) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = s->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetPriority(CUstream h, int* out) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = s->priority;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetId(CUstream h, unsigned long long* out) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = s->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCtx(CUstream h, CUcontext* out) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = s->ctx->handle;
    return CUDA_SUCCESS;
}

// runs_callback runs a function of the caller in stream order. It must not call the driver.
static CUresult runs_callback(const std::function<void()>& f) {
    fake::in_callback = true;
    f();
    fake::in_callback = false;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream h, CUhostFn fn, void* data) {
    API(CONTEXT);
    if (!fn) return CUDA_ERROR_INVALID_VALUE;
    fake::Work w;
    w.kind = fake::HOST;
    w.what = call.made_by();
    w.run = [=] { return runs_callback([=] { fn(data); }); };
    return fake::submit(call, h, w);
}

EXPORT CUresult cuStreamAddCallback(CUstream h, CUstreamCallback fn, void* data, unsigned flags) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!fn || flags) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = not_capturing(call, s)) return r;
    fake::Work w;
    w.kind = fake::ADMIN;  // called after errors too, with the error
    w.what = call.made_by();
    fake::ContextRef ctx = s->ctx;
    w.run = [=] { return runs_callback([=] { fn(h, ctx->sticky, data); }); };
    return fake::submit(call, h, w);
}
