// The parts of the emulated driver and what they know of each other. README.md beside this folder tells what it is for.
//
// One mutex, State::mu, guards everything that is declared here: contexts, streams, queues, allocations, counters. Every
// exported function opens with a Call, which takes it. Work itself (copies, fills, kernels, host functions) runs on the
// worker thread of its stream without it. Whoever waits does so on State::progress, which is signalled whenever a piece of
// work has ended.
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

namespace fake {

using Lock = std::unique_lock<std::mutex>;

struct Stream;
struct Capture;
struct Node;
struct Pool;

// ---- knobs.cc: what tests turn. Names and meaning are in README.md.
struct Knobs {
    int devices = 1, driver_version = 12080, compute = 80, peer = 1, free_sync = 1, strict_pageable = 0, greedy = 0, workers = 1;
    uint64_t memory[16];  // bytes of each device
    uint64_t context_bytes = 0, poison_bytes = 64 << 20, call_delay_us = 0, work_delay_us = 0, work_jitter_us = 0;
    int pageable_access = 0;
    std::string name = "Cistern Emulated GPU", kernels;
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
};
using ContextRef = std::shared_ptr<Context>;

// What every object made by a caller has: for error texts and the report of what was leaked.
struct Object {
    ContextRef ctx;
    std::string made_by;  // function, and the number of its call
};

// ---- stream.cc
enum Kind { KERNEL = 0, COPY = 1, SET = 2, HOST = 3, CHILD = 4, EMPTY = 5, ADMIN = 100 };  // as CUgraphNodeType; ADMIN always runs

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
    int access = CU_MEM_ACCESS_NONE;
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
    size_t static_shared = 0;
    int max_threads = 1024;
};

struct Module : Object {
    std::vector<EntryPoint> entries;
    std::map<std::string, CUfunction> handles;
    int target = 0, ptx_version = 0;
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
};

struct GraphExec : Object {
    std::shared_ptr<Graph> graph;
};

struct Capture {
    int mode = 0, status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    uint64_t id = 0, thread = 0;
    std::shared_ptr<Graph> graph;
    StreamRef origin;
    std::vector<StreamRef> streams;
};

// ---- the tables of what is alive
template <class T>
struct Table {
    std::map<uintptr_t, std::shared_ptr<T>> live;
    uintptr_t next;
    // Each kind of handle has numbers of its own, and none is given out twice.
    explicit Table(int kind) : next(0x500000000000 + ((uintptr_t)kind << 40)) {}
    uintptr_t put(std::shared_ptr<T> v) {
        next += 16;
        live[next] = v;
        return next;
    }
    std::shared_ptr<T> get(const void* h) const {
        auto i = live.find((uintptr_t)h);
        return i == live.end() ? nullptr : i->second;
    }
};

struct Device {
    uint64_t total = 0, used = 0;
    CUcontext primary = nullptr;
    unsigned primary_flags = 0;
    std::shared_ptr<Pool> default_pool, current_pool;
};

struct State {
    std::mutex mu;
    std::condition_variable progress;
    Knobs knobs;
    bool initialised = false, held = false, stopping = false;
    uint64_t epoch = 1, serial = 0, stream_ids = 1, capture_ids = 0;
    int workers = 0;
    std::vector<Device> devices;

    Table<Context> contexts{1};
    Table<Stream> streams{2};
    Table<Event> events{3};
    Table<Module> modules{4};
    Table<Function> functions{5};
    Table<Graph> graphs{6};
    Table<GraphExec> execs{7};
    Table<Physical> physicals{8};
    Table<Pool> pools{9};
    Table<Node> nodes{10};
    std::map<uint64_t, AllocationRef> allocations;  // by base; freed ones stay
    std::map<uint64_t, AllocationRef> registered;   // host memory of callers
    std::map<uint64_t, Reservation> reservations;
    std::map<uint64_t, Mapping> mappings;
    std::vector<std::shared_ptr<Capture>> captures;

    std::vector<std::string> errors;  // what the sanitizer found
    std::vector<std::string> lost;    // what was alive when its context was destroyed
    std::map<std::string, uint64_t> calls;
    uint64_t total_calls = 0, total_work = 0;
    std::vector<Fault> faults;
};
extern State& g;  // never destroyed: workers may outlive exit handlers

// ---- call.cc: the door of every exported function
enum Needs : unsigned {
    ANY_TIME = 0,      // also before cuInit
    INIT = 1,          // after cuInit
    CONTEXT = 1 | 2,   // with a context current to the thread, which is not broken
    UNSAFE = 4,        // not while a capture forbids it
};

struct Call {
    const char* name;
    uint64_t number = 0;  // of this function's calls
    CUresult result = CUDA_SUCCESS;
    Lock lock;
    ContextRef ctx;
    Call(const char* name, unsigned needs);
    std::string made_by() const;
    // fail notes what a sanitizer should say, and returns the code.
    CUresult fail(CUresult code, const std::string& why);
};

#define API(needs)                           \
    fake::Call call(__func__, needs);        \
    if (call.result != CUDA_SUCCESS) return call.result

void note(const std::string& message);  // adds to State::errors; with the lock
std::string format(const char* f, ...) __attribute__((format(printf, 1, 2)));
const char* result_name(int code);
bool is_sticky(int code);

// ---- knobs.cc
void read_environment();
bool set_knob(const std::string& name, const std::string& value);
CUresult take_fault(const char* function);
std::string leaks();

// ---- context.cc
ContextRef current_context();
uint64_t thread_number();
void destroy_context(Lock& lock, const ContextRef& ctx);
void poison(const ContextRef& ctx, CUresult code, const std::string& why);
extern thread_local bool in_callback;

// ---- stream.cc
CUresult find_stream(Call& call, CUstream h, StreamRef* out);
CUresult submit(Call& call, CUstream h, Work w);
CUresult submit_and_wait(Call& call, CUstream h, Work w);
Point enqueue(const StreamRef& s, Work w, std::vector<Point> after = {});
CUresult wait_for(Lock& lock, const ContextRef& ctx, const std::vector<Point>& points);
std::vector<Point> tails(const Context& ctx);
void wait_for_device(Lock& lock, int device);
void close_stream(const StreamRef& s);
StreamRef new_stream(const ContextRef& ctx, unsigned flags, int priority);
void stop_workers(Lock& lock);
double now_ms();

// ---- guard.cc
struct Fault700 {
    int signal = 0;
    uint64_t address = 0;
    bool write = false, misaligned = false;
};
bool guarded(const std::function<void()>& f, Fault700* fault);
CUresult guarded_work(const std::string& what, const std::function<void()>& f, const std::function<std::string(uint64_t)>& where = nullptr);

// ---- memory.cc
AllocationRef allocate(size_t size, int device, Place place, const Call& call);
AllocationRef find_allocation(uint64_t p);
bool charge(int device, uint64_t bytes);
std::string check_canaries(const Allocation& a);
void retire(const AllocationRef& a, const std::string& by);
bool open_pages(Allocation* a);
void close_pages(Allocation* a);
std::string describe(uint64_t p);
std::string describe(const Allocation& a);
// check_range returns what is wrong with using [p, p+n) as device memory, or "".
std::string check_range(uint64_t p, size_t n);
bool is_device_range(uint64_t p);
bool is_pinned(uint64_t p, size_t n);
uint64_t take_addresses(size_t bytes, size_t align);
void forget_memory(const ContextRef& ctx);
std::string mapped_range(uint64_t p, size_t n, bool* found);
void unmap_everything();

// ---- pool.cc
CUresult free_pooled(Call& call, const AllocationRef& a, const StreamRef& s);
void forget_pooled(const Allocation& a);
void release_idle_pools(int device);
std::string pool_leak(const Pool& p);
void trim_pools_for(int device, uint64_t bytes);

// ---- graph.cc
CUresult capture_forbids(Call& call);
CUresult capture_node(Call& call, const StreamRef& s, Work w);
void invalidate(const std::shared_ptr<Capture>& c);

// ---- launch.cc
CUresult load_kernels(const std::string& path, std::string* why);

}  // namespace fake

using fake::ANY_TIME;
using fake::CONTEXT;
using fake::g;
using fake::INIT;
using fake::UNSAFE;
