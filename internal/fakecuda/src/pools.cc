// The calls about pools and stream-ordered allocation. How they work is in pool.cc.
#include "fake.h"

using fake::PoolRef;

EXPORT CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream stream) {
    API(CONTEXT);
    return fake::alloc_pooled(call, out, size, fake::current_pool(call.ctx->device), stream);
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t size, CUmemoryPool h, CUstream stream) {
    API(CONTEXT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    return fake::alloc_pooled(call, out, size, p, stream);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    API(CONTEXT);
    fake::StreamRef s;
    if (CUresult r = fake::find_stream(call, stream, &s)) return r;
    AllocationRef a = fake::find_allocation(ptr);
    if (!a || a->base != ptr || a->place != fake::POOLED)
        return call.fail(CUDA_ERROR_INVALID_VALUE, "not the start of pool memory: " + fake::describe(ptr));
    if (a->freed) return call.fail(CUDA_ERROR_INVALID_VALUE, "freed twice: " + fake::describe(*a));
    if (s->capture) return fake::free_in_capture(call, a, s);
    if (a->graphs) return fake::free_outside(call, a, s);
    return fake::free_pooled(call, a, s);
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
    API(INIT);
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, props->location.id)) return r;
    PoolRef p = fake::make_pool(props->location.id);
    p->made_by = call.made_by();
    p->max_size = props->maxSize;
    *out = p->handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool h) {
    API(INIT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    if (p->is_default) return call.fail(CUDA_ERROR_INVALID_VALUE, "a default pool cannot be destroyed");
    if (p->used)
        call.fail(CUDA_ERROR_INVALID_VALUE,
                  format("a pool is destroyed while %llu bytes of it are in use", (unsigned long long)p->used));
    for (auto& i : p->idle) i.freed = fake::Point();
    fake::release(p.get(), 0);
    fake::Device& d = g.devices[p->device];
    if (d.current_pool == p) d.current_pool = nullptr;
    g.pools.live.erase((uintptr_t)h);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool h, size_t keep) {
    API(INIT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    fake::release(p.get(), keep);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool h, int attribute, void* out) {
    API(INIT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    if (!out || attribute < 1 || attribute > 8) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t values[] = {p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};
    if (attribute <= 3)
        *(int*)out = p->reuse[attribute - 1];
    else
        *(uint64_t*)out = values[attribute - 4];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool h, int attribute, void* value) {
    API(INIT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t v = attribute >= 4 ? *(uint64_t*)value : 0;
    switch (attribute) {
        case 1:
        case 2:
        case 3: p->reuse[attribute - 1] = *(int*)value; return CUDA_SUCCESS;
        case 4: p->threshold = v; return CUDA_SUCCESS;
        case 6:
        case 8:  // high-water marks can only be reset
            if (v != 0) return CUDA_ERROR_INVALID_VALUE;
            (attribute == 6 ? p->reserved_high : p->used_high) = attribute == 6 ? p->reserved : p->used;
            return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool h, const CUmemAccessDesc* desc, size_t count) {
    API(INIT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    for (size_t i = 0; i < count; i++) {
        if (!desc || desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
        if (CUresult r = check_device(call, desc[i].location.id)) return r;
        if (desc[i].location.id == p->device && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
        if (desc[i].location.id != p->device && !g.knobs.peer) return CUDA_ERROR_INVALID_DEVICE;
        p->access[desc[i].location.id] = desc[i].flags;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolGetAccess(int* out, CUmemoryPool h, CUmemLocation* location) {
    API(INIT);
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    if (!out || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    auto i = p->access.find(location->id);
    *out = i == p->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : i->second;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice d) {
    API(INIT);
    if (CUresult r = check_device(call, d)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = fake::default_pool(d)->handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice d) {
    API(INIT);
    if (CUresult r = check_device(call, d)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = fake::current_pool(d)->handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice d, CUmemoryPool h) {
    API(INIT);
    if (CUresult r = check_device(call, d)) return r;
    PoolRef p;
    if (CUresult r = fake::find_pool(call, h, &p)) return r;
    if (p->device != d) return CUDA_ERROR_INVALID_VALUE;
    g.devices[d].current_pool = p;
    return CUDA_SUCCESS;
}
