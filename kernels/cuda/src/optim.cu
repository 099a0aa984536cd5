// The optimizers and the kernels of a gradient scaler: many tensors in one launch. A table of tensors goes into the kernel's
// parameters; each block finds the tensor and the piece of it that is its own. kernels/cpu (optimize.go, amp.go) is the
// specification.
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

enum { FIRST = 1, MAXIMIZE = 2, NESTEROV = 4 };

template <class C> struct SGD { C lr, momentum, decay, keep; };

template <class T, class C> FN void sgd(const Table<3>& t, const SGD<C>& s, u32 flags) {
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE;
    T *param = (T*)t.pointer[0][i], *buffer = (T*)t.pointer[1][i];
    const T* grad = (const T*)t.pointer[2][i];
    for (u64 k = lo + threadIdx.x; k < n && k < lo + PIECE; k += THREADS) {
        C g = get(grad[k]), p = get(param[k]);
        if (flags & MAXIMIZE) g = -g;
        if (s.decay != 0) g += s.decay * p;
        if (s.momentum != 0) {
            C m = g;
            if (!(flags & FIRST)) m = s.momentum * get(buffer[k]) + s.keep * g;
            buffer[k] = put<T>(m);
            g = flags & NESTEROV ? g + s.momentum * m : m;
        }
        param[k] = put<T>(p - s.lr * g);
    }
}

template <class C> struct Adam { C size, root, shrink, decay, beta1, keep1, beta2, keep2, eps; };

template <class T, class C> FN void adam(const Table<4>& t, const Adam<C>& s, u32 flags) {
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE;
    T *param = (T*)t.pointer[0][i], *first = (T*)t.pointer[1][i], *second = (T*)t.pointer[2][i];
    const T* grad = (const T*)t.pointer[3][i];
    for (u64 k = lo + threadIdx.x; k < n && k < lo + PIECE; k += THREADS) {
        C g = get(grad[k]), p = get(param[k]) * s.shrink;
        if (flags & MAXIMIZE) g = -g;
        if (s.decay != 0) g += s.decay * p;
        C m = s.beta1 * get(first[k]) + s.keep1 * g;
        C v = s.beta2 * get(second[k]) + s.keep2 * g * g;
        first[k] = put<T>(m);
        second[k] = put<T>(v);
        param[k] = put<T>(p - s.size * m / (root(v) / s.root + s.eps));
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
    KERNEL sgd_step_##T(Table<3> t, SGD<C> s, u32 flags) { sgd<T>(t, s, flags); }                     \
    KERNEL adam_step_##T(Table<4> t, Adam<C> s, u32 flags) { adam<T>(t, s, flags); }                  \
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
