// Kernels that use each thing the emulator has, for the tests of this folder. MUTANT leaves something out that a correct
// kernel needs; the tests assert that it shows.
#include "gk.h"

#ifndef MUTANT
#define MUTANT 0
#endif

#define BARRIER(n) \
    if (MUTANT != n) __syncthreads()

GK_KERNEL(1024) void add_f32(const float* a, const float* b, float* c, long n) {
    const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// Every kind of parameter: its layout in memory is the caller's business.
struct Pair {
    int a;
    double b;
};
GK_KERNEL(32) void parameters(double* out, char c, short s, int i, long l, float f, double d, Pair p, unsigned char u) {
    if (threadIdx.x == 0) out[blockIdx.x] = c + s + i + (double)l + f + d + p.a + p.b + u;
}

// Sum of a block: shuffles in a warp, shared memory between warps. Mutant 1 reads what other warps have not written.
GK_KERNEL(1024) void block_sum(const float* a, float* sums) {
    GK_SHARED_ARR(float, partial, [32]);
    float v = a[blockIdx.x * blockDim.x + threadIdx.x];
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    BARRIER(1);
    if (threadIdx.x >= 32) return;
    v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) sums[blockIdx.x] = v;
}

// Each thread takes its left neighbour's value: mutant 2. Threads that run in ascending order find it by luck.
GK_KERNEL(256) void from_left(const int* a, int* b) {
    GK_SHARED_ARR(int, row, [256]);
    row[threadIdx.x] = a[threadIdx.x];
    BARRIER(2);
    b[threadIdx.x] = row[(threadIdx.x + blockDim.x - 1) % blockDim.x];
}

// Each thread takes its right neighbour's value: mutant 3.
GK_KERNEL(256) void from_right(const int* a, int* b) {
    GK_DYN_SHARED(int, row);
    row[threadIdx.x] = a[threadIdx.x];
    BARRIER(3);
    b[threadIdx.x] = row[(threadIdx.x + 1) % blockDim.x];
}

// A tile that is filled again and again: mutant 4 lacks the barrier before the next filling.
GK_KERNEL(256) void running_sum(const int* a, int* sums, int rows) {
    GK_SHARED_ARR(int, row, [256]);
    int sum = 0;
    for (int r = 0; r < rows; r++) {
        row[threadIdx.x] = a[r * blockDim.x + threadIdx.x];
        __syncthreads();
        for (unsigned i = 0; i < blockDim.x; i++) sum += (int)(i + 1) * row[(threadIdx.x + i) % blockDim.x];
        BARRIER(4);
    }
    sums[threadIdx.x] = sum;
}

// Counts in shared memory by atomics, then added up in global memory. blockDim is 2-dimensional.
GK_KERNEL(256) void histogram(const unsigned char* a, long n, unsigned* bins) {
    GK_SHARED_ARR(unsigned, local, [256]);
    const unsigned t = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (unsigned i = t; i < 256; i += threads) local[i] = 0;
    __syncthreads();
    for (long i = blockIdx.x * (long)threads + t; i < n; i += gridDim.x * (long)threads) atomicAdd(&local[a[i]], 1u);
    __syncthreads();
    for (unsigned i = t; i < 256; i += threads) atomicAdd(&bins[i], local[i]);
}

// Atomics of every kind, all threads on the same places.
GK_KERNEL(256) void atomics(int* i, unsigned* u, unsigned long long* w, float* f, double* d, gk::f16* h, gk::bf16* b) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], 1);
    atomicMax(&i[1], t);
    atomicMin(&i[2], -t);
    atomicOr(&u[0], 1u << t % 32);
    atomicAnd(&u[1], ~(1u << t % 7));
    atomicXor(&u[2], 1u << t % 32);
    atomicAdd(&w[0], 3ull);
    if (gk_atomic_cas(&w[1], 0ull, 1ull) == 0) w[2] = 7;
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
    atomicAdd(&h[0], (gk::f16)1.0f);
    atomicAdd(&b[0], (gk::bf16)1.0f);
}

// out has 10 words for each lane of a warp.
GK_KERNEL(64) void warp_operations(unsigned* out) {
    const unsigned t = threadIdx.x, lane = t % 32;
    unsigned* o = out + t * 10;
    o[0] = __ballot_sync(~0u, lane % 3 == 0);
    o[1] = (unsigned)(__any_sync(~0u, lane == 5) * 2 + __all_sync(~0u, lane < 31));
    o[2] = __match_any_sync(~0u, lane / 4);
    o[3] = __reduce_add_sync(~0u, lane) + (unsigned)__reduce_min_sync(~0u, (int)lane - 9);
    o[4] = __shfl_sync(~0u, lane * lane, 7);
    o[5] = __shfl_up_sync(~0u, lane, 3, 8);
    o[6] = __shfl_down_sync(~0u, lane, 3, 16);
    o[7] =
        (unsigned)__shfl_xor_sync(~0u, (double)lane / 2, 5) + (unsigned)(float)__shfl_xor_sync(~0u, (gk::f16)(float)lane, 1);
    // Parts of a warp meet on their own in divergent code.
    const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
    if (lane < 16) {
        o[8] = __reduce_max_sync(half, lane);
    } else {
        unsigned m = lane;
        for (int d = 8; d; d /= 2) m += __shfl_xor_sync(half, m, d, 16);
        o[8] = m;
    }
    __syncwarp();
    o[9] = (unsigned)(__syncthreads_count(lane == 0) * 4 + __syncthreads_or(t == 40) * 2 + __syncthreads_and(t < 64));
}

// Threads beyond n end before the others meet: they are not waited for, here and at the barrier.
GK_KERNEL(256) void early_end(const int* a, int* out, unsigned n) {
    const unsigned t = threadIdx.x;
    if (t >= n) return;
    const unsigned w = n - t / 32 * 32, mask = w >= 32 ? ~0u : (1u << w) - 1;
    int v = a[t];
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_down_sync(mask, v, d);
        if (t % 32 + d < 32 && t + d < n) v += other;
    }
    __syncthreads();
    out[t] = v;
}

// One warp multiplies a tile: C (16 x 8) = A (16 x 16, row-major) B (16 x 8, row-major), loaded by cp.async and ldmatrix.
// Mutant 5 does not wait for the copies.
template <class T>
GK_DEVICE inline void tile(const T* a, const T* b, float* c, T (&sa)[16][24], T (&sb)[16][8]) {
    const int lane = threadIdx.x;
    for (int i = lane; i < 32; i += 32) gk_cp_async<16>(&sa[i / 2][i % 2 * 8], a + i * 8);
    if (lane < 16) gk_cp_async<16>(&sb[lane][0], b + lane * 8);
    gk_cp_async_commit();
    if (MUTANT != 5) gk_cp_async_wait<0>();
    __syncthreads();
    uint32_t ra[4], rb[2];
    float d[4] = {};
    gk_ldmatrix_x4(ra, &sa[lane % 16][lane / 16 * 8]);
    gk_ldmatrix_x2_trans(rb, &sb[lane % 16][0]);
    gk_mma(T(), d, ra, rb);
    const int g = lane / 4, q = lane % 4;
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + q * 2 + i % 2] = d[i];
}

GK_KERNEL(32) void tile_f16(const gk::f16* a, const gk::f16* b, float* c) {
    GK_SHARED_ARR(gk::f16, sa, [16][24]);
    GK_SHARED_ARR(gk::f16, sb, [16][8]);
    tile(a, b, c, sa, sb);
}

GK_KERNEL(32) void tile_bf16(const gk::bf16* a, const gk::bf16* b, float* c) {
    GK_SHARED_ARR(gk::bf16, sa, [16][24]);
    GK_SHARED_ARR(gk::bf16, sb, [16][8]);
    tile(a, b, c, sa, sb);
}

// C (16 x 8) = A (16 x 8) B (8 x 8) in tf32, fragments loaded by hand.
GK_KERNEL(32) void tile_tf32(const float* a, const float* b, float* c) {
    const int lane = threadIdx.x, g = lane / 4, q = lane % 4;
    uint32_t ra[4], rb[2];
    for (int i = 0; i < 4; i++) ra[i] = gk_tf32(a[(g + i % 2 * 8) * 8 + q + i / 2 * 4]);
    for (int i = 0; i < 2; i++) rb[i] = gk_tf32(b[(q + i * 4) * 8 + g]);
    float d[4] = {};
    gk_mma_tf32(d, ra, rb);
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + q * 2 + i % 2] = d[i];
}

// Partial asynchronous copies: the rest of 16 bytes becomes zero. Two groups, of which the first is waited for.
GK_KERNEL(1) void partial_copies(const int* a, int* out) {
    GK_SHARED_ARR(int, s, [8]);
    gk_cp_async<16>(&s[0], a, 8);
    gk_cp_async_commit();
    gk_cp_async<4>(&s[4], a + 4);
    gk_cp_async<8>(&s[6], a + 6, 4);
    gk_cp_async_commit();
    gk_cp_async_wait<1>();
    for (int i = 0; i < 4; i++) out[i] = s[i];
    gk_cp_async_wait<0>();
    out[4] = s[4];
    out[5] = s[6];
    out[6] = s[7];
}

// What one thread copies asynchronously another one reads: that takes the wait and a barrier, which mutant 6 lacks.
GK_KERNEL(64) void copy_through(const int* a, int* out) {
    GK_SHARED_ARR(int, s, [64]);
    gk_cp_async<4>(&s[threadIdx.x], a + threadIdx.x);
    gk_cp_async_commit();
    gk_cp_async_wait<0>();
    BARRIER(6);
    out[threadIdx.x] = s[threadIdx.x ^ 32];
}

// Conversions: every half to float and back, and every float with the given upper bits down.
GK_KERNEL(256) void convert(float* f16s, float* bf16s, uint16_t* back, const float* x, uint16_t* down) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    gk::f16 h;
    gk::bf16 b;
    h.bits = b.bits = (uint16_t)i;
    f16s[i] = (float)h;
    bf16s[i] = (float)b;
    back[2 * i] = ((gk::f16)(float)h).bits;
    back[2 * i + 1] = ((gk::bf16)(float)b).bits;
    down[2 * i] = ((gk::f16)x[i]).bits;
    down[2 * i + 1] = ((gk::bf16)x[i]).bits;
}

// ---- What goes wrong.

GK_KERNEL(1024) void write_at(char* p, long offset) {
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == blockDim.x - 1) p[offset] = 1;
}

GK_KERNEL(256) void past_shared(int* out, int at) {
    GK_SHARED_ARR(int, a, [30]);
    GK_SHARED_ARR(int, b, [32]);
    a[threadIdx.x % 30] = 1;
    b[threadIdx.x % 32] = 1;
    if (threadIdx.x == 3) b[at] = 1;
    out[0] = a[0] + b[0];
}

GK_KERNEL(64) void two_barriers(int* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        out[0] = 1;
        __syncthreads();
    }
}

GK_KERNEL(64) void never_meets(int* out) {
    if (threadIdx.x % 2)
        __syncthreads();
    else
        out[threadIdx.x] = __shfl_sync(~0u, 1, 0);
}

GK_KERNEL(32) void traps(const int* a, int* out) {
    if (a[threadIdx.x] == 7) GK_TRAP();
    out[threadIdx.x] = 1;
}

GK_KERNEL(32) void off_alignment(int* out) {
    GK_SHARED_ARR(int, s, [32]);
    gk_cp_async<16>(&s[1], out);
}

GK_KERNEL(32) void divides(const int* a, int* out) { out[threadIdx.x] = 100 / a[threadIdx.x]; }

GK_DEVICE static int depth(volatile int* p, int n);
GK_KERNEL(1) void overflows(int* p, int n) { p[0] = depth(p, n); }
GK_DEVICE static __attribute__((noinline)) int depth(volatile int* p, int n) {
    volatile int big[64];
    big[n % 64] = p[0];
    return n == 0 ? big[0] : depth(p, n - 1) + big[n % 64];
}
