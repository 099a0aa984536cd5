// Virtual memory management: addresses (reservations), storage (memory handles, a memfd each) and mappings between them. A
// mapping is closed until access is set. None of these calls waits for work: unmapping under a running kernel is its fault.
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

namespace fake {

enum { UNIT = 2 << 20 };  // granularity, as on every GPU with virtual memory so far

// mapped_range reports through found whether p is mapped. If so, it returns what keeps [p, p+n) from being used, or "".
std::string mapped_range(uint64_t p, size_t n, bool* found) {
    uint64_t at = p;
    auto m = g.mappings.upper_bound(p);
    if (m == g.mappings.begin()) return "";
    --m;
    if (p >= m->first + m->second.size) return "";
    *found = true;
    for (; m != g.mappings.end() && m->first <= at; ++m) {
        if (m->second.access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
            return format("%zu bytes at 0x%llx: no access was set", n, (unsigned long long)at);
        at = m->first + m->second.size;
        if (at >= p + n) return "";
    }
    return format("%zu bytes at 0x%llx: nothing is mapped from 0x%llx", n, (unsigned long long)p, (unsigned long long)at);
}

static void close_range(uint64_t p, size_t n) {
    mmap((void*)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// drop_unused gives storage back when its handle is released and nothing is mapped.
static void drop_unused(const std::shared_ptr<Physical>& p) {
    if (p->refs > 0 || p->maps > 0) return;
    close(p->fd);
    g.devices[p->device].used -= p->size;
    g.physicals.live.erase(p->handle);
}

// unmap_everything is for a reset.
void unmap_everything() {
    for (auto& m : g.mappings) close_range(m.first, m.second.size);
    g.mappings.clear();
    g.reservations.clear();
    for (auto& p : g.physicals.live) close(p.second->fd);
    g.physicals.live.clear();
    for (auto& a : g.allocations)
        if (!a.second->freed) close_pages(a.second.get());
    g.allocations.clear();
    g.registered.clear();
}

// within reports whether [p, p+n) lies in one reservation.
static bool within(uint64_t p, size_t n) {
    auto r = g.reservations.upper_bound(p);
    if (r == g.reservations.begin()) return false;
    --r;
    return p + n > p && p + n <= r->first + r->second.size;
}

// whole_mappings reports whether [p, p+n) is covered by mappings without gaps, none of which goes beyond it.
static bool whole_mappings(uint64_t p, size_t n) {
    uint64_t at = p;
    for (auto m = g.mappings.find(p); m != g.mappings.end() && m->first == at && at < p + n; ++m) at += m->second.size;
    return n > 0 && at == p + n;
}

static CUresult check_prop(const CUmemAllocationProp* prop) {
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || prop->location.id >= (int)g.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
    if (prop->requestedHandleTypes & ~1) return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

}  // namespace fake

using fake::UNIT;

EXPORT CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* prop, int option) {
    API(INIT);
    if (CUresult r = fake::check_prop(prop)) return r;
    if (!out || option < 0 || option > 1) return CUDA_ERROR_INVALID_VALUE;
    *out = UNIT;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t align, CUdeviceptr wanted,
                                    unsigned long long flags) {
    API(INIT);
    if (!out || size == 0 || size % UNIT || (align & (align - 1)) || flags || fake::beyond_sense(size))
        return CUDA_ERROR_INVALID_VALUE;
    (void)wanted;  // a hint
    const uint64_t p = fake::take_addresses(size, align > UNIT ? align : (size_t)UNIT);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    fake::Reservation r;
    r.made_by = call.made_by();
    r.size = size;
    g.reservations[p] = r;
    *out = p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr p, size_t size) {
    API(INIT);
    auto r = g.reservations.find(p);
    if (r == g.reservations.end() || r->second.size != size)
        return call.fail(CUDA_ERROR_INVALID_VALUE, "not a whole reservation: " + fake::describe(p));
    auto m = g.mappings.lower_bound(p);
    if (m != g.mappings.end() && m->first < p + size)
        return call.fail(CUDA_ERROR_INVALID_VALUE, "something is still mapped there");
    g.reservations.erase(r);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* prop,
                            unsigned long long flags) {
    API(INIT);
    if (CUresult r = fake::check_prop(prop)) return r;
    if (!out || size == 0 || size % UNIT || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!fake::charge(prop->location.id, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    auto p = std::make_shared<fake::Physical>();
    p->fd = (int)syscall(SYS_memfd_create, "fakecuda", 1u /* MFD_CLOEXEC */);
    if (p->fd < 0 || ftruncate(p->fd, (off_t)size) != 0) {
        if (p->fd >= 0) close(p->fd);
        g.devices[prop->location.id].used -= size;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->made_by = call.made_by();
    p->device = prop->location.id;
    p->size = size;
    p->prop = *prop;
    *out = p->handle = g.physicals.put(p);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
    API(INIT);
    auto p = g.physicals.get((void*)h);
    if (!p || p->refs == 0) return call.fail(CUDA_ERROR_INVALID_VALUE, "this memory handle does not exist (any more)");
    p->refs--;
    fake::drop_unused(p);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle h,
                         unsigned long long flags) {
    API(INIT);
    auto p = g.physicals.get((void*)h);
    if (!p || p->refs == 0) return call.fail(CUDA_ERROR_INVALID_VALUE, "this memory handle does not exist (any more)");
    if (offset != 0 || flags) return call.fail(CUDA_ERROR_INVALID_VALUE, "offset and flags must be 0");
    if (size != p->size) return call.fail(CUDA_ERROR_INVALID_VALUE, "the size is not that of the memory handle");
    if (at % UNIT || !fake::within(at, size)) return call.fail(CUDA_ERROR_INVALID_VALUE, "not inside a reservation");
    auto next = g.mappings.lower_bound(at);
    if ((next != g.mappings.end() && next->first < at + size) ||
        (next != g.mappings.begin() && std::prev(next)->first + std::prev(next)->second.size > at))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "something is mapped there");
    if (mmap((void*)at, size, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd, 0) == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
    fake::Mapping m;
    m.size = size;
    m.physical = p;
    p->maps++;
    g.mappings[at] = m;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr at, size_t size) {
    API(INIT);
    if (!fake::whole_mappings(at, size))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "not whole mappings: " + fake::describe(at));
    fake::close_range(at, size);
    for (auto m = g.mappings.find(at); m != g.mappings.end() && m->first < at + size; m = g.mappings.erase(m)) {
        m->second.physical->maps--;
        fake::drop_unused(m->second.physical);
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc* desc, size_t count) {
    API(INIT);
    if (!desc || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!fake::whole_mappings(at, size))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "not whole mappings: " + fake::describe(at));
    int access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (desc[i].flags != 0 && desc[i].flags != 1 && desc[i].flags != 3))
            return CUDA_ERROR_INVALID_VALUE;
        if (desc[i].location.id < 0 || desc[i].location.id >= (int)g.devices.size()) return CUDA_ERROR_INVALID_DEVICE;
        access |= desc[i].flags;  // all devices share the mapping here: the widest access counts
    }
    const int protection = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                           : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                             : PROT_NONE;
    if (mprotect((void*)at, size, protection) != 0) return CUDA_ERROR_MAP_FAILED;
    for (auto m = g.mappings.find(at); m != g.mappings.end() && m->first < at + size; ++m) m->second.access = access;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAccess(unsigned long long* out, const CUmemLocation* location, CUdeviceptr p) {
    API(INIT);
    auto m = g.mappings.upper_bound(p);
    if (!out || !location || m == g.mappings.begin() || p >= std::prev(m)->first + std::prev(m)->second.size)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (unsigned long long)std::prev(m)->second.access;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
    API(INIT);
    const uint64_t p = (uint64_t)address;
    auto m = g.mappings.upper_bound(p);
    if (!out || m == g.mappings.begin() || p >= std::prev(m)->first + std::prev(m)->second.size)
        return CUDA_ERROR_INVALID_VALUE;
    auto& physical = std::prev(m)->second.physical;
    physical->refs++;
    *out = physical->handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out, CUmemGenericAllocationHandle h) {
    API(INIT);
    auto p = g.physicals.get((void*)h);
    if (!out || !p || p->refs == 0) return CUDA_ERROR_INVALID_VALUE;
    *out = p->prop;
    return CUDA_SUCCESS;
}
