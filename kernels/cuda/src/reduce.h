// The reduction kernel. A block of THREADS threads works on THREADS/lanes outputs, each with so many lanes: from one thread for
// each output to the whole block for one. Lanes of one output are neighbours if the reduced elements are (across is 0), else
// neighbouring threads have neighbouring outputs: so both ways memory is read along its rows. If these lie so (wide is 1), it is
// read by vectors: of reduced elements, or of outputs, of which a thread then has as many as a vector has elements.
//
// With more than one split (gridDim.y), a block reduces only its part of the elements and leaves an accumulator in the
// workspace; name_join then joins those of an output. What is computed depends on the call alone, so that results are the same
// bits every time.
#pragma once

#include "reducers.h"

// The plan of a reduction, made by the host.
struct Plan {
    u32 lanes;  // a power of two
    u32 across; // see above
    u32 part;   // reduced elements of a split
    u32 splits;
    u32 wide;
    u32 unused;
};

// Elements of a vector; accumulators of more outputs would not stay in registers.
template <class T> constexpr int WIDE = sizeof(T) > 1 ? 16 / sizeof(T) : 8;

// Whether a reduction reads by vectors. The others compute for longer than they wait.
template <class R> constexpr bool vectors = true;
template <class C, bool LEAST> constexpr bool vectors<Arg<C, LEAST>> = false;
template <class C> constexpr bool vectors<LogSumExp<C>> = false;

// Loads that are on their way at a time.
template <class A> constexpr u32 AHEAD = sizeof(A) > 8 ? 2 : 4;

// Folds vectors of V elements: of every lanes*V elements below to, those from on; each load has an accumulator. Elements after
// the last whole vector are folded one by one.
template <class R, int V, class T>
FN typename R::A fold_near(const Walk<1>& cut, const T* in, u32 from, u32 to, u32 lane, u32 lanes) {
    using A = typename R::A;
    constexpr u32 N = AHEAD<A>;
    A a[N];
    #pragma unroll
    for (u32 k = 0; k < N; k++) a[k] = R::start();
    u32 whole = to - (to - from) % V, step = lanes * V;
    for (u32 j = from + lane * V; j < whole; j += N * step) {
        vec<T, V> v[N];
        i64 at[N][1];
        seek_all(cut, j, step, at);
        #pragma unroll
        for (u32 k = 0; k < N; k++)
            if (j + k * step < whole) v[k] = load<T, V>(in + at[k][0]);
        #pragma unroll
        for (u32 k = 0; k < N; k++) {
            if (j + k * step >= whole) break;
            #pragma unroll
            for (u32 e = 0; e < V; e++) R::fold(a[k], get(v[k][e]), j + k * step + e);
        }
    }
    for (u32 j = whole + lane; j < to; j += lanes) R::fold(a[0], get(in[(i64)j * cut.stride[0][0]]), j); // there is one dimension
    #pragma unroll
    for (u32 k = 1; k < N; k++) R::join(a[0], a[k]);
    return a[0];
}

// Folds elements from, from+step, ... below to of V neighbouring outputs.
template <class R, int V, class T>
FN void fold_across(const Walk<1>& cut, const T* in, u32 from, u32 to, u32 step, typename R::A (&a)[V]) {
    constexpr u32 N = AHEAD<typename R::A>;
    for (u32 j = from; j < to; j += N * step) {
        vec<T, V> v[N];
        i64 at[N][1];
        seek_all(cut, j, step, at);
        #pragma unroll
        for (u32 k = 0; k < N; k++)
            if (j + k * step < to) v[k] = load<T, V>(in + at[k][0]);
        #pragma unroll
        for (u32 k = 0; k < N; k++) {
            if (j + k * step >= to) break;
            #pragma unroll
            for (u32 e = 0; e < V; e++) R::fold(a[e], get(v[k][e]), j + k * step);
        }
    }
}

// Joins what the lanes of outputs have, for lane 0; lanes are apart in the block.
template <class R, int V> FN void join_lanes(typename R::A (&a)[V], u32 lane, u32 lanes, u32 apart, typename R::A* sh) {
    u32 tid = threadIdx.x;
    #pragma unroll
    for (u32 e = 0; e < V; e++) sh[e * THREADS + tid] = a[e];
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane >= half) continue;
        #pragma unroll
        for (u32 e = 0; e < V; e++) {
            R::join(a[e], sh[e * THREADS + tid + half * apart]);
            sh[e * THREADS + tid] = a[e];
        }
    }
}

// Where a thread's outputs are, and what it folds for them.
template <class T> struct Share {
    u32 lane, o, from, to;
    bool live;
    const T* in;
    i64 dst;
};

template <class R, int V, class D, class T>
FN void reduce_outputs(const Walk<2>& kept, const Walk<1>& cut, const Plan& p, const Share<T>& s, D* dst, typename R::A* work, typename R::A* sh) {
    typename R::A a[V];
    #pragma unroll
    for (u32 e = 0; e < V; e++) a[e] = R::start();
    if (s.live) {
        if constexpr (V > 1) fold_across<R>(cut, s.in, s.from + s.lane, s.to, p.lanes, a);
        else if (vectors<R> && p.wide) a[0] = fold_near<R, WIDE<T>>(cut, s.in, s.from, s.to, s.lane, p.lanes);
        else a[0] = fold_near<R, 1>(cut, s.in, s.from, s.to, s.lane, p.lanes);
    }
    join_lanes<R>(a, s.lane, p.lanes, p.across ? THREADS / p.lanes : 1, sh);
    if (!s.live || s.lane > 0) return;
    #pragma unroll
    for (u32 e = 0; e < V; e++) {
        if (p.splits > 1) work[(u64)blockIdx.y * kept.total + s.o + e] = a[e];
        else dst[s.dst + e * kept.stride[0][0]] = put<D>(R::finish(a[e], cut.total));
    }
}

template <class R, class D, class T>
FN void reduce(const Walk<2>& kept, const Walk<1>& cut, const Plan& p, D* dst, const T* in, typename R::A* work) {
    using A = typename R::A;
    constexpr u32 V = vectors<R> ? WIDE<T> : 1;
    GK_SHARED_ARR(A, sh, [THREADS * V]);
    bool columns = V > 1 && p.wide && p.across;
    u32 outputs = THREADS / p.lanes, tid = threadIdx.x, from = blockIdx.y * p.part;
    Share<T> s;
    s.lane = p.across ? tid / outputs : tid & (p.lanes - 1);
    s.o = (blockIdx.x * outputs + (p.across ? tid & (outputs - 1) : tid / p.lanes)) * (columns ? V : 1);
    s.from = from;
    s.to = cut.total - from > p.part ? from + p.part : cut.total;
    s.live = s.o < kept.total;
    i64 at[2] = {0, 0};
    if (s.live) seek<2>(kept, s.o, at);
    s.in = in + at[1];
    s.dst = at[0];
    if (columns) reduce_outputs<R, V>(kept, cut, p, s, dst, work, (A*)sh);
    else reduce_outputs<R, 1>(kept, cut, p, s, dst, work, (A*)sh);
}

// What the splits of outputs give together: lanes threads for each, and neighbouring threads have neighbouring outputs.
template <class R, class D>
FN void reduce_join(const Walk<2>& kept, u32 splits, u32 count, u32 lanes, D* dst, const typename R::A* work) {
    using A = typename R::A;
    GK_SHARED_ARR(A, sh, [THREADS]);
    u32 outputs = THREADS / lanes, lane = threadIdx.x / outputs, o = blockIdx.x * outputs + threadIdx.x % outputs;
    bool live = o < kept.total;
    A a[1] = {R::start()};
    for (u32 k = lane; live && k < splits; k += lanes) R::join(a[0], work[(u64)k * kept.total + o]);
    join_lanes<R>(a, lane, lanes, outputs, (A*)sh);
    if (!live || lane > 0) return;
    i64 at[2];
    seek<2>(kept, o, at);
    dst[at[0]] = put<D>(R::finish(a[0], count));
}

#define REDUCE(NAME, R, D, T)                                                                                         \
    KERNEL NAME(Walk<2> kept, Walk<1> cut, Plan p, D* dst, const T* a, R::A* work) {                  \
        reduce<R>(kept, cut, p, dst, a, work);                                                                        \
    }                                                                                                                 \
    KERNEL NAME##_join(Walk<2> kept, u32 splits, u32 count, u32 lanes, D* dst, const R::A* work) { \
        reduce_join<R>(kept, splits, count, lanes, dst, work);                                                                \
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
