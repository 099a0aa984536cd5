// Normalisation of channels: the statistics of batch norm, what it does to each element, and the sums over channels that the
// gradients of all normalisations need. Elements are [n, c, l]. Sums over a channel are split between blocks, whose results are
// joined in their order by a second kernel: nothing is added atomically.
#include "math.h"

#define INLINE __attribute__((always_inline)) // of lambdas: what they hold stays in registers

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

template <class C> FN C rstd_of(const Channels& p, C stat) { return p.variance ? 1 / sqrt(stat + (C)p.eps) : stat; }

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

// What joins elements: Sums and Stats. They come in vectors of V along a row, of one channel or of V neighbouring ones, and
// several vectors are on their way at a time.
template <class T, int V, class G = T> struct Sums {
    using C = Compute<T>;
    using A = Pair<C>;
    struct Loaded { vec<G, V> g; vec<T, V> a; C mean, rstd; };  // the statistics of a row's group
    struct Own { C mean[V], rstd[V]; };               // or those of channels
    const Channels& p;
    const G* g;
    const T* a;
    const C *mean, *rstd;

    // Those of channels c, c+step, ...
    FN Own own(u32 c, u32 step) const {
        Own o = {};
        #pragma unroll
        for (u32 e = 0; e < V; e++) {
            if (p.groups || c >= p.c) break;
            o.mean[e] = p.plain ? (C)0 : mean[c + e * step];
            o.rstd[e] = rstd_of(p, rstd[c + e * step]);
        }
        return o;
    }
    FN Loaded loaded(u64 at, u32 row, u32 c) const {
        Loaded x = {load<G, V>(g + at), load<T, V>(a + at), 0, 0};
        if (!p.groups) return x;
        u64 slot = (u64)row * p.groups + c / p.per;
        x.mean = p.plain ? (C)0 : mean[slot];
        x.rstd = rstd_of(p, rstd[slot]);
        return x;
    }
    FN A one(const A& acc, const Loaded& x, const Own& o, int e) const {
        C d = get(x.g[e]), y = (get(x.a[e]) - (p.groups ? x.mean : o.mean[e])) * (p.groups ? x.rstd : o.rstd[e]);
        return {fma(d, y, acc.product), acc.sum + d};
    }
    template <int N> FN A run(A acc, const Loaded (&x)[N], const Own& o) const {
        #pragma unroll
        for (int k = 0; k < N; k++)
            #pragma unroll
            for (int e = 0; e < V; e++) acc = one(acc, x[k], o, e);
        return acc;
    }
    template <int N> FN void columns(A (&acc)[V], const Loaded (&x)[N], const Own& o) const {
        #pragma unroll
        for (int k = 0; k < N; k++)
            #pragma unroll
            for (int e = 0; e < V; e++) acc[e] = one(acc[e], x[k], o, e);
    }
};

template <class T, int V> struct Stats {
    using C = Compute<T>;
    using A = Moments<C>;
    using Loaded = vec<T, V>;
    struct Own {};
    const T* a;

    FN Own own(u32, u32) const { return {}; }
    FN Loaded loaded(u64 at, u32, u32) const { return load<T, V>(a + at); }
    template <int N> FN A run(const A& acc, const Loaded (&x)[N], const Own&) const {
        C y[N * V];
        #pragma unroll
        for (int i = 0; i < N * V; i++) y[i] = get(x[i / V][i % V]);
        return both(acc, y);
    }
    template <int N> FN void columns(A (&acc)[V], const Loaded (&x)[N], const Own&) const {
        #pragma unroll
        for (int e = 0; e < V; e++) {
            C y[N];
            #pragma unroll
            for (int k = 0; k < N; k++) y[k] = get(x[k][e]);
            acc[e] = both(acc[e], y);
        }
    }
};

constexpr u32 COLUMNS = 64;                             // of a block, if l is 1
template <int V> constexpr u32 AHEAD = V > 1 ? 2 : 4;   // vectors that are on their way

// Calls at(j) for j = from, from+step, ... below to, each of which gives what is loaded, and fold with several of these, or one.
template <class S, int V, class L, class F> FN void each(u32 from, u32 to, u32 step, const L& at, const F& fold) {
    constexpr u32 N = AHEAD<V>;
    for (u32 j = from; j < to; j += N * step) {
        typename S::Loaded x[N];
        #pragma unroll
        for (u32 k = 0; k < N; k++)
            if (j + k * step < to) x[k] = at(j + k * step);
        if (j + (N - 1) * step < to) {
            fold(x);
            continue;
        }
        #pragma unroll
        for (u32 k = 0; k < N - 1; k++) {
            typename S::Loaded y[1] = {x[k]};
            if (j + k * step < to) fold(y);
        }
    }
}

// l is 1: 64 channels to a block, V to a thread; other threads take other rows.
template <class S, int V> FN void fold_columns(const Channels& p, const S& s, typename S::A* work, typename S::A* sh) {
    constexpr u32 SIDE = COLUMNS / V, STEP = THREADS / SIDE;
    u32 x = threadIdx.x % SIDE * V, c = blockIdx.x * COLUMNS + x, lane = threadIdx.x / SIDE;
    u32 from = blockIdx.y * p.part, to = p.n - from > p.part ? from + p.part : p.n;
    typename S::A acc[V] = {};
    auto own = s.own(c, 1);
    if (c < p.c)
        each<S, V>(from + lane, to, STEP, [&](u32 row) INLINE { return s.loaded((u64)row * p.c + c, row, c); },
                   [&](const auto& loaded) INLINE { s.columns(acc, loaded, own); });
    #pragma unroll
    for (u32 e = 0; e < V; e++) sh[lane * COLUMNS + x + e] = acc[e];
    __syncthreads();
    u32 mine = blockIdx.x * COLUMNS + threadIdx.x;
    if (threadIdx.x >= COLUMNS || mine >= p.c) return;
    typename S::A sum = sh[threadIdx.x];
    for (u32 k = 1; k < STEP; k++) sum = both(sum, sh[k * COLUMNS + threadIdx.x]);
    work[(u64)blockIdx.y * p.c + mine] = sum;
}

// l is more: a block for one channel, whose threads take neighbouring vectors. neighbours and part count vectors.
template <class S, int V> FN void fold_runs(const Channels& p, const S& s, typename S::A* work, typename S::A* sh) {
    u32 c = blockIdx.x, tid = threadIdx.x, l = p.neighbours.size, total = p.n * l;
    u32 from = blockIdx.y * p.part, to = total - from > p.part ? from + p.part : total;
    typename S::A acc = {};
    auto own = s.own(c, 0);
    each<S, V>(from + tid, to, THREADS, [&](u32 j) INLINE {
        u32 row = quotient(p.neighbours, j);
        return s.loaded((((u64)row * p.c + c) * l + (j - row * l)) * V, row, c);
    }, [&](const auto& loaded) INLINE { acc = s.run(acc, loaded, own); });
    sh[tid] = acc;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) sh[tid] = both(sh[tid], sh[tid + half]);
    }
    if (tid == 0) work[(u64)blockIdx.y * p.c + c] = sh[0];
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
    rstd[c] = 1 / sqrt(acc.square / acc.n + (C)p.eps);
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

#define REDUCTION(T, N, V)                                                                                            \
    KERNEL norm_sums_columns_##T##_##N(Channels p, Pair<Compute<T>>* work, const T* g, const T* a, const Compute<T>* mean, const Compute<T>* rstd) { \
        GK_SHARED_ARR(Pair<Compute<T>>, sh, [THREADS * V]);                                                           \
        fold_columns<Sums<T, V>, V>(p, {p, g, a, mean, rstd}, work, (Pair<Compute<T>>*)sh);                           \
    }                                                                                                                 \
    KERNEL norm_sums_runs_##T##_##N(Channels p, Pair<Compute<T>>* work, const T* g, const T* a, const Compute<T>* mean, const Compute<T>* rstd) { \
        GK_SHARED_ARR(Pair<Compute<T>>, sh, [THREADS]);                                                               \
        fold_runs<Sums<T, V>, V>(p, {p, g, a, mean, rstd}, work, (Pair<Compute<T>>*)sh);                              \
    }                                                                                                                 \
    KERNEL channel_stats_columns_##T##_##N(Channels p, Moments<Compute<T>>* work, const T* a) {                       \
        GK_SHARED_ARR(Moments<Compute<T>>, sh, [THREADS * V]);                                                        \
        fold_columns<Stats<T, V>, V>(p, {a}, work, (Moments<Compute<T>>*)sh);                                         \
    }                                                                                                                 \
    KERNEL channel_stats_runs_##T##_##N(Channels p, Moments<Compute<T>>* work, const T* a) {                          \
        GK_SHARED_ARR(Moments<Compute<T>>, sh, [THREADS]);                                                            \
        fold_runs<Stats<T, V>, V>(p, {a}, work, (Moments<Compute<T>>*)sh);                                            \
    }

#define REDUCTIONS(T) REDUCTION(T, v, 16 / sizeof(T)) REDUCTION(T, s, 1)

// Sums of a gradient in half precision times what was normalised in float32.
#define MIXED_SUMS(G, N, V)                                                                                           \
    KERNEL norm_sums_columns_mixed_##G##_##N(Channels p, Pair<f32>* work, const G* g, const f32* a, const f32* mean, const f32* rstd) { \
        GK_SHARED_ARR(Pair<f32>, sh, [THREADS * V]);                                                                  \
        fold_columns<Sums<f32, V, G>, V>(p, {p, g, a, mean, rstd}, work, (Pair<f32>*)sh);                             \
    }                                                                                                                 \
    KERNEL norm_sums_runs_mixed_##G##_##N(Channels p, Pair<f32>* work, const G* g, const f32* a, const f32* mean, const f32* rstd) { \
        GK_SHARED_ARR(Pair<f32>, sh, [THREADS]);                                                                      \
        fold_runs<Sums<f32, V, G>, V>(p, {p, g, a, mean, rstd}, work, (Pair<f32>*)sh);                                \
    }

MIXED_SUMS(f16, v, 4)
MIXED_SUMS(f16, s, 1)
MIXED_SUMS(bf16, v, 4)
MIXED_SUMS(bf16, s, 1)

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
