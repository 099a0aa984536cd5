// The parts of the emulated driver and what they know of each other. README.md beside this folder tells what it is for.
//
// One mutex, State::mu, guards everything: contexts, streams, queues, allocations, counters. Every exported function opens
// with a Call, which takes it. Work itself (copies, fills, kernels, host functions) runs on the worker thread of its stream
// without it. Whoever waits does so on State::progress, which is signalled whenever a piece of work has ended.
#pragma once

#include "objects.h"

namespace fake {

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
    uint64_t total = 0, used = 0, graph_idle = 0;  // graph_idle: of used, what graphs have freed
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
    std::map<std::string, interpreter::Counts> counts;  // by entry point
    std::vector<Fault> faults;
};
extern State& g;  // never destroyed: workers may outlive exit handlers

// ---- call.cc: the door of every exported function
enum Needs : unsigned {
    ANY_TIME = 0,     // also before cuInit
    INIT = 1,         // after cuInit
    CONTEXT = 1 | 2,  // with a context current to the thread, which is not broken
    UNSAFE = 4,       // not while a capture forbids it
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

#define API(needs)                    \
    fake::Call call(__func__, needs); \
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
int* capture_mode();  // of the calling thread: which captures forbid it what
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
CUresult guarded_work(const std::string& what, const std::function<void()>& f,
                      const std::function<std::string(uint64_t)>& where = nullptr);

// ---- memory.cc
AllocationRef allocate(size_t size, int device, Place place, const Call& call);
AllocationRef find_allocation(uint64_t p);
bool charge(int device, uint64_t bytes);
bool beyond_sense(uint64_t bytes);
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

// ---- info.cc
int shared_optin();
int threads_per_sm();

// ---- graphmem.cc
CUresult alloc_in_graph(Call& call, CUdeviceptr* out, size_t size, int device, const StreamRef& s);
CUresult free_in_capture(Call& call, const AllocationRef& a, const StreamRef& s);
CUresult free_outside(Call& call, const AllocationRef& a, const StreamRef& s);
CUresult launch_memory(Call& call, const GraphExec& e);
void free_left(const Graph& graph);
void drop_graph_memory(Call& call, const std::shared_ptr<Graph>& graph);

// ---- graph.cc
CUresult capture_forbids(Call& call);
CUresult capture_node(Call& call, const StreamRef& s, Work w);
void invalidate(const std::shared_ptr<Capture>& c);

// ---- launch.cc
CUresult load_kernels(const std::string& path, std::string* why);
std::string counts_text();

// ---- cublas.cc
void forget_blas();
std::string blas_leaks();

// ---- nccl.cc
void abort_nccl();  // all communicators of the process
void forget_nccl();
std::string nccl_leaks();

}  // namespace fake

using fake::ANY_TIME;
using fake::CONTEXT;
using fake::g;
using fake::INIT;
using fake::UNSAFE;
