// The optimizers, norm and clipping of gradients, and the kernels of a gradient scaler: many tensors in one launch. A table of
// tensors goes into the kernel's parameters; each block finds the tensor and the piece of it that is its own. kernels/cpu
// (optimize.go, optimizers.go, step.go, clip.go, amp.go) is the specification.
#include "math.h"

#define INLINE __attribute__((always_inline)) // of lambdas: what they hold stays in registers

constexpr u32 TENSORS = 64;  // in a launch
constexpr u32 PIECE = 4096;  // elements of a tensor for one block

// first[i] is the first block of tensor i; first[count] is the number of blocks.
template <int GROUPS> struct Table {
    u32 count, rest;
    u32 first[TENSORS + 2];
    u64 length[TENSORS];
    u64 pointer[GROUPS][TENSORS];
};

template <int GROUPS> FN u32 tensor_of(const Table<GROUPS>& t, u32 block) {
    u32 lo = 0, hi = t.count; // first[lo] <= block < first[hi]
    while (hi - lo > 1) {
        u32 mid = (lo + hi) / 2;
        if (t.first[mid] <= block) lo = mid;
        else hi = mid;
    }
    return lo;
}

enum { FIRST = 1, MAXIMIZE = 2, NESTEROV = 4, CENTERED = FIRST, DECOUPLED = FIRST };

// The elements lo..hi-1 of tensor i that this block works on.
struct Piece {
    u32 i;
    u64 lo, hi;
};

template <int GROUPS> FN Piece piece_of(const Table<GROUPS>& t) {
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE;
    return {i, lo, n < lo + PIECE ? n : lo + PIECE};
}

// A piece goes through registers in vectors of 16 bytes (or 8), AHEAD of them of each group on their way at a time; what lies at odd
// addresses goes an element at a time. f gets the elements of all groups at one place, those that reads has a bit for, and says
// whether those that writes has a bit for have changed.
template <int AHEAD, class T, int GROUPS> struct Pieces {
    static constexpr u32 V = (GROUPS > 4 ? 8 : 16) / sizeof(T), STEP = THREADS * V; // more would not stay in registers
    using C = Compute<T>;
    T* at[GROUPS];
    u32 reads, writes;

    template <class F> FN void one(u64 k, const F& f) const {
        C x[GROUPS];
        #pragma unroll
        for (int g = 0; g < GROUPS; g++) x[g] = reads >> g & 1 ? (C)get(at[g][k]) : (C)0;
        if (!f(x)) return;
        #pragma unroll
        for (int g = 0; g < GROUPS; g++)
            if (writes >> g & 1) at[g][k] = put<T>(x[g]);
    }

    // The elements of one vector of each group.
    template <class F> FN bool all(vec<T, V> (&v)[GROUPS], const F& f) const {
        bool changed = false;
        #pragma unroll
        for (u32 e = 0; e < V; e++) {
            C x[GROUPS];
            #pragma unroll
            for (int g = 0; g < GROUPS; g++) x[g] = get(v[g][e]);
            if (!f(x)) continue;
            changed = true;
            #pragma unroll
            for (int g = 0; g < GROUPS; g++) v[g][e] = put<T>(x[g]);
        }
        return changed;
    }

    // Vectors from place k on, which are STEP apart, below hi.
    template <class F> FN void some(u64 k, u64 hi, const F& f) const {
        vec<T, V> v[AHEAD][GROUPS] = {};
        #pragma unroll
        for (u32 s = 0; s < AHEAD; s++)
            #pragma unroll
            for (int g = 0; g < GROUPS; g++)
                if (k + s * STEP < hi && reads >> g & 1) v[s][g] = load<T, V>(at[g] + k + s * STEP);
        #pragma unroll
        for (u32 s = 0; s < AHEAD; s++) {
            if (k + s * STEP >= hi || !all(v[s], f)) continue;
            #pragma unroll
            for (int g = 0; g < GROUPS; g++)
                if (writes >> g & 1) store<T, V>(at[g] + k + s * STEP, v[s][g]);
        }
    }
};

template <class T, int AHEAD = 1, int GROUPS, class F> FN void each(const Table<GROUPS>& t, const Piece& b, u32 reads, u32 writes, const F& f) {
    using P = Pieces<AHEAD, T, GROUPS>;
    P p;
    p.reads = reads;
    p.writes = writes;
    u64 bits = 0, from = b.lo;
    #pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        p.at[g] = (T*)t.pointer[g][b.i];
        bits |= t.pointer[g][b.i];
    }
    if (bits % 16 == 0) {
        u64 whole = b.lo + (b.hi - b.lo) / P::V * P::V;
        for (u64 k = b.lo + threadIdx.x * P::V; k < whole; k += AHEAD * P::STEP) p.some(k, whole, f);
        from = whole;
    }
    for (u64 k = from + threadIdx.x; k < b.hi; k += THREADS) p.one(k, f);
}

// What a step takes from memory; each may be null. factors has two numbers for each tensor of the table, written by count_steps, and
// settings the scalars of the call. They are volatile because the choice between a number there and one in the parameters would else
// become one between addresses, for which clang copies the parameters to local memory.
struct Decided {
    const f32 *scale, *found;
    const volatile f64 *factors, *settings;
};

// Setting i of the call, or what the parameters have made of it.
template <class C> FN C setting(const Decided& d, int i, C other) { return d.settings ? (C)d.settings[i] : other; }

// What is left of 1.
template <class C> FN C rest_of(const Decided& d, int i, C other) { return d.settings ? (C)(1 - d.settings[i]) : other; }

// By what a decay acts on parameters directly.
template <class C> FN C shrink_of(const Decided& d, int decay, C other) {
    if (!d.settings) return other;
    f64 rate = d.settings[0];
    return (C)(1 - rate * d.settings[decay]);
}

FN bool left_out(const Decided& d) { return d.found && *d.found != 0; }

// What gradients are multiplied by.
template <class C> FN C sign_of(const Decided& d, u32 flags) {
    f32 inv = d.scale ? 1.0f / *d.scale : 1.0f;
    return (C)(flags & MAXIMIZE ? -inv : inv);
}

constexpr u32 COUNTERS = 256; // in a launch

struct Counters {
    u32 count, rest;
    u64 pointer[COUNTERS];
};

enum CountKind { COUNT_ONLY, COUNT_FIRST, COUNT_ADAM, COUNT_ADAGRAD };

// As math.Pow of Go computes it.
FN f64 whole_power(f64 x, u64 n) {
    f64 y = 1;
    for (; n; n >>= 1) {
        if (n & 1) y *= x;
        x *= x;
    }
    return y;
}

// Adds one to each counter, and leaves what depends on it in two numbers for each. Adam: lr, beta1, beta2. Adagrad: lr, its decay. They
// are the first of settings, if that is there.
KERNEL count_steps(Counters t, const f32* found, f64* factors, u32 kind, f64 lr, f64 b1, f64 b2, const f64* settings) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= t.count || (found && *found != 0)) return;
    if (settings) {
        lr = settings[0];
        b1 = settings[1];
        b2 = settings[2];
    }
    i64* counter = (i64*)t.pointer[i];
    i64 steps = *counter + 1;
    *counter = steps;
    if (kind == COUNT_FIRST) factors[2 * i] = steps == 1;
    if (kind == COUNT_ADAM) {
        factors[2 * i] = lr / (1 - whole_power(b1, (u64)steps));
        factors[2 * i + 1] = sqrt(1 - whole_power(b2, (u64)steps));
    }
    if (kind == COUNT_ADAGRAD) factors[2 * i] = lr / (1 + (f64)(steps - 1) * b1);
}

template <class C> struct SGD { C lr, momentum, decay, keep; };

// Parameters, buffers, gradients.
template <class T, class C> FN void sgd(const Table<3>& t, const SGD<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    Piece b = piece_of(t);
    C sign = sign_of<C>(d, flags);
    C rate = setting(d, 0, s.lr), momentum = setting(d, 1, s.momentum), decay = setting(d, 2, s.decay), keep = rest_of(d, 3, s.keep);
    bool moves = momentum != 0, first = d.factors ? d.factors[2 * b.i] != 0 : flags & FIRST;
    each<T>(t, b, moves && !first ? 7 : 5, moves ? 3 : 1, [&](C (&x)[3]) INLINE {
        C g = sign * x[2], p = x[0];
        if (decay != 0) g += decay * p;
        if (moves) {
            C m = g;
            if (!first) m = momentum * x[1] + keep * g;
            x[1] = m;
            g = flags & NESTEROV ? g + momentum * m : m;
        }
        x[0] = p - rate * g;
        return true;
    });
}

template <class C> struct Adam { C size, root, shrink, decay, beta1, keep1, beta2, keep2, eps; };

// Parameters, moments, with LARGEST the largest second moments so far, which are then in the denominator, and gradients.
template <class T, bool LARGEST, class C, int GROUPS> FN void adam(const Table<GROUPS>& t, const Adam<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    Piece b = piece_of(t);
    C sign = sign_of<C>(d, flags);
    C size = d.factors ? (C)d.factors[2 * b.i] : s.size, under = d.factors ? (C)d.factors[2 * b.i + 1] : s.root;
    C beta1 = setting(d, 1, s.beta1), keep1 = rest_of(d, 1, s.keep1), beta2 = setting(d, 2, s.beta2), keep2 = rest_of(d, 2, s.keep2);
    C eps = setting(d, 3, s.eps), decay = s.decay, shrink = s.shrink;
    if (flags & DECOUPLED) shrink = shrink_of(d, 4, s.shrink);
    else decay = setting(d, 4, s.decay);
    each<T>(t, b, (1 << GROUPS) - 1, (1 << (GROUPS - 1)) - 1, [&](C (&x)[GROUPS]) INLINE {
        C g = sign * x[GROUPS - 1], p = x[0] * shrink;
        if (decay != 0) g += decay * p;
        C m = beta1 * x[1] + keep1 * g;
        C v = beta2 * x[2] + keep2 * g * g, most = v;
        x[1] = m;
        x[2] = v;
        if constexpr (LARGEST) {
            if (!(v > x[3] || v != v)) most = x[3];
            x[3] = most;
        }
        x[0] = p - size * m / (sqrt(most) / under + eps);
        return true;
    });
}

template <class C> struct RMSProp { C lr, alpha, keep, eps, decay, momentum; };

// Parameters, squares, buffers, means, gradients.
template <class T, class C> FN void rmsprop(const Table<5>& t, const RMSProp<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    C rate = setting(d, 0, s.lr), alpha = setting(d, 1, s.alpha), keep = rest_of(d, 1, s.keep), eps = setting(d, 2, s.eps);
    C decay = setting(d, 3, s.decay), momentum = setting(d, 4, s.momentum);
    u32 there = (momentum != 0 ? 4 : 0) | (flags & CENTERED ? 8 : 0) | 3;
    each<T>(t, piece_of(t), there | 16, there, [&](C (&x)[5]) INLINE {
        C g = sign * x[4], p = x[0];
        if (decay != 0) g += decay * p;
        C q = alpha * x[1] + keep * g * g;
        x[1] = q;
        if (flags & CENTERED) {
            C a = alpha * x[3] + keep * g;
            x[3] = a;
            q -= a * a;
        }
        C move = g / (sqrt(q) + eps);
        if (momentum != 0) {
            move += momentum * x[2];
            x[2] = move;
        }
        x[0] = p - rate * move;
        return true;
    });
}

// lr is that of this step.
template <class C> struct Adagrad { C lr, eps, decay; };

// Parameters, sums, gradients.
template <class T, class C> FN void adagrad(const Table<3>& t, const Adagrad<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    Piece b = piece_of(t);
    C sign = sign_of<C>(d, flags), lr = d.factors ? (C)d.factors[2 * b.i] : s.lr, eps = setting(d, 2, s.eps), decay = setting(d, 3, s.decay);
    each<T>(t, b, 7, 3, [&](C (&x)[3]) INLINE {
        C g = sign * x[2], p = x[0];
        if (decay != 0) g += decay * p;
        C q = x[1] + g * g;
        x[1] = q;
        x[0] = p - lr * g / (sqrt(q) + eps);
        return true;
    });
}

template <class C> struct Lion { C lr, shrink, beta1, keep1, beta2, keep2; };

// Parameters, momenta, gradients.
template <class T, class C> FN void lion(const Table<3>& t, const Lion<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags), rate = setting(d, 0, s.lr), shrink = shrink_of(d, 3, s.shrink);
    C beta1 = setting(d, 1, s.beta1), keep1 = rest_of(d, 1, s.keep1), beta2 = setting(d, 2, s.beta2), keep2 = rest_of(d, 2, s.keep2);
    each<T>(t, piece_of(t), 7, 3, [&](C (&x)[3]) INLINE {
        C g = sign * x[2], m = x[1], p = x[0] * shrink;
        C direction = beta1 * m + keep1 * g;
        if (direction > 0) p -= rate;
        if (direction < 0) p += rate;
        x[0] = p;
        x[1] = beta2 * m + keep2 * g;
        return true;
    });
}

// Kinds of norms. All are computed in double precision: reading the elements takes longer.
enum NormKind { SQUARES, SIZES, LARGEST, POWERS };

FN f64 norm_join(f64 a, f64 b, u32 kind) {
    if (kind != LARGEST) return a + b;
    return a != a || a > b ? a : b;
}

FN f64 norm_term(f64 x, u32 kind, f64 p) {
    f64 size = x < 0 ? -x : x;
    if (kind == SQUARES) return x * x;
    return kind == POWERS ? pow(size, p) : size;
}

// What all threads of the block have together, for thread 0.
FN f64 norm_of_block(f64 v, u32 kind, f64* sh) {
    u32 tid = threadIdx.x;
    sh[tid] = v;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) sh[tid] = norm_join(sh[tid], sh[tid + half], kind);
    }
    return sh[tid]; // of the others, nothing that is used
}

// Vectors of a single group that are on their way at a time: all of a piece.
template <class T> constexpr int WHOLE = PIECE / (THREADS * (16 / sizeof(T)));

template <u32 KIND, class T, class C> FN f64 norm_of_piece(const Table<1>& t) {
    f64 v = 0;
    each<T, WHOLE<T>>(t, piece_of(t), 1, 0, [&](C (&x)[1]) INLINE {
        v = norm_join(v, norm_term((f64)x[0], KIND, 0), KIND);
        return false;
    });
    return v;
}

// The part of the norm that each block's piece has.
template <class T, class C> FN void grad_norm(const Table<1>& t, f64* part, u32 kind, f64 p, f64* sh) {
    f64 v = 0;
    if (kind == SQUARES) v = norm_of_piece<SQUARES, T, C>(t);
    if (kind == SIZES) v = norm_of_piece<SIZES, T, C>(t);
    if (kind == LARGEST) v = norm_of_piece<LARGEST, T, C>(t);
    if (kind == POWERS) { // computing takes longer than reading
        Piece b = piece_of(t);
        const T* x = (const T*)t.pointer[0][b.i];
        for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) v += norm_term((f64)get(x[k]), POWERS, p);
    }
    v = norm_of_block(v, kind, sh);
    if (threadIdx.x == 0) part[blockIdx.x] = v;
}

KERNEL grad_norm_join(f64* total, const f64* part, u32 n, u32 kind) {
    constexpr u32 AHEAD = 16;
    GK_SHARED_ARR(f64, sh, [THREADS]);
    f64 v = 0;
    for (u32 k = threadIdx.x; k < n; k += AHEAD * THREADS) {
        f64 x[AHEAD];
        #pragma unroll
        for (u32 s = 0; s < AHEAD; s++) x[s] = n - k > s * THREADS ? part[k + s * THREADS] : 0;
        #pragma unroll
        for (u32 s = 0; s < AHEAD; s++) v = norm_join(v, x[s], kind);
    }
    v = norm_of_block(v, kind, (f64*)sh);
    if (threadIdx.x == 0) *total = norm_join(*total, v, kind);
}

// Multiplies by most/(norm + 1e-6) where that is less than 1, and where the norm is not finite if unusual is set.
template <class T, class C> FN void clip_norm(const Table<1>& t, const f64* norm, f64 most, u32 unusual) {
    f64 factor = most / (*norm + 1e-6);
    bool usual = finite(*norm);
    if ((usual && factor >= 1) || (!usual && !unusual)) return;
    each<T, WHOLE<T>>(t, piece_of(t), 1, 1, [&](C (&x)[1]) INLINE {
        x[0] *= (C)factor;
        return true;
    });
}

template <class T, class C> FN void clip_value(const Table<1>& t, f64 limit) {
    C top = (C)limit;
    each<T, WHOLE<T>>(t, piece_of(t), 1, 1, [&](C (&x)[1]) INLINE {
        bool above = x[0] > top, below = x[0] < -top;
        if (above) x[0] = top;
        if (below) x[0] = -top;
        return above || below;
    });
}

// Multiplies gradients by inv, unless that is 1, and sets found to 1 if any element was infinite or NaN before.
template <class T, class C> FN void unscale(const Table<1>& t, const f32* inv, f32* found) {
    f32 scale = *inv;
    bool bad = false;
    each<T, WHOLE<T>>(t, piece_of(t), 1, 1, [&](C (&x)[1]) INLINE {
        bad |= !finite(x[0]);
        x[0] *= (C)scale;
        return scale != 1.0f;
    });
    if (bad) *found = 1.0f; // all that write write the same
}

#define OPTIM(T, C)                                                                                                   \
    KERNEL sgd_step_##T(Table<3> t, SGD<C> s, u32 flags, Decided d) { sgd<T>(t, s, flags, d); }       \
    KERNEL adam_step_##T(Table<4> t, Adam<C> s, u32 flags, Decided d) { adam<T, false>(t, s, flags, d); } \
    KERNEL amsgrad_step_##T(Table<5> t, Adam<C> s, u32 flags, Decided d) { adam<T, true>(t, s, flags, d); } \
    KERNEL rmsprop_step_##T(Table<5> t, RMSProp<C> s, u32 flags, Decided d) { rmsprop<T>(t, s, flags, d); } \
    KERNEL adagrad_step_##T(Table<3> t, Adagrad<C> s, u32 flags, Decided d) { adagrad<T>(t, s, flags, d); } \
    KERNEL lion_step_##T(Table<3> t, Lion<C> s, u32 flags, Decided d) { lion<T>(t, s, flags, d); }   \
    KERNEL grad_norm_##T(Table<1> t, f64* part, u32 kind, f64 p) {                                   \
        GK_SHARED_ARR(f64, sh, [THREADS]);                                                           \
        grad_norm<T, C>(t, part, kind, p, (f64*)sh);                                                  \
    }                                                                                                \
    KERNEL clip_grad_norm_##T(Table<1> t, const f64* norm, f64 most, u32 unusual) {                  \
        clip_norm<T, C>(t, norm, most, unusual);                                                     \
    }                                                                                                \
    KERNEL clip_grad_value_##T(Table<1> t, f64 limit) { clip_value<T, C>(t, limit); }                \
    KERNEL amp_unscale_##T(Table<1> t, const f32* inv, f32* found) { unscale<T, C>(t, inv, found); }

OPTIM(f32, f32)
OPTIM(f64, f64)
OPTIM(f16, f32)
OPTIM(bf16, f32)

KERNEL amp_update_scale(f32* scale, i32* tracker, const f32* found, f64 growth, f64 backoff, i64 interval) {
    if (threadIdx.x > 0 || blockIdx.x > 0) return;
    if (*found != 0.0f) {
        *scale = (f32)((f64)*scale * backoff);
        *tracker = 0;
        return;
    }
    i32 steps = *tracker + 1;
    if (steps == interval) {
        f32 grown = (f32)((f64)*scale * growth);
        if (finite(grown)) *scale = grown;
        steps = 0;
    }
    *tracker = steps;
}
