// Events: a point in a stream's order, with the time when it was reached.
#include "fake.h"

using fake::StreamRef;
using EventRef = std::shared_ptr<fake::Event>;

static CUresult find_event(fake::Call& call, CUevent h, EventRef* out) {
    *out = g.events.get(h);
    return *out ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_HANDLE, "this event does not exist (any more)");
}

EXPORT CUresult cuEventCreate(CUevent* out, unsigned flags) {
    API(CONTEXT);
    if (!out || (flags & ~7u)) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    EventRef e = std::make_shared<fake::Event>();
    e->ctx = call.ctx;
    e->flags = flags;
    e->made_by = call.made_by();
    *out = (CUevent)g.events.put(e);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent h) {
    API(CONTEXT);
    EventRef e;
    if (CUresult r = find_event(call, h, &e)) return r;
    g.events.live.erase((uintptr_t)h);
    return CUDA_SUCCESS;
}

// record makes e stand for the end of s. In a capture it stands for the nodes there, and has no time.
static CUresult record(fake::Call& call, CUevent h, CUstream stream, unsigned flags) {
    EventRef e;
    StreamRef s;
    if (CUresult r = find_event(call, h, &e)) return r;
    if (CUresult r = fake::find_stream(call, stream, &s)) return r;
    if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
    if (e->ctx != s->ctx) return call.fail(CUDA_ERROR_INVALID_HANDLE, "event and stream belong to different contexts");
    if (s->capture) {
        if (flags & 1) return call.fail(CUDA_ERROR_NOT_SUPPORTED, "external events in a capture are not emulated");
        if (s->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        e->recorded = true;
        e->capture = s->capture;
        e->tips = s->tips;
        return CUDA_SUCCESS;
    }
    if (CUresult r = fake::check_implicit(call, s)) return r;
    e->recorded = true;
    e->capture = nullptr;
    e->tips.clear();
    auto ms = e->ms = std::make_shared<double>(0);
    fake::Work w;
    w.what = call.made_by();
    w.run = [ms] {
        *ms = fake::now_ms();
        return CUDA_SUCCESS;
    };
    e->point = fake::enqueue(s, w);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent h, CUstream stream) {
    API(CONTEXT);
    return record(call, h, stream, 0);
}

EXPORT CUresult cuEventRecordWithFlags(CUevent h, CUstream stream, unsigned flags) {
    API(CONTEXT);
    return record(call, h, stream, flags);
}

// not_captured is for calls that look at an event's progress: one that was recorded into a capture has none.
static CUresult not_captured(fake::Call& call, const EventRef& e) {
    if (!e->capture) return CUDA_SUCCESS;
    fake::invalidate(e->capture);
    return call.fail(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture");
}

EXPORT CUresult cuEventQuery(CUevent h) {
    API(CONTEXT);
    EventRef e;
    if (CUresult r = find_event(call, h, &e)) return r;
    if (CUresult r = not_captured(call, e)) return r;
    if (CUresult r = fake::capture_forbids(call)) return r;
    if (e->ctx->sticky != CUDA_SUCCESS) return e->ctx->sticky;
    return e->point.reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(CUevent h) {
    API(CONTEXT);
    EventRef e;
    if (CUresult r = find_event(call, h, &e)) return r;
    if (CUresult r = not_captured(call, e)) return r;
    if (CUresult r = fake::capture_forbids(call)) return r;
    CUresult r = fake::wait_for(call.lock, e->ctx, {e->point});
    if (r == CUDA_SUCCESS) fake::release_idle_pools(e->ctx->device);
    return r;
}

static CUresult elapsed(fake::Call& call, float* out, CUevent from, CUevent to) {
    EventRef a, b;
    if (CUresult r = find_event(call, from, &a)) return r;
    if (CUresult r = find_event(call, to, &b)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = not_captured(call, a)) return r;
    if (CUresult r = not_captured(call, b)) return r;
    if (!a->recorded || !b->recorded) return call.fail(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
    if ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING)
        return call.fail(CUDA_ERROR_INVALID_HANDLE, "an event has no timing");
    if (a->ctx != b->ctx) return call.fail(CUDA_ERROR_INVALID_HANDLE, "the events belong to different contexts");
    if (a->ctx->sticky != CUDA_SUCCESS) return a->ctx->sticky;
    if (!a->point.reached() || !b->point.reached()) return CUDA_ERROR_NOT_READY;
    *out = (float)(*b->ms - *a->ms);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float* out, CUevent from, CUevent to) {
    API(CONTEXT);
    return elapsed(call, out, from, to);
}

EXPORT CUresult cuEventElapsedTime_v2(float* out, CUevent from, CUevent to) {
    API(CONTEXT);
    return elapsed(call, out, from, to);
}

// join makes the capture of the event go on in s as well, and what follows on s depend on what the event stands for.
static CUresult join(fake::Call& call, const StreamRef& s, const EventRef& e) {
    const auto& capture = e->capture;
    if (capture->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->capture && s->capture != capture) {
        fake::invalidate(capture);
        fake::invalidate(s->capture);
        return call.fail(CUDA_ERROR_STREAM_CAPTURE_MERGE, "stream and event belong to two captures");
    }
    if (s == s->ctx->legacy) {
        fake::invalidate(capture);
        return call.fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the NULL stream cannot take part in a capture");
    }
    if (!s->capture) {
        s->capture = capture;
        s->tips.clear();
        capture->streams.push_back(s);
    }
    for (auto& n : e->tips) {
        bool there = false;
        for (auto& t : s->tips) there = there || t == n;
        if (!there) s->tips.push_back(n);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent h, unsigned flags) {
    API(CONTEXT);
    EventRef e;
    StreamRef s;
    if (CUresult r = fake::find_stream(call, stream, &s)) return r;
    if (CUresult r = find_event(call, h, &e)) return r;
    if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
    if (e->capture && e->capture->status != CU_STREAM_CAPTURE_STATUS_NONE) return join(call, s, e);
    if (e->capture) return call.fail(CUDA_ERROR_CAPTURED_EVENT, "the capture that the event was recorded in has ended");
    if (s->capture) {
        if (!e->recorded) return CUDA_SUCCESS;
        fake::invalidate(s->capture);
        return call.fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a capturing stream waits for an event of outside");
    }
    if (CUresult r = fake::check_implicit(call, s)) return r;
    if (!e->recorded || e->point.reached()) return CUDA_SUCCESS;
    fake::Work w;
    w.what = call.made_by();
    fake::enqueue(s, w, {e->point});
    return CUDA_SUCCESS;
}
