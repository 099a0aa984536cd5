// What the emulated driver keeps: contexts, streams, events, memory, modules, graphs. All of it is guarded by State::mu.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api.h"
#include "interpreter/interpreter.h"

namespace fake {

using Lock = std::unique_lock<std::mutex>;

struct Stream;
struct Capture;
struct Node;
struct Pool;

// A process other than ours that holds memory of a device: "device:pid:bytes:name".
struct Process {
    int device;
    unsigned pid;
    uint64_t bytes;
    std::string name;
};

// ---- knobs.cc: what tests turn. Names and meaning are in README.md.
struct Knobs {
    int devices = 1, driver_version = 12080, compute = 80, peer = 1, free_sync = 1, strict_pageable = 0, greedy = 0,
        workers = 1, instant_launch = 0, ptx = 0, races = 0, counts = 0, processors = 108, block_shared = 0;
    uint64_t memory[16];  // bytes of each device
    uint64_t context_bytes = 0, stream_bytes = 0, poison_bytes = 64 << 20, call_delay_us = 0, work_delay_us = 0, work_jitter_us = 0;
    int pageable_access = 0, process_stride = 24, pool_reuse = 1;
    int nccl_version = 23007, nccl_remote = 1, nccl_async = 0, nccl_in_progress = 0;
    std::string name = "Cistern Emulated GPU", kernels;
    std::vector<Process> processes;
};

// One armed fault: the n-th call from now of a function ("*": of any), or the n-th piece of work ("work").
struct Fault {
    std::string function;
    uint64_t nth, seen;
    int code;
};

// ---- context.cc
struct Context {
    CUcontext handle = nullptr;
    int device = 0, refs = 0;
    bool primary = false, destroyed = false;
    unsigned flags = 0;
    CUresult sticky = CUDA_SUCCESS;  // the error of work that broke this context; every later call answers it
    std::shared_ptr<Stream> legacy;  // the NULL stream
    std::vector<std::shared_ptr<Stream>> streams;
    std::set<int> peers;
    std::map<int, size_t> limits;
    uint64_t own_bytes = 0;  // of device memory that the driver took for itself besides
};
using ContextRef = std::shared_ptr<Context>;

// What every object made by a caller has: for error texts and the report of what was leaked.
struct Object {
    ContextRef ctx;
    std::string made_by;  // function, and the number of its call
};

// ---- stream.cc
enum Kind {
    KERNEL = 0,
    COPY = 1,
    SET = 2,
    HOST = 3,
    CHILD = 4,
    EMPTY = 5,
    MEM_ALLOC = 10,
    MEM_FREE = 11,
    ADMIN = 100
};  // as CUgraphNodeType; ADMIN always runs

struct Work {
    Kind kind = EMPTY;
    std::string what;
    std::function<CUresult()> run;  // without the lock, on a worker
};

// Point is a place in a stream's order. It is reached when the stream has done that much.
struct Point {
    std::shared_ptr<Stream> stream;
    uint64_t seq = 0;
    bool reached() const;
};

struct Command {
    uint64_t seq;
    Work work;
    std::vector<Point> after;
};

struct Stream : Object {
    CUstream handle = nullptr;
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0, submitted = 0, completed = 0;
    bool started = false, closing = false, held = false;
    std::deque<Command> queue;
    std::condition_variable arrived;
    std::shared_ptr<Capture> capture;
    std::vector<std::shared_ptr<Node>> tips;  // while capturing: what the next node depends on
    bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }
};
using StreamRef = std::shared_ptr<Stream>;

// ---- event.cc
struct Event : Object {
    unsigned flags = 0;
    bool recorded = false;
    Point point;
    std::shared_ptr<double> ms;  // when it was reached; 0 before
    std::shared_ptr<Capture> capture;
    std::vector<std::shared_ptr<Node>> tips;
};

// ---- memory.cc, host.cc, pool.cc
enum Place { DEVICE, POOLED, PINNED };

// Allocation lies at the end of its pages, and the next page cannot be touched. Its addresses are never used again, so that
// it stays here when it is freed, to be named by whoever touches it then.
struct Allocation : Object {
    uint64_t base = 0, lo = 0;  // lo: first byte of its pages
    size_t size = 0, span = 0;  // span: from lo, the guard page included
    int device = -1;            // -1: host
    Place place = DEVICE;
    bool freed = false, registered = false;
    bool open = false, closed = false;  // its pages can be touched; no more (pools)
    bool graphs = false, launched = false;  // a graph opens it; it was launched since it was freed the last time
    bool orphaned = false;                  // the graph is gone
    unsigned flags = 0;
    uint64_t serial = 0, charged = 0;
    std::string freed_by;
    std::shared_ptr<Pool> pool;
    size_t end_slack() const { return lo + span - 4096 - (base + size); }
};
using AllocationRef = std::shared_ptr<Allocation>;

// ---- vmm.cc
struct Physical : Object {
    int fd = -1, device = 0, maps = 0, refs = 1;
    size_t size = 0;
    CUmemAllocationProp prop;
    uint64_t handle = 0;
};

struct Mapping {
    size_t size = 0, offset = 0;
    std::shared_ptr<Physical> physical;
    int access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};

struct Reservation : Object {
    size_t size = 0;
};

// ---- module.cc
struct Param {
    size_t size, align;
};

struct EntryPoint {
    std::string name;
    std::vector<Param> params;
    size_t static_shared = 0, local = 0;
    int max_threads = 1024;
};

struct Module : Object {
    std::vector<EntryPoint> entries;
    std::map<std::string, CUfunction> handles;
    int target = 0, ptx_version = 0;
    std::shared_ptr<interpreter::Image> image;  // what the interpreter runs, if it can; why_not else
    std::string why_not;
};

struct Function {
    std::shared_ptr<Module> module;
    CUmodule module_handle = nullptr;
    EntryPoint entry;
    int max_dynamic = 0, carveout = -1;
};

// ---- graph.cc
struct Node {
    Work work;
    std::vector<std::shared_ptr<Node>> after;
};

struct Graph : Object {
    std::vector<std::shared_ptr<Node>> nodes;
    std::vector<AllocationRef> memory;  // that its nodes open
};

struct GraphExec : Object {
    std::shared_ptr<Graph> graph;
    bool auto_free = false;
};

struct Capture {
    int mode = 0, status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    uint64_t id = 0, thread = 0;
    std::shared_ptr<Graph> graph;
    StreamRef origin;
    std::vector<StreamRef> streams;
};

}  // namespace fake
