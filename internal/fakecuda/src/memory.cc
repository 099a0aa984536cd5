// Allocations, and the addresses they get.
//
//	| canary ...... | allocation | canary | page that cannot be touched |
//	^ lo, page      ^ base       ^ base + size, up to the next multiple of 256
//
// An allocation ends at a page that cannot be touched, but for at most 255 bytes that are checked when it is freed. Addresses
// come from regions without storage, are 256-byte aligned, and are used once: whoever touches freed memory faults, and the
// fault can be named. Fresh memory holds 0xFF bytes (NaN as a float), up to a size.
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

namespace fake {

enum { PAGE = 4096, GRANULE = 256, CANARY = 0xCB, POISON = 0xFF };

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

// A region begins with addresses that nobody gets: what lies before it belongs to the process.
const uint64_t LEAD = 1ull << 30;

struct Region {
    uint64_t next = 0, end = 0;
};
static Region region;

// take_addresses returns addresses without storage that nobody had before, or 0.
uint64_t take_addresses(size_t bytes, size_t align) {
    const uint64_t size = round_up(bytes, PAGE) + PAGE;
    uint64_t p = round_up(region.next, align);
    if (region.next == 0 || p + size > region.end) {
        const uint64_t want = std::max<uint64_t>(1ull << 40, round_up(size + align + LEAD, PAGE));
        void* m = mmap(nullptr, want, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED) return 0;
        region.next = (uint64_t)m + LEAD;
        region.end = (uint64_t)m + want;
        p = round_up(region.next, align);
    }
    region.next = p + size;
    return p;
}

// beyond_sense reports whether no address space holds so many bytes. What drivers answer then is not documented, out of memory
// or an invalid value; callers must not rely on either.
bool beyond_sense(uint64_t bytes) { return bytes >= 1ull << 48; }

// charge takes bytes from a device's capacity.
bool charge(int device, uint64_t bytes) {
    Device& d = g.devices[device];
    if (bytes > d.total - d.used) trim_pools_for(device, bytes - (d.total - d.used));
    if (bytes > d.total - d.used) return false;
    d.used += bytes;
    return true;
}

// open_pages makes fresh memory of an allocation's addresses: canaries around it, poison inside.
bool open_pages(Allocation* a) {
    if (mprotect((void*)a->lo, a->span - PAGE, PROT_READ | PROT_WRITE) != 0) return false;
    memset((void*)a->lo, CANARY, a->base - a->lo);
    if (a->size <= g.knobs.poison_bytes) memset((void*)a->base, POISON, a->size);
    memset((void*)(a->base + a->size), CANARY, a->end_slack());
    return a->open = true;
}

// allocate makes an allocation of place on device (-1: host), or returns null if there is no room.
AllocationRef allocate(size_t size, int device, Place place, const Call& call) {
    const uint64_t padded = round_up(size, GRANULE), pages = round_up(padded, PAGE);
    if (padded < size || pages < padded) return nullptr;
    const bool charged = place == DEVICE;  // a pool is charged for what it holds
    if (charged && !charge(device, padded)) return nullptr;
    const uint64_t lo = take_addresses(pages, PAGE);
    if (lo == 0) {
        if (charged) g.devices[device].used -= padded;
        return nullptr;
    }
    AllocationRef a = std::make_shared<Allocation>();
    a->ctx = call.ctx;
    a->made_by = call.made_by();
    a->lo = lo;
    a->base = lo + pages - padded;
    a->size = size;
    a->span = pages + PAGE;
    a->device = device;
    a->place = place;
    a->serial = g.serial;
    a->charged = charged ? padded : 0;
    if (place != POOLED && !open_pages(a.get())) {  // a pool opens in stream order
        if (charged) g.devices[device].used -= padded;
        return nullptr;
    }
    g.allocations[a->base] = a;
    return a;
}

// find_allocation returns the allocation, live or freed, on whose pages p lies.
AllocationRef find_allocation(uint64_t p) {
    auto i = g.allocations.upper_bound(p);
    if (i != g.allocations.end() && p >= i->second->lo) return i->second;  // before its base, on its first page
    if (i == g.allocations.begin()) return nullptr;
    const AllocationRef& a = std::prev(i)->second;
    return p < a->lo + a->span ? a : nullptr;
}

static uint64_t first_change(uint64_t from, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (*(const uint8_t*)(from + i) != CANARY) return from + i;
    return 0;
}

// check_canaries says what was written just outside of an allocation, or "".
std::string check_canaries(const Allocation& a) {
    if (!a.open) return "";
    if (uint64_t p = first_change(a.base + a.size, a.end_slack()))
        return format("written %llu bytes past the end of ", (unsigned long long)(p - a.base - a.size)) + describe(a);
    if (uint64_t p = first_change(a.lo, a.base - a.lo))
        return format("written %llu bytes before ", (unsigned long long)(a.base - p)) + describe(a);
    return "";
}

// close_pages drops what an allocation's pages held; touching them faults.
void close_pages(Allocation* a) {
    a->open = false;
    mmap((void*)a->lo, a->span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// retire frees an allocation for good. Its record stays.
void retire(const AllocationRef& a, const std::string& by) {
    if (a->freed) return;
    a->freed = true;
    a->freed_by = by;
    close_pages(a.get());
    if (a->pool) forget_pooled(*a);
    if (a->charged) g.devices[a->device].used -= a->charged;
    a->pool = nullptr;
    a->ctx = nullptr;
}

std::string describe(const Allocation& a) {
    static const char* const places[] = {"device memory", "pool memory", "pinned host memory"};
    std::string s =
        format("%zu bytes of %s at 0x%llx made by %s", a.size, a.registered ? "registered host memory" : places[a.place],
               (unsigned long long)a.base, a.made_by.c_str());
    if (a.freed) s += ", freed by " + a.freed_by;
    return s;
}

// describe names an address: what it belongs to, or belonged to.
std::string describe(uint64_t p) {
    if (AllocationRef a = find_allocation(p)) {
        if (p < a->base)
            return format("0x%llx, %llu bytes before ", (unsigned long long)p, (unsigned long long)(a->base - p)) +
                   describe(*a);
        return format("0x%llx, byte %llu of ", (unsigned long long)p, (unsigned long long)(p - a->base)) + describe(*a);
    }
    auto r = g.reservations.upper_bound(p);
    if (r != g.reservations.begin()) {
        --r;
        if (p < r->first + r->second.size)
            return format("0x%llx, byte %llu of %zu bytes of addresses made by %s, where nothing is mapped with access",
                          (unsigned long long)p, (unsigned long long)(p - r->first), r->second.size,
                          r->second.made_by.c_str());
    }
    return format("0x%llx, which belongs to no allocation", (unsigned long long)p);
}

// check_range returns what is wrong with using [p, p+n) as device memory, or "".
std::string check_range(uint64_t p, size_t n) {
    if (p + n < p) return "the range wraps around";
    bool mapped = false;
    std::string why = mapped_range(p, n, &mapped);
    if (mapped) return why;
    AllocationRef a = find_allocation(p);
    if (a && !a->freed && p >= a->base && p + n <= a->base + a->size) return "";
    auto r = g.registered.upper_bound(p);
    if (r != g.registered.begin() && (--r, p + n <= r->first + r->second->size)) return "";
    return format("%zu bytes at ", n) + describe(a && p + n > a->base + a->size && !a->freed ? a->base + a->size : p);
}

// is_device_range reports whether p is an address that the driver gave out for device memory.
bool is_device_range(uint64_t p) {
    bool mapped = false;
    mapped_range(p, 1, &mapped);
    if (mapped) return true;
    AllocationRef a = find_allocation(p);
    return a && a->place != PINNED;
}

// is_pinned reports whether host memory is known to the driver, so that copies with it are truly asynchronous.
bool is_pinned(uint64_t p, size_t n) {
    AllocationRef a = find_allocation(p);
    if (a && !a->freed && a->place == PINNED) return p >= a->base && p + n <= a->base + a->size;
    auto r = g.registered.upper_bound(p);
    if (r == g.registered.begin()) return false;
    --r;
    return p >= r->first && p + n <= r->first + r->second->size;
}

// forget_memory frees what a context's end frees.
void forget_memory(const ContextRef& ctx) {
    for (auto& e : g.allocations) {
        const AllocationRef& a = e.second;
        if (a->freed || a->ctx != ctx) continue;
        if (ctx->sticky == CUDA_SUCCESS) g.lost.push_back(describe(*a) + ", alive when its context was destroyed");
        retire(a, "the end of its context");
    }
    for (auto i = g.registered.begin(); i != g.registered.end();)
        i = i->second->ctx == ctx ? g.registered.erase(i) : std::next(i);
}

}  // namespace fake

using fake::AllocationRef;
using fake::format;

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t size) {
    API(CONTEXT | UNSAFE);
    if (!out || size == 0 || fake::beyond_sense(size)) return CUDA_ERROR_INVALID_VALUE;
    AllocationRef a = fake::allocate(size, call.ctx->device, fake::DEVICE, call);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = a->base;
    return CUDA_SUCCESS;
}

// checked_free frees a after a look at its surroundings.
static CUresult checked_free(fake::Call& call, const AllocationRef& a) {
    const std::string why = fake::check_canaries(*a);
    fake::retire(a, call.made_by());
    return why.empty() ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_VALUE, why);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
    API(CONTEXT | UNSAFE);
    AllocationRef a = fake::find_allocation(p);
    if (!a || a->base != p || a->place == fake::PINNED)
        return call.fail(CUDA_ERROR_INVALID_VALUE, "not the start of an allocation: " + fake::describe(p));
    if (a->freed) return call.fail(CUDA_ERROR_INVALID_VALUE, "freed twice: " + fake::describe(*a));
    if (g.knobs.free_sync) {
        fake::wait_for_device(call.lock, a->device);
        if (a->freed) return call.fail(CUDA_ERROR_INVALID_VALUE, "freed twice: " + fake::describe(*a));
        if (call.ctx->sticky != CUDA_SUCCESS) return call.ctx->sticky;
    }
    if (a->graphs) return fake::free_outside(call, a, call.ctx->legacy);
    if (a->pool) return fake::free_pooled(call, a, nullptr);
    return checked_free(call, a);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr p) {
    API(CONTEXT);
    auto m = g.mappings.upper_bound(p);
    if (m != g.mappings.begin() && (--m, p < m->first + m->second.size)) {
        if (base) *base = m->first;
        if (size) *size = m->second.size;
        return CUDA_SUCCESS;
    }
    AllocationRef a = fake::find_allocation(p);
    if (!a || a->freed || p < a->base || p >= a->base + a->size) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = a->base;
    if (size) *size = a->size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    API(CONTEXT);
    if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
    const fake::Device& d = g.devices[call.ctx->device];
    *free = d.total - d.used;
    *total = d.total;
    return CUDA_SUCCESS;
}
