// The optimizers, norm and clipping of gradients, and the kernels of a gradient scaler: many tensors in one launch. A table of
// tensors goes into the kernel's parameters; each block finds the tensor and the piece of it that is its own. kernels/cpu
// (optimize.go, optimizers.go, step.go, clip.go, amp.go) is the specification.
#include "math.h"

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

enum { FIRST = 1, MAXIMIZE = 2, NESTEROV = 4, CENTERED = FIRST };

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

// What a step takes from memory; each may be null. factors has two numbers for each tensor of the table, written by count_steps. It
// is volatile because the choice between a number there and one in the parameters would else become one between addresses, for
// which clang copies the parameters to local memory.
struct Decided {
    const f32 *scale, *found;
    const volatile f64* factors;
};

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

// Adds one to each counter, and leaves what depends on it in two numbers for each. Adam: lr, beta1, beta2. Adagrad: lr, its decay.
KERNEL count_steps(Counters t, const f32* found, f64* factors, u32 kind, f64 lr, f64 b1, f64 b2) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= t.count || (found && *found != 0)) return;
    i64* counter = (i64*)t.pointer[i];
    i64 steps = *counter + 1;
    *counter = steps;
    if (kind == COUNT_FIRST) factors[2 * i] = steps == 1;
    if (kind == COUNT_ADAM) {
        factors[2 * i] = lr / (1 - whole_power(b1, (u64)steps));
        factors[2 * i + 1] = root(1 - whole_power(b2, (u64)steps));
    }
    if (kind == COUNT_ADAGRAD) factors[2 * i] = lr / (1 + (f64)(steps - 1) * b1);
}

template <class C> struct SGD { C lr, momentum, decay, keep; };

template <class T, class C> FN void sgd(const Table<3>& t, const SGD<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE;
    T *param = (T*)t.pointer[0][i], *buffer = (T*)t.pointer[1][i];
    const T* grad = (const T*)t.pointer[2][i];
    bool first = d.factors ? d.factors[2 * i] != 0 : flags & FIRST;
    for (u64 k = lo + threadIdx.x; k < n && k < lo + PIECE; k += THREADS) {
        C g = sign * get(grad[k]), p = get(param[k]);
        if (s.decay != 0) g += s.decay * p;
        if (s.momentum != 0) {
            C m = g;
            if (!first) m = s.momentum * get(buffer[k]) + s.keep * g;
            buffer[k] = put<T>(m);
            g = flags & NESTEROV ? g + s.momentum * m : m;
        }
        param[k] = put<T>(p - s.lr * g);
    }
}

template <class C> struct Adam { C size, root, shrink, decay, beta1, keep1, beta2, keep2, eps; };

template <class T, class C> FN void adam(const Table<4>& t, const Adam<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE;
    T *param = (T*)t.pointer[0][i], *first = (T*)t.pointer[1][i], *second = (T*)t.pointer[2][i];
    const T* grad = (const T*)t.pointer[3][i];
    C size = d.factors ? (C)d.factors[2 * i] : s.size, under = d.factors ? (C)d.factors[2 * i + 1] : s.root;
    for (u64 k = lo + threadIdx.x; k < n && k < lo + PIECE; k += THREADS) {
        C g = sign * get(grad[k]), p = get(param[k]) * s.shrink;
        if (s.decay != 0) g += s.decay * p;
        C m = s.beta1 * get(first[k]) + s.keep1 * g;
        C v = s.beta2 * get(second[k]) + s.keep2 * g * g;
        first[k] = put<T>(m);
        second[k] = put<T>(v);
        param[k] = put<T>(p - size * m / (root(v) / under + s.eps));
    }
}

// adam with the largest second moment so far in the denominator.
template <class T, class C> FN void amsgrad(const Table<5>& t, const Adam<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    Piece b = piece_of(t);
    T *param = (T*)t.pointer[0][b.i], *first = (T*)t.pointer[1][b.i], *second = (T*)t.pointer[2][b.i];
    T* largest = (T*)t.pointer[3][b.i];
    const T* grad = (const T*)t.pointer[4][b.i];
    C size = d.factors ? (C)d.factors[2 * b.i] : s.size, under = d.factors ? (C)d.factors[2 * b.i + 1] : s.root;
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) {
        C g = sign * get(grad[k]), p = get(param[k]) * s.shrink;
        if (s.decay != 0) g += s.decay * p;
        C m = s.beta1 * get(first[k]) + s.keep1 * g;
        C v = s.beta2 * get(second[k]) + s.keep2 * g * g, most = get(largest[k]);
        if (v > most || v != v) most = v;
        first[k] = put<T>(m);
        second[k] = put<T>(v);
        largest[k] = put<T>(most);
        param[k] = put<T>(p - size * m / (root(most) / under + s.eps));
    }
}

template <class C> struct RMSProp { C lr, alpha, keep, eps, decay, momentum; };

template <class T, class C> FN void rmsprop(const Table<5>& t, const RMSProp<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    Piece b = piece_of(t);
    T *param = (T*)t.pointer[0][b.i], *square = (T*)t.pointer[1][b.i], *buffer = (T*)t.pointer[2][b.i];
    T* mean = (T*)t.pointer[3][b.i];
    const T* grad = (const T*)t.pointer[4][b.i];
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) {
        C g = sign * get(grad[k]), p = get(param[k]);
        if (s.decay != 0) g += s.decay * p;
        C q = s.alpha * get(square[k]) + s.keep * g * g;
        square[k] = put<T>(q);
        if (flags & CENTERED) {
            C a = s.alpha * get(mean[k]) + s.keep * g;
            mean[k] = put<T>(a);
            q -= a * a;
        }
        C move = g / (root(q) + s.eps);
        if (s.momentum != 0) {
            move += s.momentum * get(buffer[k]);
            buffer[k] = put<T>(move);
        }
        param[k] = put<T>(p - s.lr * move);
    }
}

// lr is that of this step.
template <class C> struct Adagrad { C lr, eps, decay; };

template <class T, class C> FN void adagrad(const Table<3>& t, const Adagrad<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    Piece b = piece_of(t);
    T *param = (T*)t.pointer[0][b.i], *sum = (T*)t.pointer[1][b.i];
    const T* grad = (const T*)t.pointer[2][b.i];
    C lr = d.factors ? (C)d.factors[2 * b.i] : s.lr;
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) {
        C g = sign * get(grad[k]), p = get(param[k]);
        if (s.decay != 0) g += s.decay * p;
        C q = get(sum[k]) + g * g;
        sum[k] = put<T>(q);
        param[k] = put<T>(p - lr * g / (root(q) + s.eps));
    }
}

template <class C> struct Lion { C lr, shrink, beta1, keep1, beta2, keep2; };

template <class T, class C> FN void lion(const Table<3>& t, const Lion<C>& s, u32 flags, const Decided& d) {
    if (left_out(d)) return;
    C sign = sign_of<C>(d, flags);
    Piece b = piece_of(t);
    T *param = (T*)t.pointer[0][b.i], *momentum = (T*)t.pointer[1][b.i];
    const T* grad = (const T*)t.pointer[2][b.i];
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) {
        C g = sign * get(grad[k]), m = get(momentum[k]), p = get(param[k]) * s.shrink;
        C direction = s.beta1 * m + s.keep1 * g;
        if (direction > 0) p -= s.lr;
        if (direction < 0) p += s.lr;
        param[k] = put<T>(p);
        momentum[k] = put<T>(s.beta2 * m + s.keep2 * g);
    }
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
    return kind == POWERS ? pow_(size, p) : size;
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

// The part of the norm that each block's piece has.
template <class T> FN void grad_norm(const Table<1>& t, f64* part, u32 kind, f64 p, f64* sh) {
    Piece b = piece_of(t);
    const T* x = (const T*)t.pointer[0][b.i];
    f64 v = 0;
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) v = norm_join(v, norm_term((f64)get(x[k]), kind, p), kind);
    v = norm_of_block(v, kind, sh);
    if (threadIdx.x == 0) part[blockIdx.x] = v;
}

KERNEL grad_norm_join(f64* total, const f64* part, u32 n, u32 kind) {
    GK_SHARED_ARR(f64, sh, [THREADS]);
    f64 v = 0;
    for (u32 k = threadIdx.x; k < n; k += THREADS) v = norm_join(v, part[k], kind);
    v = norm_of_block(v, kind, (f64*)sh);
    if (threadIdx.x == 0) *total = norm_join(*total, v, kind);
}

// Multiplies by most/(norm + 1e-6) where that is less than 1, and where the norm is not finite if unusual is set.
template <class T, class C> FN void clip_norm(const Table<1>& t, const f64* norm, f64 most, u32 unusual) {
    f64 factor = most / (*norm + 1e-6);
    bool usual = finite(*norm);
    if ((usual && factor >= 1) || (!usual && !unusual)) return;
    Piece b = piece_of(t);
    T* x = (T*)t.pointer[0][b.i];
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) x[k] = put<T>(get(x[k]) * (C)factor);
}

template <class T, class C> FN void clip_value(const Table<1>& t, f64 limit) {
    Piece b = piece_of(t);
    T* x = (T*)t.pointer[0][b.i];
    C top = (C)limit;
    for (u64 k = b.lo + threadIdx.x; k < b.hi; k += THREADS) {
        C v = get(x[k]);
        if (v > top) x[k] = put<T>(top);
        else if (v < -top) x[k] = put<T>(-top);
    }
}

// Multiplies gradients by inv, unless that is 1, and sets found to 1 if any element was infinite or NaN before.
template <class T, class C> FN void unscale(const Table<1>& t, const f32* inv, f32* found) {
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE;
    T* grad = (T*)t.pointer[0][i];
    f32 scale = *inv;
    bool bad = false;
    for (u64 k = lo + threadIdx.x; k < n && k < lo + PIECE; k += THREADS) {
        C g = get(grad[k]);
        bad |= !finite(g);
        if (scale != 1.0f) grad[k] = put<T>(g * (C)scale);
    }
    if (bad) *found = 1.0f; // all that write write the same
}

#define OPTIM(T, C)                                                                                                   \
    KERNEL sgd_step_##T(Table<3> t, SGD<C> s, u32 flags, Decided d) { sgd<T>(t, s, flags, d); }       \
    KERNEL adam_step_##T(Table<4> t, Adam<C> s, u32 flags, Decided d) { adam<T>(t, s, flags, d); }    \
    KERNEL amsgrad_step_##T(Table<5> t, Adam<C> s, u32 flags, Decided d) { amsgrad<T>(t, s, flags, d); } \
    KERNEL rmsprop_step_##T(Table<5> t, RMSProp<C> s, u32 flags, Decided d) { rmsprop<T>(t, s, flags, d); } \
    KERNEL adagrad_step_##T(Table<3> t, Adagrad<C> s, u32 flags, Decided d) { adagrad<T>(t, s, flags, d); } \
    KERNEL lion_step_##T(Table<3> t, Lion<C> s, u32 flags, Decided d) { lion<T>(t, s, flags, d); }   \
    KERNEL grad_norm_##T(Table<1> t, f64* part, u32 kind, f64 p) {                                   \
        GK_SHARED_ARR(f64, sh, [THREADS]);                                                           \
        grad_norm<T>(t, part, kind, p, (f64*)sh);                                                    \
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
