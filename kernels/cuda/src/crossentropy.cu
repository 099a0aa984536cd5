// The loss of logits against classes, and its gradient. So many lanes of a block work on one row, and THREADS/lanes rows share a
// block. A row is read once in each direction, in pieces of 16 bytes where it lies straight: maxima and sums run together,
// and what was summed relative to an earlier maximum is corrected when a larger one turns up.
#include "math.h"

#define INLINE __attribute__((always_inline)) // of lambdas: what they hold stays in registers

// What a call is: sizes, strides in elements, and the scalars. vectors says that rows of logits, and of their gradient, begin at
// multiples of 16 bytes and have no gaps.
struct Entropy {
    u32 rows, classes, lanes, vectors, weighted, smooth;
    i64 ignore, row, step, class_step, loss_step, weight_step, dst_row, dst_step;
    f64 smoothing;
};

// A running maximum and the sum of exponentials relative to it. safe is the maximum, or 0 while that is -infinity.
template <class C> struct Running { C most, sum; };

template <class C> FN C safe(C most) { return most == (C)-__builtin_inff() ? (C)0 : most; }

template <class C> FN void take(Running<C>& r, C most) {
    if (most > r.most) {
        r.sum *= exp(r.most - most);
        r.most = most;
    }
}

// exp(v) for v that are not positive, to be added to 1: what is less than exp(-80) makes no difference, and 0 may be that.
FN f32 exp_small(f32 v) { return exp_normal(at_least(v, -80.0f)); }
FN f64 exp_small(f64 v) { return exp(v); }

template <int N, class C> FN void take(Running<C>& r, const C (&v)[N]) {
    C most = v[0];
#pragma unroll
    for (int i = 1; i < N; i++) most = v[i] > most ? v[i] : most;
    take(r, most);
    C shift = safe(r.most);
#pragma unroll
    for (int i = 0; i < N; i++) r.sum += exp_small(v[i] - shift);
}

// Both rows of sums, joined: the greater maximum, and what each sum is relative to it.
template <class C> FN Running<C> join(const Running<C>& a, const Running<C>& b) {
    C most = a.most > b.most ? a.most : b.most, shift = safe(most);
    return Running<C>{most, a.sum * exp(a.most - shift) + b.sum * exp(b.most - shift)};
}

struct Joined { template <class V> FN static V of(const V& a, const V& b) { return join(a, b); } };
struct Added { template <class V> FN static V of(const V& a, const V& b) { return a + b; } };

template <class C> FN C shuffle(C v, int lanes) { return __shfl_xor_sync(0xffffffff, v, lanes); }
template <class C> FN Running<C> shuffle(const Running<C>& v, int lanes) { return {shuffle(v.most, lanes), shuffle(v.sum, lanes)}; }

constexpr u32 WARPS = THREADS / 32;

// What all lanes of a row have together, for each of them. Every thread of the block must come here, each time with another sh.
template <class J, class V> FN V row_join(V v, u32 lanes, V* sh) {
    for (u32 half = (lanes < 32 ? lanes : 32) / 2; half > 0; half /= 2) v = J::of(v, shuffle(v, (int)half));
    if (lanes <= 32) return v;
    u32 warp = threadIdx.x / 32, warps = lanes / 32, first = warp & ~(warps - 1);
    if (threadIdx.x % 32 == 0) sh[warp] = v;
    __syncthreads();
    v = sh[first];
    for (u32 k = 1; k < warps; k++) v = J::of(v, sh[first + k]);
    return v;
}

template <class T> constexpr int PIECE = 16 / sizeof(T);

// Loads that are on their way at a time: 32 or 64 bytes.
template <class T> constexpr u32 AHEAD = sizeof(T) == 4 ? 4 : 2;

// Calls f with N neighbouring elements of a row, and the place of the first.
template <class T, class C, class F> FN void each(const Entropy& p, const T* row, u32 lane, F f) {
    u32 j = 0;
    if (p.vectors) {
        u32 whole = p.classes / PIECE<T> * PIECE<T>;
        u32 step = p.lanes * PIECE<T>;
        for (j = lane * PIECE<T>; j < whole; j += AHEAD<T> * step) {
            vec<T, PIECE<T>> v[AHEAD<T>];
#pragma unroll
            for (u32 k = 0; k < AHEAD<T>; k++)
                if (j + k * step < whole) v[k] = load<T, PIECE<T>>(row + j + k * step);
#pragma unroll
            for (u32 k = 0; k < AHEAD<T>; k++) {
                if (j + k * step >= whole) break;
                C c[PIECE<T>];
#pragma unroll
                for (int i = 0; i < PIECE<T>; i++) c[i] = get(v[k][i]);
                f(c, j + k * step);
            }
        }
        j = whole;
    }
    for (j += lane; j < p.classes; j += p.lanes) {
        C c[1] = {(C)get(row[(i64)j * p.step])};
        f(c, j);
    }
}

template <class T, class C> FN C weight_of(const Entropy& p, const T* w, u32 j) { return p.weighted ? (C)get(w[j * p.weight_step]) : (C)1; }

// The weights of all classes, times x, are added up where smoothing wants that.
template <class T, class C> FN C smooth_sum(const Entropy& p, const T* a, const T* w, C most, C log_sum, u32 lane) {
    C sum = 0;
    each<T, C>(p, a, lane, [&](const auto& c, u32 j) INLINE {
#pragma unroll
        for (u32 i = 0; i < sizeof(c) / sizeof(C); i++) sum = fma(weight_of<T, C>(p, w, j + i), (most - c[i]) + log_sum, sum);
    });
    return sum;
}

template <class T, class C>
FN void loss(const Entropy& p, C* dst, C* lse, C* weight, const T* a, const i64* b, const T* w, const Note& note, Running<C>* sh, C* sums) {
    u32 lane = threadIdx.x & (p.lanes - 1), n = blockIdx.x * (THREADS / p.lanes) + threadIdx.x / p.lanes;
    bool live = n < p.rows;
    a += (i64)n * p.row;
    Running<C> r = {(C)-__builtin_inff(), 0};
    if (live) each<T, C>(p, a, lane, [&](const auto& c, u32) INLINE { take(r, c); });
    r = row_join<Joined>(r, p.lanes, sh);
    C l = r.most - r.most == 0 ? log(r.sum) : r.most - r.most; // infinite maxima make NaN
    i64 class_ = b[(live ? n : 0) * p.class_step];
    bool there = class_ >= 0 && class_ < p.classes && class_ != p.ignore;
    C s = 0;
    if (p.smooth) s = row_join<Added>(live && there ? smooth_sum<T, C>(p, a, w, r.most, l, lane) : (C)0, p.lanes, sums);
    if (!live || lane > 0) return;
    if (!there && class_ != p.ignore) complain(note, class_, n, p.classes);
    C v = 0, x = 0;
    if (there) {
        x = weight_of<T, C>(p, w, (u32)class_);
        // Relative to the maximum first: both may be large, and their difference small.
        v = ((r.most - (C)get(a[class_ * p.step])) + l) * x;
        if (p.smooth) v = (C)(1 - p.smoothing) * v + (C)(p.smoothing / p.classes) * s;
    }
    dst[n * p.loss_step] = v;
    lse[n] = r.most;
    lse[p.rows + n] = l;
    weight[n] = x;
}

template <class T, class C>
FN void backward(const Entropy& p, T* dst, const C* g, const T* a, const i64* b, const C* lse, const T* w, const Note& note, C* sums) {
    u32 lane = threadIdx.x & (p.lanes - 1), n = blockIdx.x * (THREADS / p.lanes) + threadIdx.x / p.lanes;
    bool live = n < p.rows;
    a += (i64)n * p.row;
    dst += (i64)n * p.dst_row;
    i64 class_ = b[(live ? n : 0) * p.class_step];
    bool there = class_ >= 0 && class_ < p.classes && class_ != p.ignore;
    C total = (C)p.classes;
    if (p.smooth && p.weighted) {
        C sum = 0;
        for (u32 j = lane; j < p.classes; j += p.lanes) sum += weight_of<T, C>(p, w, j);
        total = row_join<Added>(sum, p.lanes, sums);
    }
    if (!live) return;
    if (lane == 0 && !there && class_ != p.ignore) complain(note, class_, n, p.classes);
    u32 at = there ? (u32)class_ : ~0u;
    C uniform = (C)(p.smoothing / p.classes), hit = 0, all = 0, grad = g[n * p.loss_step], most = lse[n], l = lse[p.rows + n];
    if (there) {
        hit = (C)(1 - p.smoothing) * weight_of<T, C>(p, w, (u32)class_);
        all = hit + uniform * total;
    }
    each<T, C>(p, a, lane, [&](const auto& c, u32 j) INLINE {
        constexpr u32 N = sizeof(c) / sizeof(C);
        C d[N];
#pragma unroll
        for (u32 i = 0; i < N; i++) {
            C target = j + i == at ? hit : 0; // with its share of the smoothing: of one class that is all, and nothing is left
            if (p.smooth) target += uniform * weight_of<T, C>(p, w, j + i);
            d[i] = all * exp((c[i] - most) - l) - target;
        }
        vec<T, N> v;
#pragma unroll
        for (u32 i = 0; i < N; i++) v[i] = put<T>(there ? grad * d[i] : (C)0);
        if constexpr (N > 1) store<T, N>(dst + j, v);
        else dst[(i64)j * p.dst_step] = v[0];
    });
}

#define ENTROPY(T)                                                                                                    \
    KERNEL cross_entropy_##T(Entropy p, Compute<T>* dst, Compute<T>* lse, Compute<T>* weight, const T* a,             \
                             const i64* b, const T* w, Note note) {                                                   \
        GK_SHARED_ARR(Running<Compute<T>>, sh, [WARPS]);                                                              \
        GK_SHARED_ARR(Compute<T>, sums, [WARPS]);                                                                     \
        loss(p, dst, lse, weight, a, b, w, note, (Running<Compute<T>>*)sh, (Compute<T>*)sums);                        \
    }                                                                                                                 \
    KERNEL cross_entropy_backward_##T(Entropy p, T* dst, const Compute<T>* g, const T* a, const i64* b,               \
                                      const Compute<T>* lse, const T* w, Note note) {                                 \
        GK_SHARED_ARR(Compute<T>, sums, [WARPS]);                                                                     \
        backward(p, dst, g, a, b, lse, w, note, (Compute<T>*)sums);                                                   \
    }

ENTROPY(f32)
ENTROPY(f64)
ENTROPY(f16)
ENTROPY(bf16)
