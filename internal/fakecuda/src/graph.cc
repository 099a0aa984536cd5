// Capture of streams into graphs, and their execution.
#include <algorithm>

#include "fake.h"

namespace fake {

void invalidate(const std::shared_ptr<Capture>& c) { c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED; }

// capture_forbids is asked by calls that may not run while a capture is going on: those that wait, or allocate. Which
// captures count depends on the mode of the calling thread and of the capture.
CUresult capture_forbids(Call& call) {
    const int mine = *capture_mode();
    if (mine == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    bool forbidden = false;
    for (auto& c : g.captures) {
        const bool own = c->thread == thread_number() && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool other = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mine == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !other) continue;
        invalidate(c);
        forbidden = true;
    }
    return forbidden ? call.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a capture that forbids this call is going on")
                     : CUDA_SUCCESS;
}

// capture_node puts work into the graph instead of the queue.
CUresult capture_node(Call& call, const StreamRef& s, Work w) {
    if (s->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    auto n = std::make_shared<Node>();
    n->work = std::move(w);
    n->after = s->tips;
    s->tips = {n};
    s->capture->graph->nodes.push_back(n);
    return CUDA_SUCCESS;
}

// end_capture takes every stream out of the capture.
static void end_capture(const std::shared_ptr<Capture>& c) {
    for (auto& s : c->streams) {
        s->capture = nullptr;
        s->tips.clear();
    }
    c->streams.clear();
    c->origin = nullptr;
    c->status = CU_STREAM_CAPTURE_STATUS_NONE;
    g.captures.erase(std::remove(g.captures.begin(), g.captures.end(), c), g.captures.end());
}

// covered are the nodes that the tips of the origin come after.
static std::set<const Node*> covered(const std::vector<std::shared_ptr<Node>>& tips) {
    std::set<const Node*> seen;
    std::vector<const Node*> todo;
    for (auto& t : tips) todo.push_back(t.get());
    while (!todo.empty()) {
        const Node* n = todo.back();
        todo.pop_back();
        if (!seen.insert(n).second) continue;
        for (auto& before : n->after) todo.push_back(before.get());
    }
    return seen;
}

// run_graph runs the nodes in an order that the edges allow: of those that are ready the oldest or, with the greedy schedule,
// the newest. A missing edge shows under one of them.
static CUresult run_graph(const Graph& graph, bool newest_first) {
    std::set<const Node*> done;
    std::vector<Node*> left;
    for (auto& n : graph.nodes) left.push_back(n.get());
    if (newest_first) std::reverse(left.begin(), left.end());
    while (!left.empty()) {
        auto ready = std::find_if(left.begin(), left.end(), [&](Node* n) {
            return std::all_of(n->after.begin(), n->after.end(),
                               [&](const std::shared_ptr<Node>& b) { return done.count(b.get()); });
        });
        Node* n = *ready;
        left.erase(ready);
        if (n->work.run)
            if (CUresult r = n->work.run()) return r;
        done.insert(n);
    }
    return CUDA_SUCCESS;
}

// same_shape says why one graph cannot take the place of another, or "".
static std::string same_shape(const Graph& a, const Graph& b) {
    if (a.nodes.size() != b.nodes.size()) return format("%zu nodes instead of %zu", b.nodes.size(), a.nodes.size());
    std::map<const Node*, size_t> index_a, index_b;
    for (size_t i = 0; i < a.nodes.size(); i++) {
        index_a[a.nodes[i].get()] = i;
        index_b[b.nodes[i].get()] = i;
    }
    for (size_t i = 0; i < a.nodes.size(); i++) {
        if (a.nodes[i]->work.kind != b.nodes[i]->work.kind) return format("node %zu is of another type", i);
        std::set<size_t> before_a, before_b;
        for (auto& n : a.nodes[i]->after) before_a.insert(index_a[n.get()]);
        for (auto& n : b.nodes[i]->after) before_b.insert(index_b[n.get()]);
        if (before_a != before_b) return format("node %zu depends on other nodes", i);
    }
    return "";
}

}  // namespace fake

using fake::format;
using fake::StreamRef;

EXPORT CUresult cuStreamBeginCapture_v2(CUstream h, int mode) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (mode < 0 || mode > 2) return CUDA_ERROR_INVALID_VALUE;
    if (s == call.ctx->legacy) return call.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the NULL stream cannot capture");
    if (s->capture) return call.fail(CUDA_ERROR_ILLEGAL_STATE, "the stream is capturing already");
    auto c = std::make_shared<fake::Capture>();
    c->mode = mode;
    c->id = ++g.capture_ids;
    c->thread = fake::thread_number();
    c->graph = std::make_shared<fake::Graph>();
    c->graph->ctx = call.ctx;
    c->graph->made_by = call.made_by();
    c->origin = s;
    c->streams = {s};
    s->capture = c;
    s->tips.clear();
    g.captures.push_back(c);
    return CUDA_SUCCESS;
}

// check_end returns what is wrong with ending the capture of s now.
static CUresult check_end(fake::Call& call, const StreamRef& s) {
    const auto& c = s->capture;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != fake::thread_number())
        return call.fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread");
    if (c->status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    const auto seen = fake::covered(s->tips);
    for (auto& n : c->graph->nodes)
        if (!seen.count(n.get()))
            return call.fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, n->work.what + " is on a stream that was not joined");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream h, CUgraph* out) {
    API(CONTEXT);
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    if (!s->capture) return call.fail(CUDA_ERROR_ILLEGAL_STATE, "the stream is not capturing");
    auto c = s->capture;
    if (c->origin != s) {
        fake::invalidate(c);
        return call.fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was begun on another stream");
    }
    const CUresult r = check_end(call, s);
    fake::end_capture(c);
    if (r == CUDA_SUCCESS) *out = (CUgraph)g.graphs.put(c->graph);
    return r;
}

static CUresult capture_info(fake::Call& call, CUstream h, int* status, uint64_t* id) {
    StreamRef s;
    if (CUresult r = fake::find_stream(call, h, &s)) return r;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = fake::check_implicit(call, s)) return r;
    *status = s->capture ? s->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
    if (id && s->capture) *id = s->capture->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream h, int* status) {
    API(CONTEXT);
    return capture_info(call, h, status, nullptr);
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream h, int* status, uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                          size_t* count) {
    API(CONTEXT);
    if (graph || nodes || count)
        return call.fail(CUDA_ERROR_NOT_SUPPORTED, "the graph of a capture cannot be looked at before its end");
    return capture_info(call, h, status, id);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
    API(INIT);
    if (!mode || *mode < 0 || *mode > 2) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, *fake::capture_mode());
    return CUDA_SUCCESS;
}

static CUresult find_graph(fake::Call& call, CUgraph h, std::shared_ptr<fake::Graph>* out) {
    *out = g.graphs.get(h);
    return *out ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_VALUE, "this graph does not exist (any more)");
}

EXPORT CUresult cuGraphDestroy(CUgraph h) {
    API(CONTEXT);
    std::shared_ptr<fake::Graph> graph;
    if (CUresult r = find_graph(call, h, &graph)) return r;
    g.graphs.live.erase((uintptr_t)h);
    fake::drop_graph_memory(call, graph);
    return CUDA_SUCCESS;
}

// cuGraphGetNodes gives handles that mean something to cuGraphNodeGetType only.
EXPORT CUresult cuGraphGetNodes(CUgraph h, CUgraphNode* nodes, size_t* count) {
    API(CONTEXT);
    std::shared_ptr<fake::Graph> graph;
    if (CUresult r = find_graph(call, h, &graph)) return r;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    const size_t all = graph->nodes.size();
    for (size_t i = 0; nodes && i < *count; i++) nodes[i] = i < all ? (CUgraphNode)g.nodes.put(graph->nodes[i]) : nullptr;
    *count = nodes ? std::min(*count, all) : all;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode h, int* type) {
    API(CONTEXT);
    auto n = g.nodes.get(h);
    if (!n || !type) return CUDA_ERROR_INVALID_VALUE;
    *type = n->work.kind;
    return CUDA_SUCCESS;
}

static CUresult instantiate(fake::Call& call, CUgraphExec* out, CUgraph h, bool auto_free) {
    std::shared_ptr<fake::Graph> graph;
    if (CUresult r = find_graph(call, h, &graph)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    auto e = std::make_shared<fake::GraphExec>();
    e->ctx = call.ctx;
    e->made_by = call.made_by();
    e->graph = graph;
    e->auto_free = auto_free;
    if (!graph->memory.empty())
        for (auto& other : g.execs.live)
            if (other.second->graph == graph)
                return call.fail(CUDA_ERROR_NOT_SUPPORTED, "a graph with memory of its own is instantiated twice");
    *out = (CUgraphExec)g.execs.put(e);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph h, unsigned long long flags) {
    API(CONTEXT);
    if (flags & ~0xfull) return CUDA_ERROR_INVALID_VALUE;  // uploads and launches from the device are ignored
    return instantiate(call, out, h, flags & 1);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph h, CUgraphNode* bad, char* log, size_t log_size) {
    API(CONTEXT);
    if (bad) *bad = nullptr;
    if (log && log_size) *log = 0;
    return instantiate(call, out, h, false);
}

static CUresult find_exec(fake::Call& call, CUgraphExec h, std::shared_ptr<fake::GraphExec>* out) {
    *out = g.execs.get(h);
    return *out ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_VALUE, "this executable graph does not exist (any more)");
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec h) {
    API(CONTEXT);
    std::shared_ptr<fake::GraphExec> e;
    if (CUresult r = find_exec(call, h, &e)) return r;
    g.execs.live.erase((uintptr_t)h);
    fake::drop_graph_memory(call, e->graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec h, CUstream stream) {
    API(CONTEXT);
    std::shared_ptr<fake::GraphExec> e;
    StreamRef s;
    if (CUresult r = find_exec(call, h, &e)) return r;
    return fake::find_stream(call, stream, &s);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec h, CUstream stream) {
    API(CONTEXT);
    std::shared_ptr<fake::GraphExec> e;
    if (CUresult r = find_exec(call, h, &e)) return r;
    fake::Work w;
    w.kind = fake::CHILD;
    w.what = call.made_by();
    if (CUresult r = fake::launch_memory(call, *e)) return r;
    auto graph = e->graph;  // an update or a destruction after this does not change what was launched
    w.run = [graph, again = e->auto_free] {
        if (again) fake::free_left(*graph);
        return fake::run_graph(*graph, g.knobs.greedy);
    };
    return fake::submit(call, stream, w);
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec h, CUgraph with, CUgraphExecUpdateResultInfo* info) {
    API(CONTEXT);
    std::shared_ptr<fake::GraphExec> e;
    std::shared_ptr<fake::Graph> graph;
    if (CUresult r = find_exec(call, h, &e)) return r;
    if (CUresult r = find_graph(call, with, &graph)) return r;
    if (!info) return CUDA_ERROR_INVALID_VALUE;
    const std::string why = fake::same_shape(*e->graph, *graph);
    *info = {why.empty() ? 0 : 2 /* topology changed */, nullptr, nullptr};
    if (!why.empty()) return call.fail(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, why);
    e->graph = graph;
    return CUDA_SUCCESS;
}
