// Pinned host memory, registered host memory, and questions about pointers.
#include <string.h>

#include "fake.h"

using fake::AllocationRef;

static CUresult host_alloc(fake::Call& call, void** out, size_t size, unsigned flags) {
    if (!out || size == 0 || (flags & ~7u) || fake::beyond_sense(size)) return CUDA_ERROR_INVALID_VALUE;
    AllocationRef a = fake::allocate(size, -1, fake::PINNED, call);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    a->flags = flags;
    *out = (void*)a->base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void** out, size_t size, unsigned flags) {
    API(CONTEXT | UNSAFE);
    return host_alloc(call, out, size, flags);
}

EXPORT CUresult cuMemAllocHost_v2(void** out, size_t size) {
    API(CONTEXT | UNSAFE);
    return host_alloc(call, out, size, 0);
}

EXPORT CUresult cuMemFreeHost(void* p) {
    API(CONTEXT | UNSAFE);
    AllocationRef a = fake::find_allocation((uint64_t)p);
    if (!a || a->base != (uint64_t)p || a->place != fake::PINNED)
        return call.fail(CUDA_ERROR_INVALID_VALUE, "not the start of pinned memory: " + fake::describe((uint64_t)p));
    if (a->freed) return call.fail(CUDA_ERROR_INVALID_VALUE, "freed twice: " + fake::describe(*a));
    if (g.knobs.free_sync) {
        fake::wait_for_device(call.lock, -1);
        if (call.ctx->sticky != CUDA_SUCCESS) return call.ctx->sticky;
    }
    if (a->freed) return call.fail(CUDA_ERROR_INVALID_VALUE, "freed twice: " + fake::describe(*a));
    return checked_free(call, a);
}

EXPORT CUresult cuMemHostRegister_v2(void* p, size_t size, unsigned flags) {
    API(CONTEXT | UNSAFE);
    if (!p || size == 0 || (flags & ~0xfu)) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t base = (uint64_t)p;
    auto next = g.registered.lower_bound(base);
    const bool overlaps = (next != g.registered.end() && base + size > next->first) ||
                          (next != g.registered.begin() && std::prev(next)->first + std::prev(next)->second->size > base);
    if (overlaps || fake::is_pinned(base, 1))
        return call.fail(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, fake::describe(base));
    AllocationRef a = std::make_shared<fake::Allocation>();
    a->ctx = call.ctx;
    a->made_by = call.made_by();
    a->base = a->lo = base;
    a->size = size;
    a->place = fake::PINNED;
    a->registered = true;
    a->flags = flags;
    a->serial = g.serial;
    g.registered[base] = a;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostUnregister(void* p) {
    API(CONTEXT | UNSAFE);
    if (!g.registered.count((uint64_t)p))
        return call.fail(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, fake::describe((uint64_t)p));
    if (g.knobs.free_sync) fake::wait_for_device(call.lock, -1);
    g.registered.erase((uint64_t)p);
    return CUDA_SUCCESS;
}

// pinned returns the pinned or registered memory that p lies in.
static AllocationRef pinned(uint64_t p) {
    if (!fake::is_pinned(p, 1)) return nullptr;
    AllocationRef a = fake::find_allocation(p);
    if (a && a->place == fake::PINNED && !a->freed) return a;
    return std::prev(g.registered.upper_bound(p))->second;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned flags) {
    API(CONTEXT);
    if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!pinned((uint64_t)p)) return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned* out, void* p) {
    API(CONTEXT);
    AllocationRef a = pinned((uint64_t)p);
    if (!out || !a) return CUDA_ERROR_INVALID_VALUE;
    *out = a->flags;
    return CUDA_SUCCESS;
}

// pointer_attribute answers for device, pool, mapped and pinned memory; other host memory is unknown to the driver.
static CUresult pointer_attribute(void* out, int attribute, uint64_t p) {
    bool mapped = false;
    fake::mapped_range(p, 1, &mapped);
    AllocationRef a = mapped ? nullptr : pinned(p) ? pinned(p) : fake::find_allocation(p);
    if (!mapped && (!a || a->freed || p < a->base || p >= a->base + a->size)) return CUDA_ERROR_INVALID_VALUE;
    auto m = g.mappings.upper_bound(p);
    const int device = mapped ? std::prev(m)->second.physical->device : a->device;
    switch (attribute) {
        case 1: *(CUcontext*)out = mapped ? nullptr : a->ctx->handle; return CUDA_SUCCESS;
        case 2:
            *(unsigned*)out = !mapped && a->place == fake::PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case 3: *(CUdeviceptr*)out = p; return CUDA_SUCCESS;
        case 4:
            if (mapped || a->place != fake::PINNED) return CUDA_ERROR_INVALID_VALUE;
            *(void**)out = (void*)p;
            return CUDA_SUCCESS;
        case 7: *(uint64_t*)out = mapped ? 0 : a->serial; return CUDA_SUCCESS;
        case 8: *(unsigned*)out = 0; return CUDA_SUCCESS;
        case 9: *(int*)out = device < 0 ? a->ctx->device : device; return CUDA_SUCCESS;
        case 11: *(CUdeviceptr*)out = mapped ? std::prev(m)->first : a->base; return CUDA_SUCCESS;
        case 12: *(size_t*)out = mapped ? std::prev(m)->second.size : a->size; return CUDA_SUCCESS;
        case 13: *(unsigned*)out = 1; return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuPointerGetAttribute(void* out, int attribute, CUdeviceptr p) {
    API(CONTEXT);
    return out ? pointer_attribute(out, attribute, p) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuPointerGetAttributes(unsigned n, int* attributes, void** out, CUdeviceptr p) {
    API(CONTEXT);
    if (!attributes || !out) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {  // unlike the single question, what is unknown is zero and no error
        if (pointer_attribute(out[i], attributes[i], p) != CUDA_SUCCESS)
            memset(out[i], 0, attributes[i] == 2 || attributes[i] == 9 ? 4 : 8);
        if (attributes[i] == 9 && !fake::is_device_range(p) && !pinned(p)) *(int*)out[i] = -2;
    }
    return CUDA_SUCCESS;
}
