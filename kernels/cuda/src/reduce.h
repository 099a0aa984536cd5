// The reduction kernel. A block of THREADS threads works on OUTPUTS = THREADS/lanes outputs, each with so many lanes: from one
// thread for each output to the whole block for one. Lanes of one output are neighbours if the reduced elements are (across is
// 0), else neighbouring threads have neighbouring outputs: so both ways memory is read along its rows.
//
// With more than one split (gridDim.y), a block reduces only its part of the elements and leaves an accumulator in the
// workspace; name_join then joins those of an output in their order. What is computed depends on the call alone, so that
// results are the same bits every time.
#pragma once

#include "reducers.h"

// The plan of a reduction, made by the host.
struct Plan {
    u32 lanes;  // a power of two
    u32 across; // see above
    u32 part;   // reduced elements of a split
    u32 splits;
};

// Folds elements from, from+step, ... below to. Several loads are on their way at a time, each with an accumulator.
template <class R, class T> FN typename R::A reduce_part(const Walk<1>& cut, const T* in, u32 from, u32 to, u32 step) {
    using C = Compute<T>;
    constexpr u32 AHEAD = sizeof(typename R::A) > 8 ? 2 : 4;
    typename R::A a[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) a[k] = R::start();
    u32 j = from;
    if (cut.ndim <= 1) {
        i64 stride = cut.stride[0][0];
        for (; j < to && to - j > (AHEAD - 1) * step; j += AHEAD * step) {
            C v[AHEAD];
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) v[k] = get(in[(i64)(j + k * step) * stride]);
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) R::fold(a[k], v[k], j + k * step);
        }
        for (; j < to; j += step) R::fold(a[0], (C)get(in[(i64)j * stride]), j);
    } else {
        for (; j < to; j += step) {
            i64 at[1];
            seek<1>(cut, j, at);
            R::fold(a[0], (C)get(in[at[0]]), j);
        }
    }
#pragma unroll
    for (u32 k = 1; k < AHEAD; k++) R::join(a[0], a[k]);
    return a[0];
}

template <class R, class D, class T>
FN void reduce(const Walk<2>& kept, const Walk<1>& cut, const Plan& p, D* dst, const T* a, typename R::A* work) {
    using A = typename R::A;
    GK_SHARED_ARR(A, sh, [THREADS]);
    u32 outputs = THREADS / p.lanes, tid = threadIdx.x;
    u32 lane = p.across ? tid / outputs : tid & (p.lanes - 1);
    u32 mine = p.across ? tid & (outputs - 1) : tid / p.lanes;
    u32 o = blockIdx.x * outputs + mine;
    u32 apart = p.across ? outputs : 1; // places in shared memory between lanes
    bool live = o < kept.total;
    A acc = R::start();
    i64 at[2] = {0, 0};
    if (live) {
        seek<2>(kept, o, at);
        u32 from = blockIdx.y * p.part, to = cut.total - from > p.part ? from + p.part : cut.total;
        acc = reduce_part<R>(cut, a + at[1], from + lane, to, p.lanes);
    }
    sh[tid] = acc;
    for (u32 half = p.lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
            R::join(acc, sh[tid + half * apart]);
            sh[tid] = acc;
        }
    }
    if (!live || lane > 0) return;
    if (p.splits > 1) work[(u64)o * p.splits + blockIdx.y] = acc;
    else dst[at[0]] = put<D>(R::finish(acc, cut.total));
}

template <class R, class D>
FN void reduce_join(const Walk<2>& kept, u32 splits, u32 count, D* dst, const typename R::A* work) {
    u32 o = blockIdx.x * THREADS + threadIdx.x;
    if (o >= kept.total) return;
    typename R::A acc = work[(u64)o * splits];
    for (u32 k = 1; k < splits; k++) R::join(acc, work[(u64)o * splits + k]);
    i64 at[2];
    seek<2>(kept, o, at);
    dst[at[0]] = put<D>(R::finish(acc, count));
}

#define REDUCE(NAME, R, D, T)                                                                                         \
    KERNEL NAME(Walk<2> kept, Walk<1> cut, Plan p, D* dst, const T* a, R::A* work) {                  \
        reduce<R>(kept, cut, p, dst, a, work);                                                                        \
    }                                                                                                                 \
    KERNEL NAME##_join(Walk<2> kept, u32 splits, u32 count, D* dst, const R::A* work) {               \
        reduce_join<R>(kept, splits, count, dst, work);                                                               \
    }

using MaxU8 = Max<u8>;

#define REDUCE_NUMBER(T, C)                                                                                           \
    using Max_##T = Max<C>;                                                                                           \
    using Min_##T = Min<C>;                                                                                           \
    using ArgMax_##T = Arg<C, false>;                                                                                 \
    using ArgMin_##T = Arg<C, true>;                                                                                  \
    REDUCE(amax_##T, Max_##T, T, T)                                                                                   \
    REDUCE(amin_##T, Min_##T, T, T)                                                                                   \
    REDUCE(argmax_##T, ArgMax_##T, i64, T)                                                                            \
    REDUCE(argmin_##T, ArgMin_##T, i64, T)

#define REDUCE_FLOAT(T, C)                                                                                            \
    using Sum_##T = Sum<C>;                                                                                           \
    using Mean_##T = Mean<C>;                                                                                         \
    using Prod_##T = Prod<C>;                                                                                         \
    REDUCE(sum_##T, Sum_##T, T, T)                                                                                    \
    REDUCE(mean_##T, Mean_##T, T, T)                                                                                  \
    REDUCE(prod_##T, Prod_##T, T, T)

#define REDUCE_INTEGER(T)                                                                                             \
    using Sum_##T = IntSum<T>;                                                                                        \
    using Prod_##T = IntProd<T>;                                                                                      \
    REDUCE(sum_##T, Sum_##T, i64, T)                                                                                  \
    REDUCE(prod_##T, Prod_##T, i64, T)
