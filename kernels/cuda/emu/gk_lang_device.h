// Keywords and built-in variables for clang's CUDA front end.
#pragma once

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __attribute__((always_inline)) inline

#define GK_KERNEL(...) extern "C" __attribute__((global, launch_bounds(__VA_ARGS__)))
#define GK_DEVICE __attribute__((device))
#define GK_FN static inline __attribute__((device, always_inline))
#define GK_METHOD inline __attribute__((device, always_inline))

#define GK_SHARED_ARR(T, name, dims) __attribute__((shared, aligned(16))) T name dims
#define GK_DYN_SHARED(T, name)                                                     \
    extern __attribute__((shared, aligned(16))) unsigned char gk_dynamic_shared[]; \
    T* const name = (T*)gk_dynamic_shared

// threadIdx and its kind: reading .x reads the special register.
#define GK_SREG(dim, read)                                 \
    __declspec(property(get = gk_get_##dim)) unsigned dim; \
    static inline __attribute__((device, always_inline)) unsigned gk_get_##dim() { return read(); }

struct gk_thread_index {
    GK_SREG(x, __nvvm_read_ptx_sreg_tid_x)
    GK_SREG(y, __nvvm_read_ptx_sreg_tid_y)
    GK_SREG(z, __nvvm_read_ptx_sreg_tid_z)
};
struct gk_block_index {
    GK_SREG(x, __nvvm_read_ptx_sreg_ctaid_x)
    GK_SREG(y, __nvvm_read_ptx_sreg_ctaid_y)
    GK_SREG(z, __nvvm_read_ptx_sreg_ctaid_z)
};
struct gk_block_dim {
    GK_SREG(x, __nvvm_read_ptx_sreg_ntid_x)
    GK_SREG(y, __nvvm_read_ptx_sreg_ntid_y)
    GK_SREG(z, __nvvm_read_ptx_sreg_ntid_z)
};
struct gk_grid_dim {
    GK_SREG(x, __nvvm_read_ptx_sreg_nctaid_x)
    GK_SREG(y, __nvvm_read_ptx_sreg_nctaid_y)
    GK_SREG(z, __nvvm_read_ptx_sreg_nctaid_z)
};
#undef GK_SREG

// Declared and never defined: nothing of them is used but the properties.
extern const __attribute__((device, weak)) gk_thread_index threadIdx;
extern const __attribute__((device, weak)) gk_block_index blockIdx;
extern const __attribute__((device, weak)) gk_block_dim blockDim;
extern const __attribute__((device, weak)) gk_grid_dim gridDim;
#define warpSize 32
