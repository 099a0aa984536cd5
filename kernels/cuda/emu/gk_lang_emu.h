// The same words for the processor.
#pragma once

#define __device__
#define __global__
#define __forceinline__ inline

#ifdef GK_LIST  // the pass that lists a source's kernels: see internal/fakecuda
#define GK_KERNEL(...) gk_kernel_here
#else
#define GK_KERNEL(...) extern "C" __attribute__((visibility("hidden")))
#endif
#define GK_DEVICE
#define GK_FN static inline __attribute__((always_inline))
#define GK_METHOD inline __attribute__((always_inline))

// A shared array is a reference to memory that the block owns. The address of a static variable is its key: one for each
// declaration, and for each instance of a template.
#define GK_SHARED_ARR(T, name, dims)  \
    typedef T gk_type_of_##name dims; \
    static char gk_key_of_##name;     \
    gk_type_of_##name& name = *(gk_type_of_##name*)gk::shared(&gk_key_of_##name, #name, sizeof(gk_type_of_##name))
#define GK_DYN_SHARED(T, name) T* const name = (T*)gk::dynamic_shared()

namespace gk {

struct Dim {
    unsigned x, y, z;
};

// Current is what the thread that runs now knows of itself.
struct Current {
    Dim thread_index, block_index, block_dim, grid_dim;
    int thread;  // linear in the block
};

// current is that of the OS thread. initial-exec: one instruction to read, since kernels do so often; and only a pointer,
// since the room for such variables of loaded libraries is small.
extern __thread Current* current __attribute__((tls_model("initial-exec"), visibility("hidden")));

void* shared(const char* key, const char* name, size_t bytes);
void* dynamic_shared();

}  // namespace gk

#define threadIdx (gk::current->thread_index)
#define blockIdx (gk::current->block_index)
#define blockDim (gk::current->block_dim)
#define gridDim (gk::current->grid_dim)
#define warpSize 32
