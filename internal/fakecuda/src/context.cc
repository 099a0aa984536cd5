// Devices' start, and contexts. A context is current to a thread, as in the real driver: each thread has a stack of them.
#include <string.h>

#include <algorithm>

#include "fake.h"

namespace fake {

thread_local bool in_callback = false;

struct ThreadState {
    uint64_t epoch = 0, number = 0;
    int capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::vector<CUcontext> stack;
};
static thread_local ThreadState thread_state;
static uint64_t threads_seen = 0;

static ThreadState& this_thread() {
    ThreadState& t = thread_state;
    if (t.epoch != g.epoch) {  // a reset: forget the contexts of before
        t.epoch = g.epoch;
        t.stack.clear();
        t.capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    }
    if (t.number == 0) t.number = ++threads_seen;
    return t;
}

int* capture_mode() { return &this_thread().capture_mode; }

uint64_t thread_number() { return this_thread().number; }

// current_context returns null if there is none. One that was destroyed while current says so.
ContextRef current_context() {
    const ThreadState& t = this_thread();
    if (t.stack.empty() || !t.stack.back()) return nullptr;
    if (ContextRef c = g.contexts.get(t.stack.back())) return c;
    ContextRef gone = std::make_shared<Context>();
    gone->destroyed = true;
    return gone;
}

void poison(const ContextRef& ctx, CUresult code, const std::string& why) {
    if (ctx->sticky != CUDA_SUCCESS) return;
    ctx->sticky = code;
    note(format("context of device %d is broken by %s: %s", ctx->device, result_name(code), why.c_str()));
}

static ContextRef make_context(int device, bool primary, unsigned flags) {
    ContextRef c = std::make_shared<Context>();
    c->device = device;
    c->primary = primary;
    c->flags = flags;
    c->refs = 1;
    c->handle = (CUcontext)g.contexts.put(c);
    c->legacy = std::make_shared<Stream>();
    c->legacy->ctx = c;
    c->legacy->id = g.stream_ids++;
    c->streams.push_back(c->legacy);
    return c;
}

// drop_objects takes what lives in ctx out of a table, and notes it as lost. After a broken context callers could not have
// freed anything, so nothing is noted.
template <class T>
static void drop_objects(Table<T>* table, const ContextRef& ctx, const char* kind) {
    for (auto i = table->live.begin(); i != table->live.end();) {
        if (i->second->ctx != ctx) {
            ++i;
            continue;
        }
        if (ctx->sticky == CUDA_SUCCESS)
            g.lost.push_back(
                format("%s made by %s, alive when its context was destroyed", kind, i->second->made_by.c_str()));
        i = table->live.erase(i);
    }
}

// destroy_context waits for the context's work and frees what is left in it.
void destroy_context(Lock& lock, const ContextRef& ctx) {
    wait_for(lock, ctx, tails(*ctx));
    drop_objects(&g.streams, ctx, "stream");
    drop_objects(&g.events, ctx, "event");
    drop_objects(&g.modules, ctx, "module");
    drop_objects(&g.graphs, ctx, "graph");
    drop_objects(&g.execs, ctx, "executable graph");
    for (auto i = g.functions.live.begin(); i != g.functions.live.end();)
        i = i->second->module->ctx == ctx ? g.functions.live.erase(i) : std::next(i);
    for (const StreamRef& s : std::vector<StreamRef>(ctx->streams)) close_stream(s);
    forget_memory(ctx);
    const uint64_t own = g.knobs.context_bytes + ctx->own_bytes + g.devices[ctx->device].graph_idle;
    g.devices[ctx->device].graph_idle = 0;
    g.devices[ctx->device].used -= std::min(g.devices[ctx->device].used, own);
    g.contexts.live.erase((uintptr_t)ctx->handle);
    if (ctx->primary) g.devices[ctx->device].primary = nullptr;
    ctx->destroyed = true;
    ctx->streams.clear();
}

static CUresult check_device(Call& call, CUdevice d) {
    if (d < 0 || d >= (int)g.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

}  // namespace fake

using fake::ContextRef;
using fake::format;

EXPORT CUresult cuInit(unsigned flags) {
    API(ANY_TIME);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (g.initialised) return CUDA_SUCCESS;
    if (g.knobs.devices <= 0) return CUDA_ERROR_NO_DEVICE;
    g.initialised = true;
    g.devices.resize(g.knobs.devices > 16 ? 16 : g.knobs.devices);
    for (size_t i = 0; i < g.devices.size(); i++) g.devices[i].total = g.knobs.memory[i];
    for (const fake::Process& p : g.knobs.processes)
        if (p.device < (int)g.devices.size()) g.devices[p.device].used += p.bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice d) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    fake::Device& device = g.devices[d];
    if (ContextRef c = g.contexts.get(device.primary)) {
        c->refs++;
    } else {
        if (!fake::charge(d, g.knobs.context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        device.primary = fake::make_context(d, true, device.primary_flags)->handle;
    }
    *out = device.primary;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    ContextRef c = g.contexts.get(g.devices[d].primary);
    if (!c) return call.fail(CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
    if (--c->refs == 0) fake::destroy_context(call.lock, c);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    if (ContextRef c = g.contexts.get(g.devices[d].primary)) fake::destroy_context(call.lock, c);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned flags) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    if (flags & ~0x1fu) return CUDA_ERROR_INVALID_VALUE;
    g.devices[d].primary_flags = flags;
    if (ContextRef c = g.contexts.get(g.devices[d].primary)) c->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned* flags, int* active) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = g.devices[d].primary_flags;
    *active = g.contexts.get(g.devices[d].primary) != nullptr;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice d) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (!fake::charge(d, g.knobs.context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = fake::make_context(d, false, flags)->handle;
    fake::this_thread().stack.push_back(*out);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext h) {
    API(INIT);
    ContextRef c = g.contexts.get(h);
    if (!c) return call.fail(CUDA_ERROR_INVALID_CONTEXT, "this context does not exist (any more)");
    if (c->primary) return call.fail(CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed");
    fake::destroy_context(call.lock, c);
    auto& stack = fake::this_thread().stack;
    if (!stack.empty() && stack.back() == h) stack.pop_back();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext h) {
    auto& stack = fake::this_thread().stack;
    if (g.knobs.instant_launch && !stack.empty() && stack.back() == h) return CUDA_SUCCESS;
    API(INIT);
    if (h && !g.contexts.get(h)) return call.fail(CUDA_ERROR_INVALID_CONTEXT, "this context does not exist (any more)");
    if (!stack.empty()) stack.pop_back();
    if (h) stack.push_back(h);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext* out) {
    API(INIT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    auto& stack = fake::this_thread().stack;
    *out = stack.empty() ? nullptr : stack.back();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext h) {
    API(INIT);
    if (!g.contexts.get(h)) return call.fail(CUDA_ERROR_INVALID_CONTEXT, "this context does not exist (any more)");
    fake::this_thread().stack.push_back(h);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* out) {
    API(INIT);
    auto& stack = fake::this_thread().stack;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice* out) {
    API(INIT);
    ContextRef c = fake::current_context();
    if (!c || c->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = c->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned* out) {
    API(CONTEXT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = call.ctx->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext h, unsigned* out) {
    API(INIT);
    ContextRef c = h ? g.contexts.get(h) : fake::current_context();
    if (!c || c->destroyed) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = 3020;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize() {
    API(CONTEXT | UNSAFE);
    for (auto& s : call.ctx->streams)
        if (s->capture) {
            fake::invalidate(s->capture);
            return call.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context is capturing");
        }
    CUresult r = fake::wait_for(call.lock, call.ctx, fake::tails(*call.ctx));
    if (r == CUDA_SUCCESS) fake::release_idle_pools(call.ctx->device);
    return r;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    API(CONTEXT);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetLimit(size_t* out, int limit) {
    API(CONTEXT);
    static const size_t defaults[] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit > 6) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    auto i = call.ctx->limits.find(limit);
    *out = i == call.ctx->limits.end() ? defaults[limit] : i->second;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
    API(CONTEXT);
    if (limit < 0 || limit > 6) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    call.ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCacheConfig(int* out) {
    API(CONTEXT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    return CUDA_SUCCESS;
}
