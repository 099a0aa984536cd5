// The language of our kernels: CUDA C++ as far as it goes without NVIDIA's headers. A source that includes this file compiles
//
//   - to PTX, by clang, without a CUDA SDK (gk_device.h):
//     clang++-19 -x cuda --cuda-device-only -nocudainc -nocudalib -O3 -std=c++17 -ffp-contract=off
//         -Wno-unknown-cuda-version --cuda-gpu-arch=sm_80 --cuda-feature=+ptx70 -I kernels/cuda/emu -S k.cu -o k.ptx
//   - for the processor, by g++ 12 or clang, where blocks, warps and barriers are emulated (emu.h), so that every kernel is
//     tested without a GPU. internal/fakecuda.BuildKernels does that.
//
// A kernel is written
//
//	GK_KERNEL(256) void add_f32(const float* a, const float* b, float* c, long n) {
//	    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
//	    if (i < n) c[i] = a[i] + b[i];
//	}
//
// where 256 is the largest number of threads of a block; a second number is the least number of blocks that must fit on a
// multiprocessor at a time, which limits registers. Functions that kernels call are marked GK_DEVICE.
//
// What it may use: threadIdx, blockIdx, blockDim, gridDim, warpSize; __syncthreads and its _count, _and, _or forms;
// __syncwarp; __shfl_sync, _up, _down, _xor for 2, 4 and 8 byte types; __ballot_sync, __any_sync, __all_sync,
// __match_any_sync; __reduce_*_sync; atomics; __threadfence; gk::f16, gk::bf16 and gk::vec (gk_types.h); tensor core and
// asynchronous copy wrappers (gk_cp_async*, gk_ldmatrix*, gk_mma_*); #pragma unroll; __builtin_ functions that need no
// library on the GPU (fmaf, sqrtf, floorf, ceilf, truncf, rintf, fminf, fmaxf, copysignf, fabsf). exp, log and the like do
// not exist on the GPU without libdevice: kernels bring their own, built of fma.
//
// Shared memory is declared with a macro, since the emulator must know of it:
//
//	GK_SHARED_ARR(float, tile, [16][17]);   // __shared__ float tile[16][17]
//	GK_DYN_SHARED(float, buffer);           // extern __shared__: float* buffer, as many bytes as the launch asked for
//
// It holds 0xFF bytes (NaN as a float) when a block starts under the emulator.
#pragma once

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
typedef unsigned long size_t;

#if defined(__CUDA__)
#include "gk_lang_device.h"
#else
#include "gk_lang_emu.h"
#endif

#include "gk_types.h"

#if defined(__CUDA__)
#include "gk_device.h"
#include "gk_device_mma.h"
#else
#include "emu.h"
#include "emu_mma.h"
#endif
