// The contract between the emulated driver and a library of emulated kernels, for both sides. The driver loads such a library
// by dlopen, so that a linker checks nothing of this: change GK_ABI when anything here changes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GK_ABI 1

// One launch, or a range of its blocks.
struct gk_launch {
    unsigned grid[3], block[3];
    size_t dynamic_shared;             // bytes
    void** args;                       // one address for each parameter
    uint64_t first_block, last_block;  // linear, last excluded
    int greedy;                        // the second schedule
    char* message;                     // for what went wrong
    size_t message_size;
};

struct gk_kernel {
    const char* name;
    int params;
    const uint32_t* sizes;         // of the parameters, in bytes
    int (*run)(const gk_launch*);  // returns a CUresult
};

// What the library exports. For tests of kernels there is more, which emu_places.cc describes: gk_watch, gk_reached, gk_remove.
#define GK_EXPORT extern "C" __attribute__((visibility("default")))
GK_EXPORT int gk_abi();  // the value of GK_ABI
GK_EXPORT const gk_kernel* gk_kernels(int* count);
// gk_where names the block and thread that the calling OS thread was running, and the shared memory that the address belongs to.
GK_EXPORT size_t gk_where(uint64_t address, char* out, size_t room);
