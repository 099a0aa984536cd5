// The losses of elements and their gradients, one element of each operand for each thread at a time. The Go functions in
// kernels/cpu/loss.go are the specification.
#include "math.h"

// The scalars of a call, in double, and as they are computed with.
template <class C> struct Scalars { C s, t; };

// log(1+v) for v > -1: the logarithm of the rounded sum, corrected by what was rounded away.
template <class C> FN C log1p_of(C v) {
    C u = 1 + v;
    return u == 1 ? v : u - 1 == v ? log(u) : log(u) * (v / (u - 1));
}
template <class C> FN C at_least(C v, C low) { return v < low ? low : v; }

#define LOSS(NAME, BODY)                                                                                              \
    struct NAME {                                                                                                     \
        template <class C> FN static C of(C x, C y, const Scalars<C>& p) { BODY }                                     \
    };

LOSS(SquaredError, C d = x - y; return d * d; )
LOSS(SmoothL1, C d = abs(x - y); return d < p.s ? p.t * d * d / (2 * p.s) : p.t * (d - p.s / 2); )
LOSS(BCE, return -(y * at_least<C>(log(x), -100) + (1 - y) * at_least<C>(log1p_of(-x), -100)); )
LOSS(BCELogits, C low = x < 0 ? -x : (x != x ? x : (C)0); return low + log1p_of(exp(-abs(x))) + (1 - y) * x; )
LOSS(KLDiv, if (p.s != 0) return exp(y) * (y - x); return y == 0 ? (C)0 : y * (log(y) - x); )

LOSS(SquaredErrorGrad, return 2 * (x - y); )
LOSS(SmoothL1Grad, C d = x - y; if (abs(d) < p.s) return p.t * d / p.s; return d > 0 ? p.t : d < 0 ? -p.t : p.s < 0 ? (C)0 : d; )
LOSS(BCEGrad, return (x - y) / at_least<C>((1 - x) * x, (C)1e-12f); )
LOSS(BCELogitsGrad, return sigmoid(x) - y; )
LOSS(KLDivGrad, return p.s != 0 ? -exp(y) : -y; )

constexpr u32 STEPS = 4; // elements of a thread

// The operands of w are the output and the inputs; an operation of two inputs has the second one twice. Straight calls, whose
// operands all lie as the output does, need no walk.
template <class F, bool GRAD, class T, class C>
FN void losses(const Walk<4>& w, u32 straight, const Scalars<C>& p, T* dst, const T* a, const T* b, const T* c) {
#pragma unroll
    for (u32 e = 0; e < STEPS; e++) {
        u32 i = (blockIdx.x * STEPS + e) * THREADS + threadIdx.x;
        if (i >= w.total) return;
        i64 at[4] = {i, i, i, i};
        if (!straight) seek<4>(w, i, at);
        if constexpr (GRAD) dst[at[0]] = put<T>((C)get(a[at[1]]) * F::of((C)get(b[at[2]]), (C)get(c[at[3]]), p));
        else dst[at[0]] = put<T>(F::of((C)get(a[at[1]]), (C)get(b[at[2]]), p));
    }
}

#define LOSSES(NAME, F, GRAD, T)                                                                                      \
    KERNEL NAME##_##T(Walk<4> w, u32 straight, Scalars<Compute<T>> p, T* dst, const T* a, const T* b, const T* c) {   \
        losses<F, GRAD, T, Compute<T>>(w, straight, p, dst, a, b, c);                                                 \
    }

#define PAIR(NAME, F, T) LOSSES(NAME, F, false, T) LOSSES(NAME##_backward, F##Grad, true, T)

#define ALL(T)                                                                                                        \
    PAIR(squared_error, SquaredError, T)                                                                              \
    PAIR(smooth_l1, SmoothL1, T)                                                                                      \
    PAIR(bce, BCE, T)                                                                                                 \
    PAIR(bce_logits, BCELogits, T)                                                                                    \
    PAIR(kl_div, KLDiv, T)

ALL(f32)
ALL(f64)
ALL(f16)
ALL(bf16)
