// Products of a matrix and a vector: n is 1. They read the matrix once, so all that counts is that this is done at the speed of
// memory: each warp reads 16 bytes per lane, and several such pieces are under way. Sums are added up in an order that depends on
// the sizes alone.
//
// gemv_row is for a matrix that is contiguous along k: a warp has one element of the result. gemv_column is for one that is
// contiguous across k: a lane has the elements of one piece, and the warps of a block share k. The kernels with _v want pieces
// of 16 bytes that begin at multiples of 16 bytes; the others read single elements.
#include "matmul.h"

constexpr u32 WARPS = THREADS / 32;

template <class C> FN C warp_sum(C v) {
    for (u32 o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

template <int V, class T, class C> FN void gemv_row(const Product<C>& p, const Part<T, C>& q) {
    u32 lane = threadIdx.x % 32, i = blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= p.m) return; // a whole warp
    const T *a = q.a + i * p.a.row, *x = q.b;
    C sum = 0;
    u32 k = q.from + lane * V;
#pragma unroll 4
    for (; k + V <= q.to; k += 32 * V) {
        vec<T, V> u = load<T, V>(a + k);
        if constexpr (V > 1) {
            vec<T, V> v = load<T, V>(x + k);
#pragma unroll
            for (int e = 0; e < V; e++) sum = fma((C)get(u.v[e]), (C)get(v.v[e]), sum);
        } else {
            sum = fma((C)get(u.v[0]), (C)get(x[k * p.b.row]), sum);
        }
    }
    for (; k < q.to && V > 1; k++) sum = fma((C)get(a[k]), (C)get(x[k]), sum); // the last piece, of one lane
    sum = warp_sum(sum);
    if (lane == 0) finish(p, q, i, 0, sum);
}

template <int V, class T, class C> FN void gemv_column(const Product<C>& p, const Part<T, C>& q, C* sh) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = (blockIdx.x * 32 + lane) * V;
    C sum[V] = {};
    if (i + V <= p.m) {
#pragma unroll 4
        for (u32 k = q.from + warp; k < q.to; k += WARPS) {
            C x = (C)get(q.b[k * p.b.row]);
            vec<T, V> u = load<T, V>(q.a + i + k * p.a.column);
#pragma unroll
            for (int e = 0; e < V; e++) sum[e] = fma((C)get(u.v[e]), x, sum[e]);
        }
    } else if (i < p.m) {
        for (u32 k = q.from + warp; k < q.to; k += WARPS) {
            C x = (C)get(q.b[k * p.b.row]);
#pragma unroll
            for (int e = 0; e < V; e++)
                if (i + (u32)e < p.m) sum[e] = fma((C)get(q.a[i + (u32)e + k * p.a.column]), x, sum[e]);
        }
    }
#pragma unroll
    for (int e = 0; e < V; e++) sh[(warp * V + e) * 32 + lane] = sum[e];
    __syncthreads();
    for (u32 o = threadIdx.x; o < 32 * V; o += THREADS) { // element o of the block: piece o/V, place o%V
        C total = 0;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) total += sh[(w * V + o % V) * 32 + o / V];
        finish(p, q, blockIdx.x * 32 * V + o, 0, total);
    }
}

#define GEMV(T, C, V, SUFFIX)                                                                                         \
    KERNEL gemv_row##SUFFIX##_##T(Product<C> p, T* dst, const T* a, const T* b, const T* c, T* pre, C* parts) {       \
        gemv_row<V>(p, part_of(p, blockIdx.z, dst, a, b, c, pre, parts));                                             \
    }                                                                                                                 \
    KERNEL gemv_column##SUFFIX##_##T(Product<C> p, T* dst, const T* a, const T* b, const T* c, T* pre, C* parts) {    \
        GK_SHARED_ARR(C, sh, [WARPS * V * 32]);                                                                       \
        gemv_column<V>(p, part_of(p, blockIdx.z, dst, a, b, c, pre, parts), (C*)sh);                                  \
    }

#define GEMVS(T, C)                                                                                                   \
    GEMV(T, C, (int)(16 / sizeof(T)), _v)                                                                             \
    GEMV(T, C, 1, _s)

GEMVS(f32, f32)
GEMVS(f64, f64)
GEMVS(f16, f32)
GEMVS(bf16, f32)
