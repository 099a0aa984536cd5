// The softmax family, and the loss on classes. Rows lie along the last dimension; so many lanes of a block work on one row and
// THREADS/lanes rows share a block, in vectors of 16 bytes where rows lie straight. What fits into KEEP vectors of each lane is
// read once and stays in registers; longer rows are read again, from the cache.
#include "functions.h"

#define INLINE __attribute__((always_inline)) // of lambdas: what they hold stays in registers

constexpr u32 KEEP = 4;
constexpr u32 WARPS = THREADS / 32;

// The two ways to join what the lanes of a row have.
struct Add2 { template <class C> FN static C of(C a, C b) { return a + b; } };
struct Most2 {
    FN static f32 of(f32 a, f32 b) {
#if defined(__CUDA_ARCH__)
        return __nvvm_fmax_nan_f(a, b);
#else
        return most<f32>(a, b);
#endif
    }
    FN static f64 of(f64 a, f64 b) { return most<f64>(a, b); }
};

// What all lanes of a row have together, for each of them. Every thread of the block must come here, each time with another sh.
template <class J, class C> FN C row_join(C v, u32 lanes, C* sh) {
    for (u32 half = (lanes < 32 ? lanes : 32) / 2; half > 0; half /= 2) v = J::of(v, __shfl_xor_sync(0xffffffff, v, (int)half));
    if (lanes <= 32) return v;
    u32 warp = threadIdx.x / 32, warps = lanes / 32, first = warp & ~(warps - 1);
    if (threadIdx.x % 32 == 0) sh[warp] = v;
    __syncthreads();
    v = sh[first];
    for (u32 k = 1; k < warps; k++) v = J::of(v, sh[first + k]);
    return v;
}

// An operand's row: its vectors, or elements, are step apart.
template <class T, int V> struct Line {
    T* p;
    i64 step;

    FN vec<T, V> read(u32 v) const { return load<T, V>(p + (i64)v * step); }
    FN void write(u32 v, const vec<T, V>& x) const { store<T, V>(p + (i64)v * step, x); }
};

template <class T, int V> struct Line<const T, V> {
    const T* p;
    i64 step;

    FN vec<T, V> read(u32 v) const { return load<T, V>(p + (i64)v * step); }
};

// One row of a call: the output and the inputs; without a second input the last one repeats the first.
template <class T, int V> struct Row {
    Line<T, V> dst;
    Line<const T, V> a, b;
    u32 vectors, lane, lanes;

    // Calls f(slot, number) for each vector that is this lane's and has a place in registers.
    template <class F> FN void kept(const F& f) const {
        #pragma unroll
        for (u32 k = 0; k < KEEP; k++)
            if (lane + k * lanes < vectors) f(k, lane + k * lanes);
    }
    // Calls f(number) for the others.
    template <class F> FN void others(const F& f) const {
        for (u32 v = lane + KEEP * lanes; v < vectors; v += lanes) f(v);
    }
};

struct Steps { i64 dst, a, b; };

template <int V, class T> FN Row<T, V> row_of(const Walk<3>& w, u32 vectors, u32 lanes, T* dst, const T* a, const T* b, const Steps& step) {
    u32 r = blockIdx.x * (THREADS / lanes) + threadIdx.x / lanes;
    i64 at[3] = {0, 0, 0};
    if (r < w.total) seek(w, r, at);
    return {{dst + at[0], step.dst}, {a + at[1], step.a}, {b + at[2], step.b}, r < w.total ? vectors : 0, threadIdx.x & (lanes - 1), lanes};
}

// The largest element of a row.
template <class T, int V, class C = Compute<T>> FN C row_most(const Row<T, V>& r, const vec<T, V> (&x)[KEEP], C* sh) {
    C m = -__builtin_inff();
    auto take = [&](const vec<T, V>& y) INLINE {
        #pragma unroll
        for (int e = 0; e < V; e++) m = Most2::of(m, get(y[e]));
    };
    r.kept([&](u32 k, u32) INLINE { take(x[k]); });
    r.others([&](u32 v) INLINE { take(r.a.read(v)); });
    return row_join<Most2>(m, r.lanes, sh);
}

struct Softmax {
    template <class T, int V, class C> FN static void of(const Row<T, V>& r, C* sh) {
        vec<T, V> x[KEEP];
        C power[KEEP][V], sum = 0;
        r.kept([&](u32 k, u32 v) INLINE { x[k] = r.a.read(v); });
        C m = row_most(r, x, sh);
        r.kept([&](u32 k, u32) INLINE {
            #pragma unroll
            for (int e = 0; e < V; e++) sum += power[k][e] = exp(get(x[k][e]) - m);
        });
        r.others([&](u32 v) INLINE {
            vec<T, V> y = r.a.read(v);
            #pragma unroll
            for (int e = 0; e < V; e++) sum += exp(get(y[e]) - m);
        });
        C scale = 1 / row_join<Add2>(sum, r.lanes, sh + WARPS);
        r.kept([&](u32 k, u32 v) INLINE {
            vec<T, V> y;
            #pragma unroll
            for (int e = 0; e < V; e++) y[e] = put<T>(power[k][e] * scale);
            r.dst.write(v, y);
        });
        r.others([&](u32 v) INLINE {
            vec<T, V> y = r.a.read(v);
            #pragma unroll
            for (int e = 0; e < V; e++) y[e] = put<T>(exp(get(y[e]) - m) * scale);
            r.dst.write(v, y);
        });
    }
};

struct LogSoftmax {
    template <class T, int V, class C> FN static void of(const Row<T, V>& r, C* sh) {
        vec<T, V> x[KEEP];
        C sum = 0;
        r.kept([&](u32 k, u32 v) INLINE { x[k] = r.a.read(v); });
        C m = row_most(r, x, sh);
        auto take = [&](const vec<T, V>& y) INLINE {
            #pragma unroll
            for (int e = 0; e < V; e++) sum += exp(get(y[e]) - m);
        };
        r.kept([&](u32 k, u32) INLINE { take(x[k]); });
        r.others([&](u32 v) INLINE { take(r.a.read(v)); });
        C shift = log(row_join<Add2>(sum, r.lanes, sh + WARPS));
        auto give = [&](vec<T, V> y, u32 v) INLINE {
            #pragma unroll
            for (int e = 0; e < V; e++) y[e] = put<T>((get(y[e]) - m) - shift);
            r.dst.write(v, y);
        };
        r.kept([&](u32 k, u32 v) INLINE { give(x[k], v); });
        r.others([&](u32 v) INLINE { give(r.a.read(v), v); });
    }
};

// A gradient: F takes in elements for a sum over the row, and then gives what becomes of them.
template <class F> struct Gradient {
    template <class T, int V, class C> FN static void of(const Row<T, V>& r, C* sh) {
        vec<T, V> a[KEEP], b[KEEP];
        C sum = 0;
        r.kept([&](u32 k, u32 v) INLINE {
            a[k] = r.a.read(v);
            b[k] = r.b.read(v);
        });
        auto take = [&](const vec<T, V>& x, const vec<T, V>& y) INLINE {
            #pragma unroll
            for (int e = 0; e < V; e++) sum = F::take(sum, get(x[e]), get(y[e]));
        };
        r.kept([&](u32 k, u32) INLINE { take(a[k], b[k]); });
        r.others([&](u32 v) INLINE { take(r.a.read(v), r.b.read(v)); });
        sum = row_join<Add2>(sum, r.lanes, sh);
        auto give = [&](vec<T, V> x, const vec<T, V>& y, u32 v) INLINE {
            #pragma unroll
            for (int e = 0; e < V; e++) x[e] = put<T>(F::give(sum, get(x[e]), get(y[e])));
            r.dst.write(v, x);
        };
        r.kept([&](u32 k, u32 v) INLINE { give(a[k], b[k], v); });
        r.others([&](u32 v) INLINE { give(r.a.read(v), r.b.read(v), v); });
    }
};

struct OfSoftmax {
    template <class C> FN static C take(C dot, C a, C b) { return fma(a, b, dot); }
    template <class C> FN static C give(C dot, C a, C b) { return b * (a - dot); }
};
struct OfLogSoftmax {
    template <class C> FN static C take(C sum, C a, C) { return sum + a; }
    template <class C> FN static C give(C sum, C a, C b) { return a - exp(b) * sum; }
};

#define ROWS_OF(NAME, F, T, N, V)                                                                                     \
    KERNEL NAME##_##T##_##N(Walk<3> w, u32 vectors, u32 lanes, T* dst, const T* a, const T* b, Steps step) {          \
        GK_SHARED_ARR(Compute<T>, sh, [2 * WARPS]);                                                                     \
        F::of(row_of<V>(w, vectors, lanes, dst, a, b, step), (Compute<T>*)sh);                                        \
    }
#define ROWS(NAME, F, T) ROWS_OF(NAME, F, T, v, 16 / sizeof(T)) ROWS_OF(NAME, F, T, s, 1)

// Row n of the loss: -a[n, class], or 0 for the class to ignore. Classes outside of 0..classes-1 are noted.
template <class T>
FN void nll(u32 n, u32 classes, T* dst, const T* a, const i64* b, const Steps& step, i64 column, i64 ignore, Note note) {
    u32 r = blockIdx.x * THREADS + threadIdx.x;
    if (r >= n) return;
    i64 class_ = b[r * step.b];
    Compute<T> v = 0;
    if (class_ != ignore) {
        if (class_ < 0 || class_ >= classes) return complain(note, class_, r, classes);
        v = -get(a[r * step.a + class_ * column]);
    }
    dst[r * step.dst] = put<T>(v);
}

// The gradient: -a[n] at [n, class], else 0. One thread for each element of dst, of n rows and classes columns.
template <class T>
FN void nll_backward(u32 total, Div classes, T* dst, const T* a, const i64* b, const Steps& step, i64 column, i64 ignore, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= total) return;
    u32 r = quotient(classes, i), c = i - r * classes.size;
    i64 class_ = b[r * step.b];
    if (c == 0 && class_ != ignore && (class_ < 0 || class_ >= classes.size)) complain(note, class_, r, classes.size);
    Compute<T> v = 0;
    if (class_ == c && class_ != ignore) v = -get(a[r * step.a]);
    dst[r * step.dst + c * column] = put<T>(v);
}

#define LOSS(T)                                                                                                       \
    ROWS(softmax, Softmax, T)                                                                                         \
    ROWS(softmax_backward, Gradient<OfSoftmax>, T)                                                                          \
    ROWS(log_softmax, LogSoftmax, T)                                                                                  \
    ROWS(log_softmax_backward, Gradient<OfLogSoftmax>, T)                                                                     \
    KERNEL nll_loss_##T(u32 n, u32 classes, T* dst, const T* a, const i64* b, Steps step, i64 column, \
                                         i64 ignore, Note note) {                                                     \
        nll(n, classes, dst, a, b, step, column, ignore, note);                                                       \
    }                                                                                                                 \
    KERNEL nll_loss_backward_##T(u32 total, Div classes, T* dst, const T* a, const i64* b, Steps step, \
                                                  i64 column, i64 ignore, Note note) {                                \
        nll_backward(total, classes, dst, a, b, step, column, ignore, note);                                          \
    }

LOSS(f32)
LOSS(f64)
LOSS(f16)
LOSS(bf16)
