// Normalisation of channels: the statistics of batch norm, what it does to each element, and the sums over channels that the
// gradients of all normalisations need. Elements are [n, c, l]. Sums over a channel are split between blocks, whose results are
// joined in their order by a second kernel: nothing is added atomically.
#include "math.h"

struct Channels {
    u32 n, c;
    u32 groups, per;    // groups of channels, 0 if statistics belong to channels; and channels of a group
    u32 part, splits;   // rows of [n, c] that a block adds up if l is 1, else elements of a channel; and the number of parts
    u32 plain;          // 1: there is no mean
    u32 variance;       // 1: what comes after the mean is a variance
    Div neighbours;     // l
    Div channels;       // c
    f64 eps;
    f64 count;          // n*l
};

template <class C> FN C rstd_of(const Channels& p, C stat) { return p.variance ? 1 / root(stat + (C)p.eps) : stat; }

// Count, mean, and the sum of squared distances from the mean.
template <class C> struct Moments { C n, mean, square; };

// Those of two sets together (Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances").
template <class C> FN Moments<C> both(const Moments<C>& a, const Moments<C>& b) {
    if (b.n == 0) return a;
    C n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
    return {n, fma(d, share, a.mean), fma(d * d, a.n * share, a.square + b.square)};
}

template <int N, class C> FN Moments<C> both(const Moments<C>& a, const C (&x)[N]) { // N is a power of two
    C mean = 0, square = 0;
    #pragma unroll
    for (int k = 0; k < N; k++) mean += x[k];
    mean *= (C)1 / N;
    #pragma unroll
    for (int k = 0; k < N; k++) square = fma(x[k] - mean, x[k] - mean, square);
    return both(a, Moments<C>{N, mean, square});
}

// Sum of gradient times normalised input, and sum of the gradient.
template <class C> struct Pair { C product, sum; };
template <class C> FN Pair<C> both(const Pair<C>& a, const Pair<C>& b) { return {a.product + b.product, a.sum + b.sum}; }

// What joins the elements of one channel: Sums and Stats. Elements are known by their row in [n, c] and their place in the
// tensor. four takes four of them, whose loads are all on their way together, and one takes one.
struct Element { u64 at; u32 row; };

template <class T> struct Sums {
    using C = Compute<T>;
    using A = Pair<C>;
    const Channels& p;
    const T *g, *a;
    const C *mean, *rstd;

    FN A one(const A& acc, const Element& e, u32 c) const {
        u64 slot = p.groups ? (u64)e.row * p.groups + c / p.per : c;
        C x = (get(a[e.at]) - (p.plain ? (C)0 : mean[slot])) * rstd_of(p, rstd[slot]), d = get(g[e.at]);
        return {fma(d, x, acc.product), acc.sum + d};
    }
    FN A four(A acc, const Element (&e)[4], u32 c) const {
        #pragma unroll
        for (int k = 0; k < 4; k++) acc = one(acc, e[k], c);
        return acc;
    }
};

template <class T> struct Stats {
    using C = Compute<T>;
    using A = Moments<C>;
    const T* a;

    FN A one(const A& acc, const Element& e, u32) const { return both(acc, A{1, get(a[e.at]), 0}); }
    FN A four(const A& acc, const Element (&e)[4], u32) const {
        C x[4];
        #pragma unroll
        for (int k = 0; k < 4; k++) x[k] = get(a[e[k].at]);
        return both(acc, x);
    }
};

constexpr u32 COLUMNS = 64; // of a block, if l is 1

// Adds elements from, from+step, ... below to of channel c; element says which they are.
template <class S, class E> FN typename S::A fold(const S& s, u32 from, u32 to, u32 step, u32 c, const E& element) {
    typename S::A acc = {};
    u32 j = from;
    for (; j < to && to - j > 3 * step; j += 4 * step) {
        Element e[4];
        #pragma unroll
        for (u32 k = 0; k < 4; k++) e[k] = element(j + k * step);
        acc = s.four(acc, e, c);
    }
    for (; j < to; j += step) acc = s.one(acc, element(j), c);
    return acc;
}

// l is 1: 64 channels to a block, whose other threads take every fourth row.
template <class S> FN void fold_columns(const Channels& p, const S& s, typename S::A* work, typename S::A* sh) {
    typename S::A acc = {};
    u32 c = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    u32 from = blockIdx.y * p.part, to = p.n - from > p.part ? from + p.part : p.n;
    constexpr u32 STEP = THREADS / COLUMNS;
    if (c < p.c) acc = fold(s, from + lane, to, STEP, c, [&](u32 row) { return Element{(u64)row * p.c + c, row}; });
    sh[threadIdx.x] = acc;
    __syncthreads();
    if (lane > 0 || c >= p.c) return;
    for (u32 k = 1; k < STEP; k++) acc = both(acc, sh[threadIdx.x + k * COLUMNS]);
    work[(u64)blockIdx.y * p.c + c] = acc;
}

// l is more: a block for one channel, whose threads take neighbouring elements.
template <class S> FN void fold_runs(const Channels& p, const S& s, typename S::A* work, typename S::A* sh) {
    u32 c = blockIdx.x, tid = threadIdx.x, l = p.neighbours.size, total = p.n * l;
    u32 from = blockIdx.y * p.part, to = total - from > p.part ? from + p.part : total;
    sh[tid] = fold(s, from + tid, to, THREADS, c, [&](u32 j) {
        u32 row = quotient(p.neighbours, j);
        return Element{((u64)row * p.c + c) * l + (j - row * l), row};
    });
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) sh[tid] = both(sh[tid], sh[tid + half]);
    }
    if (tid == 0) work[(u64)blockIdx.y * p.c + c] = sh[0];
}

// The same by vectors of V elements, where they lie so. Two are on their way at a time.

// What a vector of one row needs for Sums: two operands and, if statistics belong to groups, the row's.
template <class T, int V> struct SumsOf {
    using C = Compute<T>;
    using A = Pair<C>;
    const Channels& p;
    const T *g, *a;
    const C *mean, *rstd;

    struct Loaded { vec<T, V> g, a; C mean, rstd; };
    FN Loaded loaded(u64 at, u32 row, u32 c) const {
        u64 slot = p.groups ? (u64)row * p.groups + c / p.per : c;
        return {load<T, V>(g + at), load<T, V>(a + at), p.plain ? (C)0 : mean[slot], rstd_of(p, rstd[slot])};
    }
    FN static A with(const A& acc, T g, T a, C mean, C rstd) {
        C d = get(g);
        return {fma(d, (get(a) - mean) * rstd, acc.product), acc.sum + d};
    }
    FN static A all(A acc, const Loaded& x) {
        #pragma unroll
        for (int e = 0; e < V; e++) acc = with(acc, x.g[e], x.a[e], x.mean, x.rstd);
        return acc;
    }
};

template <class T, int V> struct StatsOf {
    using C = Compute<T>;
    using A = Moments<C>;
    const T* a;

    struct Loaded { vec<T, V> a; };
    FN Loaded loaded(u64 at, u32, u32) const { return {load<T, V>(a + at)}; }
    FN static A all(const A& acc, const Loaded& y) {
        C x[V];
        #pragma unroll
        for (int e = 0; e < V; e++) x[e] = get(y.a[e]);
        return both(acc, x);
    }
};

// As fold_runs; neighbours and part count vectors.
template <class S, int V> FN void fold_wide_runs(const Channels& p, const S& s, typename S::A* work, typename S::A* sh) {
    constexpr u32 AHEAD = 2;
    u32 c = blockIdx.x, tid = threadIdx.x, l = p.neighbours.size, total = p.n * l;
    u32 from = blockIdx.y * p.part, to = total - from > p.part ? from + p.part : total;
    typename S::A acc = {};
    for (u32 j = from + tid; j < to; j += AHEAD * THREADS) {
        typename S::Loaded x[AHEAD];
        #pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            u32 i = j + k * THREADS, row = quotient(p.neighbours, i);
            if (i < to) x[k] = s.loaded((((u64)row * p.c + c) * l + (i - row * l)) * V, row, c);
        }
        #pragma unroll
        for (u32 k = 0; k < AHEAD; k++)
            if (j + k * THREADS < to) acc = S::all(acc, x[k]);
    }
    sh[tid] = acc;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) sh[tid] = both(sh[tid], sh[tid + half]);
    }
    if (tid == 0) work[(u64)blockIdx.y * p.c + c] = sh[0];
}

// As fold_columns; a thread has V neighbouring channels, which are of one group.
template <class T, int V> FN void fold_wide_columns(const Channels& p, const SumsOf<T, V>& s, Pair<Compute<T>>* work, Pair<Compute<T>>* sh) {
    using C = Compute<T>;
    constexpr u32 AHEAD = 2, SIDE = COLUMNS / V, STEP = THREADS / SIDE;
    u32 c = blockIdx.x * COLUMNS + threadIdx.x % SIDE * V, lane = threadIdx.x / SIDE;
    u32 from = blockIdx.y * p.part, to = p.n - from > p.part ? from + p.part : p.n;
    Pair<C> acc[V] = {};
    C mean[V] = {}, rstd[V] = {}; // of the channels, if statistics belong to them
    #pragma unroll
    for (u32 e = 0; e < V; e++) {
        if (p.groups || c >= p.c) break;
        mean[e] = p.plain ? (C)0 : s.mean[c + e];
        rstd[e] = rstd_of(p, s.rstd[c + e]);
    }
    for (u32 row = from + lane; c < p.c && row < to; row += AHEAD * STEP) {
        typename SumsOf<T, V>::Loaded x[AHEAD];
        #pragma unroll
        for (u32 k = 0; k < AHEAD; k++)
            if (row + k * STEP < to) x[k] = s.loaded((u64)(row + k * STEP) * p.c + c, row + k * STEP, c);
        #pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (row + k * STEP >= to) break;
            #pragma unroll
            for (u32 e = 0; e < V; e++)
                acc[e] = s.with(acc[e], x[k].g[e], x[k].a[e], p.groups ? x[k].mean : mean[e], p.groups ? x[k].rstd : rstd[e]);
        }
    }
    #pragma unroll
    for (u32 e = 0; e < V; e++) sh[lane * COLUMNS + threadIdx.x % SIDE * V + e] = acc[e];
    __syncthreads();
    u32 mine = blockIdx.x * COLUMNS + threadIdx.x;
    if (threadIdx.x >= COLUMNS || mine >= p.c) return;
    Pair<C> sum = sh[threadIdx.x];
    for (u32 k = 1; k < STEP; k++) sum = both(sum, sh[k * COLUMNS + threadIdx.x]);
    work[(u64)blockIdx.y * p.c + mine] = sum;
}

// What the parts of a channel give together; nothing if there are none.
template <class A> FN A join(const Channels& p, const A* work, u32 c) {
    A acc = {};
    for (u32 k = 0; k < p.splits; k++) acc = both(acc, work[(u64)k * p.c + c]);
    return acc;
}

template <class C> FN void join_sums(const Channels& p, C* product, C* sum, const Pair<C>* work) {
    u32 c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= p.c) return;
    Pair<C> acc = join(p, work, c);
    product[c] = acc.product;
    sum[c] = acc.sum;
}

template <class R, class C>
FN void join_stats(const Channels& p, C* mean, C* rstd, R* running_mean, R* running_var, f64 momentum, const Moments<C>* work) {
    u32 c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= p.c) return;
    Moments<C> acc = join(p, work, c);
    mean[c] = acc.mean;
    rstd[c] = 1 / root(acc.square / acc.n + (C)p.eps);
    if (!running_mean) return;
    C m = (C)momentum, rest = (C)(1 - momentum);
    running_mean[c] = put<R>(rest * get(running_mean[c]) + m * acc.mean);
    running_var[c] = put<R>(rest * get(running_var[c]) + m * (acc.square / (acc.n - 1)));
}

// The coefficients of a channel: an element is slope*g + (a-mean)*rstd*factor + shift.
template <class C> struct Line { C slope, mean, rstd, factor, shift; };

template <class T, class W> struct Forward {
    using C = Compute<T>;
    const T *g, *a; // g is not there
    const C *mean, *rstd;
    const W *weight, *bias;

    FN Line<C> line(const Channels& p, u32 c) const {
        return {0, mean[c], rstd_of(p, rstd[c]), weight ? (C)get(weight[c]) : (C)1, bias ? (C)get(bias[c]) : (C)0};
    }
    FN C of(const Line<C>& k, T, T x) const { return fma((get(x) - k.mean) * k.rstd, k.factor, k.shift); }
};

template <class T, class W> struct Backward {
    using C = Compute<T>;
    const T *g, *a;
    const C *mean, *rstd;
    const W* weight;
    const C *product, *sum; // not there if the statistics are constants

    FN Line<C> line(const Channels& p, u32 c) const {
        C r = rstd_of(p, rstd[c]), slope = weight ? r * (C)get(weight[c]) : r;
        if (!sum) return {slope, 0, 0, 0, 0};
        return {slope, mean[c], r, -slope * (product[c] / (C)p.count), -slope * (sum[c] / (C)p.count)};
    }
    FN C of(const Line<C>& k, T d, T x) const {
        C y = fma(k.slope, get(d), k.shift);
        return sum ? fma((get(x) - k.mean) * k.rstd, k.factor, y) : y;
    }
};

// An element for itself.
template <class T, class F> FN void channel_one(const Channels& p, u32 i, T* dst, const F& f) {
    u32 q = quotient(p.neighbours, i), c = q - quotient(p.channels, q) * p.c;
    dst[i] = put<T>(f.of(f.line(p, c), f.g ? f.g[i] : f.a[i], f.a[i]));
}

// A few vectors for each thread, a block's worth apart. The coefficients are read again only where the channel changes.
template <int V, class T, class F> FN void channel_map(const Channels& p, u32 total, T* dst, const F& f) {
    constexpr u32 STEPS = 4;
    u32 l = p.neighbours.size;
    #pragma unroll 1 // else kernels of double spill registers
    for (u32 s = 0; s < STEPS; s++) {
        u32 i = ((blockIdx.x * STEPS + s) * THREADS + threadIdx.x) * V;
        if (i >= total) return;
        if (total - i < V) {
            for (; i < total; i++) channel_one(p, i, dst, f);
            return;
        }
        u32 q = quotient(p.neighbours, i), rest = i - q * l, c = q - quotient(p.channels, q) * p.c;
        vec<T, V> x = load<T, V>(f.a + i), y;
        vec<T, V> g = f.g ? load<T, V>(f.g + i) : x;
        Line<Compute<T>> k = f.line(p, c);
        #pragma unroll
        for (int e = 0; e < V; e++) {
            y[e] = put<T>(f.of(k, g[e], x[e]));
            if (++rest == l && e + 1 < V) {
                rest = 0;
                c = c + 1 == p.c ? 0 : c + 1;
                k = f.line(p, c);
            }
        }
        store<T, V>(dst + i, y);
    }
}

#define REDUCTIONS(T)                                                                                                 \
    KERNEL norm_sums_columns_##T(Channels p, Pair<Compute<T>>* work, const T* g, const T* a, const Compute<T>* mean, const Compute<T>* rstd) { \
        GK_SHARED_ARR(Pair<Compute<T>>, sh, [THREADS]);                                                               \
        fold_columns(p, Sums<T>{p, g, a, mean, rstd}, work, (Pair<Compute<T>>*)sh);                                   \
    }                                                                                                                 \
    KERNEL norm_sums_runs_##T(Channels p, Pair<Compute<T>>* work, const T* g, const T* a, const Compute<T>* mean, const Compute<T>* rstd) { \
        GK_SHARED_ARR(Pair<Compute<T>>, sh, [THREADS]);                                                               \
        fold_runs(p, Sums<T>{p, g, a, mean, rstd}, work, (Pair<Compute<T>>*)sh);                                      \
    }                                                                                                                 \
    KERNEL channel_stats_columns_##T(Channels p, Moments<Compute<T>>* work, const T* a) {                             \
        GK_SHARED_ARR(Moments<Compute<T>>, sh, [THREADS]);                                                            \
        fold_columns(p, Stats<T>{a}, work, (Moments<Compute<T>>*)sh);                                                 \
    }                                                                                                                 \
    KERNEL channel_stats_runs_##T(Channels p, Moments<Compute<T>>* work, const T* a) {                                \
        GK_SHARED_ARR(Moments<Compute<T>>, sh, [THREADS]);                                                            \
        fold_runs(p, Stats<T>{a}, work, (Moments<Compute<T>>*)sh);                                                    \
    }                                                                                                                 \
    KERNEL norm_sums_columns_##T##_v(Channels p, Pair<Compute<T>>* work, const T* g, const T* a, const Compute<T>* mean, const Compute<T>* rstd) { \
        constexpr int V = 16 / sizeof(T);                                                                             \
        GK_SHARED_ARR(Pair<Compute<T>>, sh, [THREADS * V]);                                                           \
        fold_wide_columns(p, SumsOf<T, V>{p, g, a, mean, rstd}, work, (Pair<Compute<T>>*)sh);                         \
    }                                                                                                                 \
    KERNEL norm_sums_runs_##T##_v(Channels p, Pair<Compute<T>>* work, const T* g, const T* a, const Compute<T>* mean, const Compute<T>* rstd) { \
        constexpr int V = 16 / sizeof(T);                                                                             \
        GK_SHARED_ARR(Pair<Compute<T>>, sh, [THREADS]);                                                               \
        fold_wide_runs<SumsOf<T, V>, V>(p, {p, g, a, mean, rstd}, work, (Pair<Compute<T>>*)sh);                       \
    }                                                                                                                 \
    KERNEL channel_stats_runs_##T##_v(Channels p, Moments<Compute<T>>* work, const T* a) {                            \
        constexpr int V = 16 / sizeof(T);                                                                             \
        GK_SHARED_ARR(Moments<Compute<T>>, sh, [THREADS]);                                                            \
        fold_wide_runs<StatsOf<T, V>, V>(p, {a}, work, (Moments<Compute<T>>*)sh);                                     \
    }

#define JOIN_SUMS(C)                                                                                                  \
    KERNEL norm_sums_join_##C(Channels p, C* product, C* sum, const Pair<C>* work) { join_sums(p, product, sum, work); }

#define JOIN_STATS(C, R)                                                                                              \
    KERNEL channel_stats_join_##C##_##R(Channels p, C* mean, C* rstd, R* running_mean, R* running_var, f64 momentum,  \
                                        const Moments<C>* work) {                                                     \
        join_stats(p, mean, rstd, running_mean, running_var, momentum, work);                                         \
    }

#define MAPS(T, W, N, V)                                                                                              \
    KERNEL channel_norm_##T##_##W##_##N(Channels p, u32 total, T* dst, const T* a, const Compute<T>* mean,            \
                                        const Compute<T>* rstd, const W* w, const W* b) {                             \
        channel_map<V>(p, total, dst, Forward<T, W>{nullptr, a, mean, rstd, w, b});                                   \
    }                                                                                                                 \
    KERNEL channel_norm_backward_##T##_##W##_##N(Channels p, u32 total, T* dst, const T* g, const T* a, const Compute<T>* mean, \
                                                 const Compute<T>* rstd, const W* w, const Compute<T>* product,       \
                                                 const Compute<T>* sum) {                                             \
        channel_map<V>(p, total, dst, Backward<T, W>{g, a, mean, rstd, w, product, sum});                             \
    }

#define CHANNEL_MAPS(T, W) MAPS(T, W, v, 16 / sizeof(T)) MAPS(T, W, s, 1)

REDUCTIONS(f32)
REDUCTIONS(f64)
REDUCTIONS(f16)
REDUCTIONS(bf16)
JOIN_SUMS(f32)
JOIN_SUMS(f64)
JOIN_STATS(f32, f32)
JOIN_STATS(f32, f16)
JOIN_STATS(f32, bf16)
JOIN_STATS(f64, f64)
CHANNEL_MAPS(f32, f32)
CHANNEL_MAPS(f64, f64)
CHANNEL_MAPS(f16, f16)
CHANNEL_MAPS(f16, f32)
CHANNEL_MAPS(bf16, bf16)
CHANNEL_MAPS(bf16, f32)
