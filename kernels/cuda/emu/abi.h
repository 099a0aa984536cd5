// The contract between a library of emulated kernels and the emulated driver. internal/fakecuda/src/kernel_abi.h is the other
// copy: neither side can see the other's folder. Change GK_ABI when anything here changes.
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

// What the library exports:
//   int gk_abi(void)                                        the value of GK_ABI
//   const gk_kernel* gk_kernels(int* count)                 the kernels
//   size_t gk_where(uint64_t address, char* out, size_t n)  names the block and thread that the calling OS thread was
//                                                           running, and the shared memory that the address belongs to
//
// and, for tests alone, what emu_places.cc describes: gk_watch, gk_reached, gk_remove.
