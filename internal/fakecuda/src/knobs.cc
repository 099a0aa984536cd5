// What tests turn and read: settings, faults, the report of what is alive.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

namespace fake {

// The settings that are one number.
static uint64_t* big_knob(const std::string& name) {
    if (name == "context_bytes") return &g.knobs.context_bytes;
    if (name == "stream_bytes") return &g.knobs.stream_bytes;
    if (name == "poison_bytes") return &g.knobs.poison_bytes;
    if (name == "call_delay_us") return &g.knobs.call_delay_us;
    if (name == "work_delay_us") return &g.knobs.work_delay_us;
    if (name == "work_jitter_us") return &g.knobs.work_jitter_us;
    return nullptr;
}

static int* small_knob(const std::string& name) {
    if (name == "devices") return &g.knobs.devices;
    if (name == "driver_version") return &g.knobs.driver_version;
    if (name == "compute") return &g.knobs.compute;
    if (name == "peer") return &g.knobs.peer;
    if (name == "free_sync") return &g.knobs.free_sync;
    if (name == "strict_pageable") return &g.knobs.strict_pageable;
    if (name == "pageable_access") return &g.knobs.pageable_access;
    if (name == "pool_reuse") return &g.knobs.pool_reuse;
    if (name == "process_stride") return &g.knobs.process_stride;
    if (name == "greedy") return &g.knobs.greedy;
    if (name == "workers") return &g.knobs.workers;
    if (name == "instant_launch") return &g.knobs.instant_launch;
    if (name == "ptx") return &g.knobs.ptx;
    if (name == "races") return &g.knobs.races;
    if (name == "counts") return &g.knobs.counts;
    if (name == "processors") return &g.knobs.processors;
    if (name == "block_shared") return &g.knobs.block_shared;
    if (name == "nccl_version") return &g.knobs.nccl_version;
    if (name == "nccl_remote") return &g.knobs.nccl_remote;
    if (name == "nccl_async") return &g.knobs.nccl_async;
    if (name == "nccl_in_progress") return &g.knobs.nccl_in_progress;
    return nullptr;
}

// arm_fault reads "function:nth:code".
static bool arm_fault(const std::string& spec) {
    const size_t second = spec.rfind(':'), first = second == std::string::npos ? second : spec.rfind(':', second - 1);
    if (first == std::string::npos) return false;
    Fault f = {spec.substr(0, first), strtoull(spec.c_str() + first + 1, nullptr, 10), 0, atoi(spec.c_str() + second + 1)};
    if (f.function.empty() || f.code == 0) return false;
    g.faults.push_back(f);
    return true;
}

// add_process reads "device:pid:bytes:name". The memory is taken at once, or when there are devices.
static bool add_process(const std::string& spec) {
    Process p = {};
    int name = 0;
    unsigned long long bytes = 0;
    if (sscanf(spec.c_str(), "%d:%u:%llu:%n", &p.device, &p.pid, &bytes, &name) < 3 || name == 0 || p.device < 0) return false;
    p.bytes = bytes;
    p.name = spec.substr(name);
    if (p.device < (int)g.devices.size()) g.devices[p.device].used += p.bytes;
    g.knobs.processes.push_back(p);
    return true;
}

// set_knob changes one setting; numbers of devices and their memory count from the next reset or cuInit.
bool set_knob(const std::string& name, const std::string& value) {
    const char* v = value.c_str();
    if (uint64_t* k = big_knob(name)) return *k = strtoull(v, nullptr, 10), true;
    if (int* k = small_knob(name)) return *k = atoi(v), true;
    if (name == "name") return g.knobs.name = value, true;
    if (name == "fail") return arm_fault(value);
    if (name == "process") return add_process(value);
    if (name == "kernels") {
        std::string why;
        return g.knobs.kernels = value, value.empty() || load_kernels(value, &why) == CUDA_SUCCESS;
    }
    if (name == "memory") {  // "bytes" for all devices, "device:bytes" for one
        const size_t colon = value.find(':');
        if (colon == std::string::npos) {
            for (uint64_t& m : g.knobs.memory) m = strtoull(v, nullptr, 10);
            return true;
        }
        const int device = atoi(v);
        if (device < 0 || device >= 16) return false;
        return g.knobs.memory[device] = strtoull(v + colon + 1, nullptr, 10), true;
    }
    return false;
}

void read_environment() {
    for (uint64_t& m : g.knobs.memory) m = 8ull << 30;
    for (const char* name : {"context_bytes", "stream_bytes", "poison_bytes", "call_delay_us", "work_delay_us", "work_jitter_us", "devices",
                             "driver_version", "compute", "peer", "free_sync", "strict_pageable", "pageable_access",
                             "process_stride", "pool_reuse", "greedy", "workers", "instant_launch", "ptx", "races", "counts",
                             "processors", "block_shared", "nccl_version", "nccl_remote", "nccl_async", "nccl_in_progress", "name", "memory", "process", "fail", "kernels"}) {
        std::string variable = "FAKECUDA_";
        for (const char* c = name; *c; c++) variable += *c == '_' ? '_' : (char)(*c - 'a' + 'A');
        if (const char* v = getenv(variable.c_str())) set_knob(name, v);
    }
    if (const char* v = getenv("GK_EMU_GREEDY")) g.knobs.greedy = atoi(v);
}

// take_fault counts one call and returns the code that it must fail with, or success.
CUresult take_fault(const char* function) {
    for (Fault& f : g.faults) {
        if (f.function != function && !(f.function == "*" && strcmp(function, "work") != 0)) continue;
        ++f.seen;
        if (f.nth == 0 || f.seen == f.nth) return (CUresult)f.code;
    }
    return CUDA_SUCCESS;
}

template <class T>
static void list_alive(std::string* out, const Table<T>& table, const char* kind) {
    for (auto& e : table.live) *out += std::string(kind) + " made by " + e.second->made_by + "\n";
}

// leaks lists what callers made and did not give back, one per line.
std::string leaks() {
    std::string out;
    for (auto& line : g.lost) out += line + "\n";
    for (auto& e : g.contexts.live)
        if (e.second->refs > 0) out += format("context of device %d, retained %d times\n", e.second->device, e.second->refs);
    for (auto& e : g.allocations)
        if (!e.second->freed) out += describe(*e.second) + "\n";
    for (auto& e : g.registered) out += describe(*e.second) + "\n";
    list_alive(&out, g.streams, "stream");
    list_alive(&out, g.events, "event");
    list_alive(&out, g.modules, "module");
    list_alive(&out, g.graphs, "graph");
    list_alive(&out, g.execs, "executable graph");
    for (auto& e : g.physicals.live)
        out += format("memory handle of %zu bytes made by %s%s\n", e.second->size, e.second->made_by.c_str(),
                      e.second->refs == 0 ? ", released but still mapped" : "");
    for (auto& e : g.reservations)
        out += format("%zu bytes of addresses made by %s\n", e.second.size, e.second.made_by.c_str());
    for (auto& e : g.mappings) out += format("mapping of %zu bytes\n", e.second.size);
    for (auto& e : g.pools.live) out += pool_leak(*e.second);
    return out + blas_leaks() + nccl_leaks();
}

static size_t copy_text(const std::string& s, char* out, size_t n) {
    if (n > 0) {
        const size_t k = s.size() < n - 1 ? s.size() : n - 1;
        memcpy(out, s.data(), k);
        out[k] = 0;
    }
    return s.size();
}

}  // namespace fake

using fake::Lock;

EXPORT int fakecuda_set(const char* name, const char* value) {
    Lock lock(g.mu);
    return fake::set_knob(name, value) ? 0 : 1;
}

EXPORT void fakecuda_clear_faults() {
    Lock lock(g.mu);
    g.faults.clear();
}

// fakecuda_hold stops all workers before their next piece of work, or lets them go on.
EXPORT void fakecuda_hold(int on) {
    Lock lock(g.mu);
    g.held = on != 0;
    g.progress.notify_all();
}

// fakecuda_hold_stream does the same for one stream.
EXPORT int fakecuda_hold_stream(CUstream h, int on) {
    Lock lock(g.mu);
    fake::StreamRef s = g.streams.get(h);
    if (!s) return 1;
    s->held = on != 0;
    g.progress.notify_all();
    return 0;
}

// fakecuda_text copies a report to out (ending in 0) and returns its whole length: "leaks", "errors", "calls", "counts".
EXPORT size_t fakecuda_text(const char* what, char* out, size_t n) {
    Lock lock(g.mu);
    const std::string name = what;
    std::string s;
    if (name == "leaks") s = fake::leaks();
    if (name == "errors")
        for (auto& e : g.errors) s += e + "\n";
    if (name == "calls")
        for (auto& c : g.calls) s += fake::format("%s %llu\n", c.first.c_str(), (unsigned long long)c.second);
    if (name == "counts") s = fake::counts_text();
    return fake::copy_text(s, out, n);
}

EXPORT uint64_t fakecuda_count(const char* what) {
    Lock lock(g.mu);
    const std::string name = what;
    if (name == "calls") return g.total_calls;
    if (name == "work") return g.total_work;
    if (name == "errors") return g.errors.size();
    auto c = g.calls.find(name);
    return c == g.calls.end() ? 0 : c->second;
}

// fakecuda_reset waits for the workers, forgets everything and reads the environment again. Kernels stay loaded. Work that
// has not begun is dropped. No other thread may be inside the driver.
EXPORT void fakecuda_reset() {
    Lock lock(g.mu);
    fake::abort_nccl();
    fake::stop_workers(lock);
    fake::unmap_everything();
    g.contexts.live.clear();
    g.streams.live.clear();
    g.events.live.clear();
    g.modules.live.clear();
    g.functions.live.clear();
    g.graphs.live.clear();
    g.execs.live.clear();
    g.nodes.live.clear();
    g.pools.live.clear();
    fake::forget_blas();
    fake::forget_nccl();
    g.captures.clear();
    g.devices.clear();
    g.errors.clear();
    g.lost.clear();
    g.calls.clear();
    g.faults.clear();
    g.counts.clear();
    g.total_calls = g.total_work = 0;
    g.initialised = false;
    ++g.epoch;
    g.knobs = fake::Knobs();
    fake::read_environment();
}
