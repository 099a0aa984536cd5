// The part of NVIDIA's management library that tells which processes hold a device's memory. The real one is a library of its
// own, libnvidia-ml.so.1; here the driver has both. Numbers and layouts are those of nvml.h.
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "fake.h"

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7
};

struct nvmlProcessInfo_v2_t {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
};

namespace fake {

static bool management_started;

// enter counts a call and returns what it must fail with.
static int enter(const char* name) {
    ++g.calls[name];
    if (const int code = take_fault(name)) return code;
    return management_started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

// list_processes writes the processes of a device: those of the setting, and ours if it is asked for and holds anything.
static int list_processes(void* device, unsigned* count, nvmlProcessInfo_v2_t* out, bool ours) {
    const int d = (int)(uintptr_t)device - 1;
    if (d < 0 || d >= (int)g.devices.size() || !count) return NVML_ERROR_INVALID_ARGUMENT;
    std::vector<nvmlProcessInfo_v2_t> all;
    uint64_t others = 0;
    for (const Process& p : g.knobs.processes)
        if (p.device == d) {
            all.push_back({p.pid, p.bytes, ~0u, ~0u});
            others += p.bytes;
        }
    if (ours && g.devices[d].used > others) all.push_back({(unsigned)getpid(), g.devices[d].used - others, ~0u, ~0u});
    const unsigned room = *count;
    *count = (unsigned)all.size();
    if (room < all.size() || (!out && !all.empty())) return NVML_ERROR_INSUFFICIENT_SIZE;
    // Some drivers write less of each entry, others append to it. All write their own size, whatever the caller expects.
    const size_t stride = (size_t)g.knobs.process_stride;
    for (size_t i = 0; i < all.size(); i++) {
        char* entry = (char*)out + i * stride;
        memset(entry, 0, stride);
        memcpy(entry, &all[i], std::min(stride, sizeof all[i]));
    }
    return NVML_SUCCESS;
}

}  // namespace fake

using fake::Lock;

EXPORT int nvmlInit_v2() {
    Lock lock(g.mu);
    fake::management_started = true;
    return fake::enter("nvmlInit_v2");
}

EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** out) {
    Lock lock(g.mu);
    if (const int r = fake::enter("nvmlDeviceGetHandleByUUID")) return r;
    unsigned last = 0;
    if (sscanf(uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e%2x", &last) != 1 || last >= g.devices.size())
        return NVML_ERROR_NOT_FOUND;
    *out = (void*)(uintptr_t)(last + 1);
    return NVML_SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, nvmlProcessInfo_v2_t* out) {
    Lock lock(g.mu);
    if (const int r = fake::enter("nvmlDeviceGetComputeRunningProcesses_v3")) return r;
    return fake::list_processes(device, count, out, true);
}

// Processes that draw are in both lists.
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, nvmlProcessInfo_v2_t* out) {
    Lock lock(g.mu);
    if (const int r = fake::enter("nvmlDeviceGetGraphicsRunningProcesses_v3")) return r;
    return fake::list_processes(device, count, out, false);
}

EXPORT int nvmlSystemGetProcessName(unsigned pid, char* out, unsigned n) {
    Lock lock(g.mu);
    if (const int r = fake::enter("nvmlSystemGetProcessName")) return r;
    for (const fake::Process& p : g.knobs.processes)
        if (p.pid == pid && !p.name.empty()) {
            if (p.name.size() >= n) return NVML_ERROR_INSUFFICIENT_SIZE;
            memcpy(out, p.name.c_str(), p.name.size() + 1);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}
