// Stream-ordered allocation: cuMemAllocAsync and the pools behind it.
//
// An allocation of a pool is closed (cannot be touched) until its stream has got to the call that made it, and closed again
// when the stream has got to the call that freed it: use outside of that order faults. Addresses are never used twice, so
// that only the count of bytes goes through the pool: reserved is what it holds of the device, used is what callers have,
// idle is the difference. Idle bytes serve a new allocation if they were freed on the same stream, or if the stream where
// they were freed has got there; else the pool grows, by whole units, or the new allocation waits for that stream.
#include <string.h>

#include <algorithm>

#include "fake.h"

namespace fake {

enum { POOL_UNIT = 2 << 20, POOL_GRANULE = 512 };

struct Idle {
    uint64_t bytes;
    Point freed;  // where in which stream; no stream: usable by all
};

struct Pool : Object {
    CUmemoryPool handle = nullptr;
    int device = 0;
    bool is_default = false, destroyed = false;
    uint64_t max_size = 0, threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
    int reuse[3] = {1, 1, 1};  // follow event dependencies, opportunistic, internal dependencies
    std::map<int, int> access;
    std::vector<Idle> idle;
};
using PoolRef = std::shared_ptr<Pool>;

static uint64_t pool_bytes(uint64_t size) { return (size + POOL_GRANULE - 1) / POOL_GRANULE * POOL_GRANULE; }

// release gives idle bytes back to the device until at most keep are reserved. Only what was reached can go.
static void release(Pool* p, uint64_t keep) {
    for (Idle& i : p->idle) {
        if (p->reserved <= keep) break;
        if (!i.freed.reached()) continue;
        const uint64_t n = std::min(i.bytes, p->reserved - keep);
        i.bytes -= n;
        p->reserved -= n;
        g.devices[p->device].used -= n;
    }
    p->idle.erase(std::remove_if(p->idle.begin(), p->idle.end(), [](const Idle& i) { return i.bytes == 0; }), p->idle.end());
}

// release_idle_pools is what synchronisation does: pools go down to their release threshold.
void release_idle_pools(int device) {
    for (auto& e : g.pools.live)
        if (e.second->device == device && e.second->reserved > e.second->threshold)
            release(e.second.get(), e.second->threshold);
}

// trim_pools_for frees idle bytes of all pools of a device that is full.
void trim_pools_for(int device, uint64_t bytes) {
    for (auto& e : g.pools.live) {
        Pool* p = e.second.get();
        if (p->device != device || bytes == 0) continue;
        const uint64_t before = p->reserved;
        release(p, before > bytes ? before - bytes : 0);
        bytes -= std::min(bytes, before - p->reserved);
    }
}

// take_idle takes up to want bytes that a stream may use now. With waiting, also those that it may use after a wait, whose
// points are added to after.
static uint64_t take_idle(Pool* p, const StreamRef& s, uint64_t want, bool waiting, std::vector<Point>* after) {
    uint64_t got = 0;
    for (Idle& i : p->idle) {
        if (got == want) break;
        const bool others = g.knobs.pool_reuse != 0;
        const bool now = !i.freed.stream || i.freed.stream == s || (others && p->reuse[1] && i.freed.reached());
        if (!now && !(waiting && others)) continue;
        const uint64_t n = std::min(i.bytes, want - got);
        if (!now) after->push_back(i.freed);
        i.bytes -= n;
        got += n;
    }
    p->idle.erase(std::remove_if(p->idle.begin(), p->idle.end(), [](const Idle& i) { return i.bytes == 0; }), p->idle.end());
    return got;
}

static bool grow(Pool* p, uint64_t missing) {
    const uint64_t n = (missing + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT;
    if (p->max_size && p->reserved + n > p->max_size) return false;
    if (!charge(p->device, n)) return false;
    p->reserved += n;
    p->reserved_high = std::max(p->reserved_high, p->reserved);
    if (n > missing) p->idle.push_back({n - missing, Point()});
    return true;
}

// take_bytes gets the bytes for one allocation: idle ones, then new ones, then idle ones of other streams.
static bool take_bytes(Pool* p, const StreamRef& s, uint64_t want, std::vector<Point>* after) {
    uint64_t got = take_idle(p, s, want, false, after);
    if (got < want && grow(p, want - got)) got = want;
    if (got < want && p->reuse[2]) got += take_idle(p, s, want - got, true, after);
    if (got == want) return true;
    if (got) p->idle.push_back({got, Point()});
    return false;
}

static CUresult alloc_pooled(Call& call, CUdeviceptr* out, size_t size, const PoolRef& p, CUstream stream) {
    StreamRef s;
    if (CUresult r = find_stream(call, stream, &s)) return r;
    if (!out || size == 0 || beyond_sense(size)) return CUDA_ERROR_INVALID_VALUE;
    if (s->capture) return alloc_in_graph(call, out, size, p->device, s);
    std::vector<Point> after;
    const uint64_t bytes = pool_bytes(size);
    if (bytes < size || !take_bytes(p.get(), s, bytes, &after)) return CUDA_ERROR_OUT_OF_MEMORY;
    AllocationRef a = allocate(size, p->device, POOLED, call);
    if (!a) return p->idle.push_back({bytes, Point()}), CUDA_ERROR_OUT_OF_MEMORY;
    a->pool = p;
    Work open;
    open.what = call.made_by();
    open.run = [a] {
        Lock lock(g.mu);
        if (a->closed) {
            note("freed on another stream before its own had come to the allocation: " + describe(*a));
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        return open_pages(a.get()) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    };
    enqueue(s, open, after);
    p->used += bytes;
    p->used_high = std::max(p->used_high, p->used);
    *out = a->base;
    return CUDA_SUCCESS;
}

// free_pooled gives the bytes back at once and closes the pages in stream order. Without a stream the device is idle.
CUresult free_pooled(Call& call, const AllocationRef& a, const StreamRef& s) {
    const PoolRef p = a->pool;
    const uint64_t bytes = pool_bytes(a->size);
    a->freed = true;
    a->freed_by = call.made_by();
    a->pool = nullptr;
    Point freed;
    if (s) {
        Work close;
        close.what = call.made_by();
        close.run = [a] {
            Lock lock(g.mu);
            const std::string why = check_canaries(*a);
            if (!why.empty()) note(why);
            close_pages(a.get());
            a->closed = true;
            return CUDA_SUCCESS;
        };
        freed = enqueue(s, close);
    } else {
        close_pages(a.get());
    }
    p->used -= bytes;
    p->idle.push_back({bytes, freed});
    if (!s) release(p.get(), p->threshold);
    return CUDA_SUCCESS;
}

// forget_pooled counts an allocation as given back, at the end of its context.
void forget_pooled(const Allocation& a) {
    const uint64_t bytes = pool_bytes(a.size);
    a.pool->used -= bytes;
    a.pool->idle.push_back({bytes, Point()});
    release(a.pool.get(), a.pool->threshold);
}

static PoolRef make_pool(int device) {
    PoolRef p = std::make_shared<Pool>();
    p->device = device;
    p->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    p->handle = (CUmemoryPool)g.pools.put(p);
    return p;
}

static PoolRef default_pool(int device) {
    Device& d = g.devices[device];
    if (!d.default_pool) {
        d.default_pool = make_pool(device);
        d.default_pool->is_default = true;
    }
    return d.default_pool;
}

static PoolRef current_pool(int device) {
    Device& d = g.devices[device];
    return d.current_pool ? d.current_pool : default_pool(device);
}

std::string pool_leak(const Pool& p) { return p.is_default ? "" : "memory pool made by " + p.made_by + "\n"; }

static CUresult find_pool(Call& call, CUmemoryPool h, PoolRef* out) {
    *out = g.pools.get(h);
    return *out ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_VALUE, "this memory pool does not exist (any more)");
}

}  // namespace fake
