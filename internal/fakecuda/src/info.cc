// What devices are, and how functions are found by name.
#include <dlfcn.h>
#include <string.h>

#include "fake.h"

using fake::check_device;
using fake::format;

EXPORT CUresult cuDriverGetVersion(int* out) {
    API(ANY_TIME);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = g.knobs.driver_version;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int* out) {
    API(INIT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = (int)g.devices.size();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice* out, int ordinal) {
    API(INIT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, ordinal)) return r;
    *out = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char* out, int n, CUdevice d) {
    API(INIT);
    if (!out || n <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, d)) return r;
    const std::string name = g.knobs.name;
    const size_t k = name.size() < (size_t)n - 1 ? name.size() : (size_t)n - 1;
    memcpy(out, name.data(), k);
    out[k] = 0;
    return CUDA_SUCCESS;
}

static CUresult uuid(CUuuid* out, CUdevice d, fake::Call& call) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, d)) return r;
    for (int i = 0; i < 16; i++) out->bytes[i] = (char)(0x10 + i);
    out->bytes[15] = (char)d;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid* out, CUdevice d) {
    API(INIT);
    return uuid(out, d, call);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* out, CUdevice d) {
    API(INIT);
    return uuid(out, d, call);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t* out, CUdevice d) {
    API(INIT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, d)) return r;
    *out = g.devices[d].total;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice d) {
    API(INIT);
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, d)) return r;
    *major = g.knobs.compute / 10;
    *minor = g.knobs.compute % 10;
    return CUDA_SUCCESS;
}

static std::string pci_id(CUdevice d) { return format("0000:%02x:00.0", 0x17 + 2 * d); }

EXPORT CUresult cuDeviceGetPCIBusId(char* out, int n, CUdevice d) {
    API(INIT);
    if (!out || n < 13) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, d)) return r;
    strcpy(out, pci_id(d).c_str());
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* id) {
    API(INIT);
    if (!out || !id) return CUDA_ERROR_INVALID_VALUE;
    for (int d = 0; d < (int)g.devices.size(); d++)
        if (strcasecmp(pci_id(d).c_str(), id) == 0) return *out = d, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_DEVICE;
}

namespace fake {

// shared_optin is the most shared memory that a block can have. A multiprocessor has 1 KiB more.
int shared_optin() {
    if (g.knobs.block_shared) return g.knobs.block_shared;
    switch (g.knobs.compute) {
        case 75: return 64 << 10;
        case 86:
        case 89:
        case 120: return 99 << 10;
        case 90:
        case 100: return 227 << 10;
    }
    return 163 << 10;
}

int threads_per_sm() {
    switch (g.knobs.compute) {
        case 75: return 1024;
        case 86:
        case 89:
        case 120: return 1536;
    }
    return 2048;
}

}  // namespace fake

struct Attribute {
    int id, value;
};

// An A100 by its figures. Those that tests change, or that depend on the compute capability, are in device_attribute.
static const Attribute attributes[] = {
    {1, 1024},         // MAX_THREADS_PER_BLOCK
    {2, 1024},         // MAX_BLOCK_DIM_X
    {3, 1024},         // MAX_BLOCK_DIM_Y
    {4, 64},           // MAX_BLOCK_DIM_Z
    {5, 0x7fffffff},   // MAX_GRID_DIM_X
    {6, 65535},        // MAX_GRID_DIM_Y
    {7, 65535},        // MAX_GRID_DIM_Z
    {8, 49152},        // MAX_SHARED_MEMORY_PER_BLOCK
    {9, 65536},        // TOTAL_CONSTANT_MEMORY
    {10, 32},          // WARP_SIZE
    {11, 0x7fffffff},  // MAX_PITCH
    {12, 65536},       // MAX_REGISTERS_PER_BLOCK
    {13, 1410000},     // CLOCK_RATE, kHz
    {14, 512},         // TEXTURE_ALIGNMENT
    {15, 1},           // GPU_OVERLAP
    {17, 0},           // KERNEL_EXEC_TIMEOUT
    {18, 0},           // INTEGRATED
    {19, 1},           // CAN_MAP_HOST_MEMORY
    {20, 0},           // COMPUTE_MODE
    {31, 1},           // CONCURRENT_KERNELS
    {32, 1},           // ECC_ENABLED
    {34, 0},           // PCI_DEVICE_ID
    {35, 0},           // TCC_DRIVER
    {36, 1215000},     // MEMORY_CLOCK_RATE, kHz
    {37, 5120},        // GLOBAL_MEMORY_BUS_WIDTH, bits
    {38, 41943040},    // L2_CACHE_SIZE
    {40, 3},           // ASYNC_ENGINE_COUNT
    {41, 1},           // UNIFIED_ADDRESSING
    {50, 0},           // PCI_DOMAIN_ID
    {78, 1},           // STREAM_PRIORITIES_SUPPORTED
    {79, 1},           // GLOBAL_L1_CACHE_SUPPORTED
    {80, 1},           // LOCAL_L1_CACHE_SUPPORTED
    {82, 65536},       // MAX_REGISTERS_PER_MULTIPROCESSOR
    {83, 0},           // MANAGED_MEMORY: not emulated
    {84, 0},           // MULTI_GPU_BOARD
    {86, 0},           // HOST_NATIVE_ATOMIC_SUPPORTED
    {87, 2},           // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
    {89, 0},           // CONCURRENT_MANAGED_ACCESS
    {90, 1},           // COMPUTE_PREEMPTION_SUPPORTED
    {91, 1},           // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    {95, 0},           // COOPERATIVE_LAUNCH: not emulated
    {99, 1},           // HOST_REGISTER_SUPPORTED
    {100, 0},          // PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
    {102, 1},          // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    {103, 0},          // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    {106, 32},         // MAX_BLOCKS_PER_MULTIPROCESSOR
    {111, 1024},       // RESERVED_SHARED_MEMORY_PER_BLOCK
    {115, 1},          // MEMORY_POOLS_SUPPORTED
    {116, 0},          // GPU_DIRECT_RDMA_SUPPORTED
};

static CUresult device_attribute(int* out, int attribute, CUdevice d) {
    switch (attribute) {
        case 16: return *out = g.knobs.processors, CUDA_SUCCESS;       // MULTIPROCESSOR_COUNT
        case 33: return *out = 0x17 + 2 * d, CUDA_SUCCESS;             // PCI_BUS_ID
        case 39: return *out = fake::threads_per_sm(), CUDA_SUCCESS;     // MAX_THREADS_PER_MULTIPROCESSOR
        case 81: return *out = fake::shared_optin() + 1024, CUDA_SUCCESS;  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        case 97: return *out = fake::shared_optin(), CUDA_SUCCESS;       // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        case 75: return *out = g.knobs.compute / 10, CUDA_SUCCESS;     // COMPUTE_CAPABILITY_MAJOR
        case 76: return *out = g.knobs.compute % 10, CUDA_SUCCESS;     // COMPUTE_CAPABILITY_MINOR
        case 88: return *out = g.knobs.pageable_access, CUDA_SUCCESS;  // PAGEABLE_MEMORY_ACCESS
    }
    for (const Attribute& a : attributes)
        if (a.id == attribute) return *out = a.value, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetAttribute(int* out, int attribute, CUdevice d) {
    API(INIT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check_device(call, d)) return r;
    return device_attribute(out, attribute, d);
}

// find_function returns the newest version of a function, or the function whose name that is.
static void* find_function(const std::string& name) {
    Dl_info self;
    if (!dladdr((void*)cuDriverGetVersion, &self)) return nullptr;
    void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return nullptr;
    void* f = nullptr;
    const bool renamed = name == "cuGraphInstantiate";  // its newest form has another name
    for (const char* suffix : {renamed ? "WithFlags" : "_v3", "_v2", ""})
        if (!f) f = dlsym(library, (name + suffix).c_str());
    dlclose(library);
    return f;
}

EXPORT CUresult cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags, int* status) {
    API(ANY_TIME);
    if (!name || !out || version <= 0 || (flags & ~3ull)) return CUDA_ERROR_INVALID_VALUE;
    *out = strncmp(name, "cu", 2) == 0 ? find_function(name) : nullptr;
    if (status) *status = *out ? 0 : 1;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char* name, void** out, int version, uint64_t flags) {
    API(ANY_TIME);
    if (!name || !out || version <= 0) return CUDA_ERROR_INVALID_VALUE;
    (void)flags;
    *out = strncmp(name, "cu", 2) == 0 ? find_function(name) : nullptr;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
