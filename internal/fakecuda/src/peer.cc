// Several devices: who may access whose memory, and copies between them.
#include "fake.h"

using fake::ContextRef;

EXPORT CUresult cuDeviceCanAccessPeer(int* out, CUdevice d, CUdevice peer) {
    API(INIT);
    if (CUresult r = check_device(call, d)) return r;
    if (CUresult r = check_device(call, peer)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = d != peer && g.knobs.peer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int* out, int attribute, CUdevice d, CUdevice peer) {
    API(INIT);
    if (CUresult r = check_device(call, d)) return r;
    if (CUresult r = check_device(call, peer)) return r;
    if (!out || d == peer) return CUDA_ERROR_INVALID_VALUE;
    if (attribute < 1 || attribute > 4) return CUDA_ERROR_INVALID_VALUE;
    *out = attribute == 2 ? g.knobs.peer : 0;  // 2: access supported
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext h, unsigned flags) {
    API(CONTEXT);
    ContextRef peer = g.contexts.get(h);
    if (!peer || peer == call.ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!g.knobs.peer || peer->device == call.ctx->device) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return call.ctx->peers.insert(peer->device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext h) {
    API(CONTEXT);
    ContextRef peer = g.contexts.get(h);
    if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
    return call.ctx->peers.erase(peer->device) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

// on_device reports whether p is memory of a device, as far as that is known.
static bool on_device(uint64_t p, int device) {
    auto m = g.mappings.upper_bound(p);
    if (m != g.mappings.begin() && p < std::prev(m)->first + std::prev(m)->second.size)
        return std::prev(m)->second.physical->device == device;
    AllocationRef a = fake::find_allocation(p);
    return !a || a->device == device;
}

static CUresult peer_copy(fake::Call& call, CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
                          bool async, CUstream stream) {
    ContextRef a = g.contexts.get(to), b = g.contexts.get(from);
    if (!a || !b)
        return call.fail(CUDA_ERROR_INVALID_CONTEXT, "a context of a copy between devices does not exist (any more)");
    if (!on_device(dst, a->device))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "the destination is on another device: " + fake::describe(dst));
    if (!on_device(src, b->device))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "the source is on another device: " + fake::describe(src));
    return plain_copy(call, Side::DEVICE, dst, Side::DEVICE, src, n, async, stream);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n) {
    API(CONTEXT | UNSAFE);
    return peer_copy(call, dst, to, src, from, n, false, nullptr);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
                                  CUstream stream) {
    API(CONTEXT);
    return peer_copy(call, dst, to, src, from, n, true, stream);
}
