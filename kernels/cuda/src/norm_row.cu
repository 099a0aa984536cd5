// Normalisation of rows: layer norm, group norm, instance norm and RMS norm, and their gradients. So many lanes of a block work
// on one row, in vectors of 16 bytes where rows are aligned. What fits into KEEP vectors of each lane is read once and stays in
// registers for all passes; longer rows are read again, from the cache. Variances are sums of squared distances from the mean.
#include "math.h"

struct Rows {
    u32 rows, lanes;
    u32 vectors;     // of a row
    u32 groups, per; // groups of channels, and channels of a group
    u32 plain;       // 1: there is no mean (RMS norm)
    Div neighbours;  // elements of a channel in a row
    u32 add;         // 1: a gradient is added to what is there
    f64 eps;
};

constexpr u32 KEEP = 4;
constexpr u32 WARPS = THREADS / 32;

// The sum over the lanes of a row, for each of them. Every thread of the block must come here.
template <class C> FN C lanes_sum(C v, u32 lanes, C* sh) {
    for (u32 half = (lanes < 32 ? lanes : 32) / 2; half > 0; half /= 2) v += __shfl_xor_sync(0xffffffff, v, (int)half);
    if (lanes <= 32) return v;
    u32 warp = threadIdx.x / 32, warps = lanes / 32, first = warp & ~(warps - 1);
    __syncthreads(); // the reads of an earlier sum are over
    if (threadIdx.x % 32 == 0) sh[warp] = v;
    __syncthreads();
    C sum = sh[first];
    for (u32 k = 1; k < warps; k++) sum += sh[first + k];
    return sum;
}

// Where a thread works: its row and its lane. Threads without a row have no vectors.
struct Seat {
    u32 row, lane, lanes, vectors, first; // first is the first channel of the row
    bool live;
};

FN Seat seat_of(const Rows& p) {
    u32 row = blockIdx.x * (THREADS / p.lanes) + threadIdx.x / p.lanes;
    bool live = row < p.rows;
    return Seat{row, threadIdx.x & (p.lanes - 1), p.lanes, live ? p.vectors : 0, row % p.groups * p.per, live};
}

template <class T, int V> FN void keep(vec<T, V> (&kept)[KEEP], const T* row, const Seat& s) {
    #pragma unroll
    for (u32 k = 0; k < KEEP; k++) {
        u32 v = s.lane + k * s.lanes;
        if (v < s.vectors) kept[k] = load<T, V>(row + (u64)v * V);
    }
}

// Calls f(vector, number) for each vector of the row that is this lane's.
template <class T, int V, class F> FN void each(const vec<T, V> (&kept)[KEEP], const T* row, const Seat& s, F f) {
    #pragma unroll
    for (u32 k = 0; k < KEEP; k++) {
        u32 v = s.lane + k * s.lanes;
        if (v < s.vectors) f(kept[k], v);
    }
    for (u32 v = s.lane + KEEP * s.lanes; v < s.vectors; v += s.lanes) f(load<T, V>(row + (u64)v * V), v);
}

// The same for two operands.
template <class G, class T, int V, class F>
FN void each2(const vec<G, V> (&p)[KEEP], const vec<T, V> (&q)[KEEP], const G* a, const T* b, const Seat& s, F f) {
    #pragma unroll
    for (u32 k = 0; k < KEEP; k++) {
        u32 v = s.lane + k * s.lanes;
        if (v < s.vectors) f(p[k], q[k], v);
    }
    for (u32 v = s.lane + KEEP * s.lanes; v < s.vectors; v += s.lanes) f(load<G, V>(a + (u64)v * V), load<T, V>(b + (u64)v * V), v);
}

// The numbers of w that belong to vector v, or other everywhere if there is no w.
template <int V, class C, class W> FN void channels_of(C (&f)[V], const W* w, C other, const Rows& p, const Seat& s, u32 v) {
    if (!w || p.neighbours.size != 1) {
        C one = w ? (C)get(w[s.first + quotient(p.neighbours, v * V)]) : other;
        for (int e = 0; e < V; e++) f[e] = one;
        return;
    }
    vec<W, V> x = load<W, V>(w + s.first + v * V);
    for (int e = 0; e < V; e++) f[e] = get(x[e]);
}

// The result may have another type than what it is made of.
template <class T, class W, int V, class D, class C>
FN void row_norm(const Rows& p, D* dst, C* means, C* rstds, const T* a, const W* weight, const W* bias, C* sh) {
    Seat s = seat_of(p);
    u64 at = (u64)s.row * p.vectors * V;
    C count = (C)(p.vectors * V), mean = 0, sum = 0;
    const T* row = a + at;
    vec<T, V> kept[KEEP];
    keep<T, V>(kept, row, s);
    if (!p.plain) {
        each<T, V>(kept, row, s, [&](const vec<T, V>& x, u32) {
            for (int e = 0; e < V; e++) sum += get(x[e]);
        });
        mean = lanes_sum(sum, p.lanes, sh) / count;
        sum = 0;
    }
    each<T, V>(kept, row, s, [&](const vec<T, V>& x, u32) {
        for (int e = 0; e < V; e++) {
            C d = get(x[e]) - mean;
            sum = fma(d, d, sum);
        }
    });
    C rstd = 1 / sqrt(lanes_sum(sum, p.lanes, sh) / count + (C)p.eps);
    each<T, V>(kept, row, s, [&](const vec<T, V>& x, u32 v) {
        C w[V], b[V];
        channels_of<V>(w, weight, (C)1, p, s, v);
        channels_of<V>(b, bias, (C)0, p, s, v);
        vec<D, V> y;
        for (int e = 0; e < V; e++) y[e] = put<D>(fma((get(x[e]) - mean) * rstd, w[e], b[e]));
        store<D, V>(dst + at + (u64)v * V, y);
    });
    if (s.live && s.lane == 0) {
        if (!p.plain) means[s.row] = mean;
        rstds[s.row] = rstd;
    }
}

// And so may the gradient.
template <class T, class W, int V, class G, class C>
FN void row_norm_backward(const Rows& p, T* dst, const G* grad, const T* a, const C* means, const C* rstds, const W* weight, C* sh) {
    Seat s = seat_of(p);
    u64 at = (u64)s.row * p.vectors * V;
    C count = (C)(p.vectors * V);
    C mean = s.live && !p.plain ? means[s.row] : (C)0, rstd = s.live ? rstds[s.row] : (C)0;
    vec<G, V> kept_g[KEEP];
    vec<T, V> kept_a[KEEP];
    keep<G, V>(kept_g, grad + at, s);
    keep<T, V>(kept_a, a + at, s);
    C sum = 0, dot = 0;
    each2<G, T, V>(kept_g, kept_a, grad + at, a + at, s, [&](const vec<G, V>& g, const vec<T, V>& x, u32 v) {
        C w[V];
        channels_of<V>(w, weight, (C)1, p, s, v);
        for (int e = 0; e < V; e++) {
            C gw = get(g[e]) * w[e];
            sum += gw;
            dot = fma(gw, (get(x[e]) - mean) * rstd, dot);
        }
    });
    sum = p.plain ? (C)0 : lanes_sum(sum, p.lanes, sh) / count;
    dot = lanes_sum(dot, p.lanes, sh) / count;
    each2<G, T, V>(kept_g, kept_a, grad + at, a + at, s, [&](const vec<G, V>& g, const vec<T, V>& x, u32 v) {
        C w[V];
        channels_of<V>(w, weight, (C)1, p, s, v);
        vec<T, V> y = {};
        if constexpr (Same<T, f32>::value)
            if (p.add) y = load<T, V>(dst + at + (u64)v * V);
        for (int e = 0; e < V; e++) {
            C d = rstd * (fma(-(get(x[e]) - mean) * rstd, dot, get(g[e]) * w[e]) - sum);
            if constexpr (Same<T, f32>::value)
                if (p.add) d += y[e];
            y[e] = put<T>(d);
        }
        store<T, V>(dst + at + (u64)v * V, y);
    });
}

#define ROW_NORM(T, W, N, V)                                                                                          \
    KERNEL row_norm_##T##_##W##_##N(Rows p, T* dst, Compute<T>* mean, Compute<T>* rstd, const T* a, const W* w, const W* b) { \
        GK_SHARED_ARR(Compute<T>, sh, [WARPS]);                                                                       \
        row_norm<T, W, V>(p, dst, mean, rstd, a, w, b, (Compute<T>*)sh);                                              \
    }                                                                                                                 \
    KERNEL row_norm_backward_##T##_##W##_##N(Rows p, T* dst, const T* g, const T* a, const Compute<T>* mean,          \
                                             const Compute<T>* rstd, const W* w) {                                    \
        GK_SHARED_ARR(Compute<T>, sh, [WARPS]);                                                                       \
        row_norm_backward<T, W, V>(p, dst, g, a, mean, rstd, w, (Compute<T>*)sh);                                     \
    }

#define ROW_NORMS(T, W)                                                                                               \
    ROW_NORM(T, W, v, 16 / sizeof(T))                                                                                 \
    ROW_NORM(T, W, s, 1)

ROW_NORMS(f32, f32)
ROW_NORMS(f64, f64)
ROW_NORMS(f16, f16)
ROW_NORMS(f16, f32)
ROW_NORMS(bf16, bf16)
ROW_NORMS(bf16, f32)

// What is computed in float32, with a result, or a gradient, in half precision.
#define ROW_NORM_MIXED(D, N, V)                                                                                       \
    KERNEL row_norm_mixed_##D##_##N(Rows p, D* dst, f32* mean, f32* rstd, const f32* a, const f32* w, const f32* b) { \
        GK_SHARED_ARR(f32, sh, [WARPS]);                                                                              \
        row_norm<f32, f32, V>(p, dst, mean, rstd, a, w, b, (f32*)sh);                                                 \
    }                                                                                                                 \
    KERNEL row_norm_backward_mixed_##D##_##N(Rows p, f32* dst, const D* g, const f32* a, const f32* mean,             \
                                             const f32* rstd, const f32* w) {                                         \
        GK_SHARED_ARR(f32, sh, [WARPS]);                                                                              \
        row_norm_backward<f32, f32, V>(p, dst, g, a, mean, rstd, w, (f32*)sh);                                        \
    }

ROW_NORM_MIXED(f16, v, 4)
ROW_NORM_MIXED(f16, s, 1)
ROW_NORM_MIXED(bf16, v, 4)
ROW_NORM_MIXED(bf16, s, 1)
