// The state of the engine, shared by its files. Each OS thread that runs blocks has its own; nothing here is shared between
// OS threads.
//
// An OS thread runs one block at a time, and of that one CUDA thread at a time. CUDA threads are fibers: stacks that are
// switched by hand where a thread must wait for others. A thread that never waits ends on the stack on which the next one
// begins, so that kernels without barriers have no switches at all.
//
// Which thread runs next is a schedule, and there are two, so that a missing barrier shows under one of them:
//
//	run to barrier   threads ascending; each runs until it must wait; blocks ascending
//	greedy warp      warps descending; a warp runs as far as it can before another one begins; lanes and blocks descending
#pragma once

#include "../../../internal/fakecuda/src/kernel_abi.h"
#include "gk.h"

namespace gk {

enum { MAX_WARPS = MAX_THREADS / WARP, STACK = 64 << 10, PAGE = 4096 };

struct Fiber {
    void* sp;     // where it was left
    char* stack;  // lowest byte; below it lies a page that cannot be touched
    Fiber* next_free;
};

// Warp holds the phases of one warp. A lane is in one phase at a time, and a complete phase has at least one lane that has
// not left it, so there are never more than WARP of them at the same time.
struct Warp {
    Phase phases[WARP + 1];
    void (*combine[WARP + 1])(Phase*);
    uint64_t used;
};

struct Copy {
    void* to;
    const void* from;
    int size, bytes, group;
};

struct Copies {
    Copy* list;
    int count, room, group;
};

// SharedArray is one __shared__ declaration. It ends at a page that cannot be touched, up to 15 bytes; the page before its
// first one cannot be touched either.
struct SharedArray {
    const char* key;
    const char* name;
    char* start;
    size_t bytes;
};

enum { SHARED_ARRAYS = 16, SHARED_ROOM = 256 << 10, STATIC_LIMIT = 48 << 10 };

struct Engine : Current {
    const gk_launch* launch;
    void (*call)(void**);
    const char* kernel;         // its name while barriers are watched, else null
    const char* last_file;      // the barrier that a thread came to last, while they are watched
    int last_line;
    int threads, live;
    bool greedy;
    Dim index[MAX_THREADS];  // of each thread of the block

    unsigned runnable[MAX_WARPS], alive[MAX_WARPS];  // by lane; threads that have not begun are runnable
    Fiber* fiber[MAX_THREADS];                       // of threads that have begun and not ended
    Fiber* running;
    Fiber* free;
    Fiber* all;
    int fibers;
    void* main_sp;

    // The barrier: who waits, and where.
    unsigned at_barrier[MAX_WARPS];
    int waiting, count, parity, result[2];
    const char* file;
    int line;

    Warp* warps[MAX_WARPS];
    Copies copies[MAX_THREADS];
    SharedArray arrays[SHARED_ARRAYS];  // the first is the dynamic one
    int array_count;
    char* shared_memory;
    char* lowest[SHARED_ARRAYS];  // byte of each room that can be touched

    int code;  // of the failure, or 0
    char message[512];
};

// gk_switch saves the callee's registers on the stack, leaves its stack pointer in *save and goes on from load.
extern "C" void gk_switch(void** save, void* load) __attribute__((visibility("hidden")));

inline Engine* own() { return static_cast<Engine*>(current); }  // of the OS thread, or null

Engine* engine();        // own, made if it must be
void fiber_main();       // where a fiber begins
void prepare(Fiber* f);  // makes it begin there
Fiber* take_fiber(Engine* e);
void give_fiber(Engine* e, Fiber* f);
void suspend();  // runs other threads until this one is runnable again
void wake(int warp, unsigned lanes);
void lane_ended(Engine* e, int warp, unsigned bit);
void start_shared(Engine* e);   // of a launch
void poison_shared(Engine* e);  // of a block
void check_shared(Engine* e);   // at the end of a block
void name_kernel(Engine* e, int (*run)(const gk_launch*));
int array_of(const Engine* e, uint64_t address);
void fail_block(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace gk
