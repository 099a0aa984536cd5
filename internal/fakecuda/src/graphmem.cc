// Memory that belongs to a graph: a stream-ordered allocation in a capture becomes a node, and so does its free. The address is
// the graph's as long as that lives; there is memory behind it from the node of the allocation on, in each launch, until the
// node of the free, or until somebody frees it outside of the graph. The end of the graph does not free it. What was freed is kept
// for other graphs until cuDeviceGraphMemTrim.
#include <algorithm>

#include "fake.h"

namespace fake {

static CUresult open_graph_memory(const AllocationRef& a) {
    Lock lock(g.mu);
    const uint64_t bytes = (a->size + 511) / 512 * 512;
    uint64_t& idle = g.devices[a->device].graph_idle;
    const uint64_t again = std::min(idle, bytes);
    if (a->open || !charge(a->device, bytes - again)) {
        note((a->open ? "launched again before it was freed: " : "the device is full: ") + describe(*a));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    idle -= again;
    a->charged = bytes;
    return open_pages(a.get()) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// shut_graph_memory is called with the lock.
static void shut_graph_memory(const AllocationRef& a) {
    if (!a->open) return;
    const std::string why = check_canaries(*a);
    if (!why.empty()) note(why);
    close_pages(a.get());
    g.devices[a->device].graph_idle += a->charged;
    a->charged = 0;
}

static CUresult shut_later(const AllocationRef& a) {
    Lock lock(g.mu);
    shut_graph_memory(a);
    return CUDA_SUCCESS;
}

// alloc_in_graph adds an allocation to the capture of s.
CUresult alloc_in_graph(Call& call, CUdeviceptr* out, size_t size, int device, const StreamRef& s) {
    AllocationRef a = allocate(size, device, POOLED, call);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    a->graphs = true;
    Work w;
    w.kind = MEM_ALLOC;
    w.what = call.made_by();
    w.run = [a] { return open_graph_memory(a); };
    if (CUresult r = capture_node(call, s, w)) return retire(a, call.made_by()), r;
    s->capture->graph->memory.push_back(a);
    *out = a->base;
    return CUDA_SUCCESS;
}

// free_in_capture adds the free of an allocation of the same graph to the capture of s.
CUresult free_in_capture(Call& call, const AllocationRef& a, const StreamRef& s) {
    const auto& own = s->capture->graph->memory;
    if (std::find(own.begin(), own.end(), a) == own.end()) {
        invalidate(s->capture);
        return call.fail(CUDA_ERROR_INVALID_VALUE, "a graph cannot free memory that is not its own: " + describe(*a));
    }
    Work w;
    w.kind = MEM_FREE;
    w.what = call.made_by();
    w.run = [a] { return shut_later(a); };
    if (CUresult r = capture_node(call, s, w)) return r;
    a->freed = true;
    a->freed_by = call.made_by();
    return CUDA_SUCCESS;
}

// free_outside frees what a launch of a graph has left.
CUresult free_outside(Call& call, const AllocationRef& a, const StreamRef& s) {
    if (!a->launched) return call.fail(CUDA_ERROR_INVALID_VALUE, "its graph was not launched: " + describe(*a));
    a->launched = false;
    Work w;
    w.what = call.made_by();
    w.run = [a] { return shut_later(a); };
    enqueue(s, w);
    if (a->orphaned) {
        a->freed = true;
        a->freed_by = call.made_by();
    }
    return CUDA_SUCCESS;
}

// launch_memory prepares a launch: what the last one left must be freed, unless the graph frees it by itself.
CUresult launch_memory(Call& call, const GraphExec& e) {
    for (auto& a : e.graph->memory) {
        if (a->freed) continue;
        if (a->launched && !e.auto_free)
            return call.fail(CUDA_ERROR_INVALID_VALUE, "the last launch left memory that nobody freed: " + describe(*a));
        a->launched = true;
    }
    return CUDA_SUCCESS;
}

// free_left frees what the launch before left, when the next one runs.
void free_left(const Graph& graph) {
    Lock lock(g.mu);
    for (auto& a : graph.memory) shut_graph_memory(a);
}

// drop_graph_memory ends the memory of a graph that nobody has any more. What its last launch left stays until it is freed.
void drop_graph_memory(Call& call, const std::shared_ptr<Graph>& graph) {
    if (graph->memory.empty()) return;
    for (auto& e : g.execs.live)
        if (e.second->graph == graph) return;
    for (auto& e : g.graphs.live)
        if (e.second == graph) return;
    wait_for_device(call.lock, graph->memory[0]->device);
    for (auto& a : graph->memory) {
        a->orphaned = true;
        if (!a->launched) retire(a, call.made_by());
    }
}

}  // namespace fake

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice d) {
    API(INIT);
    if (CUresult r = fake::check_device(call, d)) return r;
    g.devices[d].used -= g.devices[d].graph_idle;
    g.devices[d].graph_idle = 0;
    return CUDA_SUCCESS;
}
