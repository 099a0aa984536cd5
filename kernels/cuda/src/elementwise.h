// The element-wise kernels: two for each function and type. name_v takes contiguous output and inputs that are contiguous,
// one row or one column for all, or one element, with 16-byte accesses for the widest operand; name_s takes anything, by a
// walk over strides. Nothing is materialised for a broadcast. The output may be an input: a thread reads what it needs
// before it writes, and only to the places that it read.
#pragma once

#include "functions.h"

// Elements that a thread of a strided kernel computes, THREADS apart.
constexpr u32 STEPS = 4;

template <class F, class D, class A, class S>
FN void map1_v(u32 n, D* dst, const A* a, const Lane& la, S s, S t) {
    constexpr int V = 16 / larger(sizeof(D), sizeof(A));
    u32 i = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (i + V <= n) {
        vec<A, V> x = gather<V>(a, la, i);
        vec<D, V> r;
#pragma unroll
        for (int k = 0; k < V; k++) r.v[k] = put<D>(F::template of<Compute<A>, S>(get(x.v[k]), s, t));
        store<D, V>(dst + i, r);
        return;
    }
    for (; i < n; i++) dst[i] = put<D>(F::template of<Compute<A>, S>(get(element(a, la, i)), s, t));
}

template <class F, class D, class A, class S>
FN void map1_s(const Walk<2>& w, D* dst, const A* a, S s, S t) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[2];
        seek<2>(w, i, at);
        dst[at[0]] = put<D>(F::template of<Compute<A>, S>(get(a[at[1]]), s, t));
    }
}

template <class F, class D, class A, class S>
FN void map2_v(u32 n, D* dst, const A* a, const A* b, const Lane& la, const Lane& lb, S s, S t) {
    constexpr int V = 16 / larger(sizeof(D), sizeof(A));
    u32 i = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (i + V <= n) {
        vec<A, V> x = gather<V>(a, la, i), y = gather<V>(b, lb, i);
        vec<D, V> r;
#pragma unroll
        for (int k = 0; k < V; k++) r.v[k] = put<D>(F::template of<Compute<A>, S>(get(x.v[k]), get(y.v[k]), s, t));
        store<D, V>(dst + i, r);
        return;
    }
    for (; i < n; i++) dst[i] = put<D>(F::template of<Compute<A>, S>(get(element(a, la, i)), get(element(b, lb, i)), s, t));
}

template <class F, class D, class A, class S>
FN void map2_s(const Walk<3>& w, D* dst, const A* a, const A* b, S s, S t) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[3];
        seek<3>(w, i, at);
        dst[at[0]] = put<D>(F::template of<Compute<A>, S>(get(a[at[1]]), get(b[at[2]]), s, t));
    }
}

template <class F, class T, class S>
FN void map3_v(u32 n, T* dst, const T* a, const T* b, const T* c, const Lane& la, const Lane& lb, const Lane& lc, S s, S t) {
    constexpr int V = 16 / sizeof(T);
    u32 i = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (i + V <= n) {
        vec<T, V> x = gather<V>(a, la, i), y = gather<V>(b, lb, i), z = gather<V>(c, lc, i), r;
#pragma unroll
        for (int k = 0; k < V; k++) r.v[k] = put<T>(F::template of<Compute<T>, S>(get(x.v[k]), get(y.v[k]), get(z.v[k]), s, t));
        store<T, V>(dst + i, r);
        return;
    }
    for (; i < n; i++)
        dst[i] = put<T>(F::template of<Compute<T>, S>(get(element(a, la, i)), get(element(b, lb, i)), get(element(c, lc, i)), s, t));
}

template <class F, class T, class S>
FN void map3_s(const Walk<4>& w, T* dst, const T* a, const T* b, const T* c, S s, S t) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[4];
        seek<4>(w, i, at);
        dst[at[0]] = put<T>(F::template of<Compute<T>, S>(get(a[at[1]]), get(b[at[2]]), get(c[at[3]]), s, t));
    }
}

#define MAP1(NAME, F, D, A, S)                                                                                        \
    KERNEL NAME##_v(u32 n, D* dst, const A* a, Lane la, S s, S t) { map1_v<F>(n, dst, a, la, s, t); } \
    KERNEL NAME##_s(Walk<2> w, D* dst, const A* a, S s, S t) { map1_s<F>(w, dst, a, s, t); }

#define MAP2(NAME, F, D, A, S)                                                                                        \
    KERNEL NAME##_v(u32 n, D* dst, const A* a, const A* b, Lane la, Lane lb, S s, S t) {             \
        map2_v<F>(n, dst, a, b, la, lb, s, t);                                                                        \
    }                                                                                                                 \
    KERNEL NAME##_s(Walk<3> w, D* dst, const A* a, const A* b, S s, S t) { map2_s<F>(w, dst, a, b, s, t); }

#define MAP3(NAME, F, T, S)                                                                                           \
    KERNEL NAME##_v(u32 n, T* dst, const T* a, const T* b, const T* c, Lane la, Lane lb, Lane lc, S s, S t) {         \
        map3_v<F>(n, dst, a, b, c, la, lb, lc, s, t);                                                                 \
    }                                                                                                                 \
    KERNEL NAME##_s(Walk<4> w, T* dst, const T* a, const T* b, const T* c, S s, S t) { map3_s<F>(w, dst, a, b, c, s, t); }

// The operations of a type, by the classes of types for which they are defined; T is its suffix and type, C of computation.
#define MAPS_ANY(T, C)                                                                                                \
    MAP1(logical_not_##T, Not, b8, T, C)                                                                              \
    MAP2(eq_##T, Eq, b8, T, C)                                                                                        \
    MAP2(ne_##T, Ne, b8, T, C)                                                                                        \
    MAP2(lt_##T, Lt, b8, T, C)                                                                                        \
    MAP2(le_##T, Le, b8, T, C)                                                                                        \
    MAP2(gt_##T, Gt, b8, T, C)                                                                                        \
    MAP2(ge_##T, Ge, b8, T, C)

#define MAPS_NUMBER(T, C)                                                                                             \
    MAP1(neg_##T, Neg, T, T, C)                                                                                       \
    MAP1(abs_##T, Abs, T, T, C)                                                                                       \
    MAP1(sign_##T, Sign, T, T, C)                                                                                     \
    MAP1(relu_##T, ReLU, T, T, C)                                                                                     \
    MAP1(add_scalar_##T, AddScalar, T, T, C)                                                                          \
    MAP1(mul_scalar_##T, MulScalar, T, T, C)                                                                          \
    MAP1(clamp_##T, Clamp, T, T, C)                                                                                   \
    MAP2(add_##T, Add, T, T, C)                                                                                       \
    MAP2(sub_##T, Sub, T, T, C)                                                                                       \
    MAP2(mul_##T, Mul, T, T, C)                                                                                       \
    MAP2(maximum_##T, Maximum, T, T, C)                                                                               \
    MAP2(minimum_##T, Minimum, T, T, C)                                                                               \
    MAP2(fmod_##T, Fmod, T, T, C)                                                                                     \
    MAP2(remainder_##T, Remainder, T, T, C)                                                                           \
    MAP3(addcmul_##T, AddCMul, T, C)

#define MAPS_FLOAT(T, C)                                                                                              \
    MAP1(exp_##T, Exp, T, T, C)                                                                                       \
    MAP1(log_##T, Log, T, T, C)                                                                                       \
    MAP1(sqrt_##T, Sqrt, T, T, C)                                                                                     \
    MAP1(rsqrt_##T, Rsqrt, T, T, C)                                                                                   \
    MAP1(reciprocal_##T, Reciprocal, T, T, C)                                                                         \
    MAP1(sin_##T, Sin, T, T, C)                                                                                       \
    MAP1(cos_##T, Cos, T, T, C)                                                                                       \
    MAP1(tanh_##T, Tanh, T, T, C)                                                                                     \
    MAP1(sigmoid_##T, Sigmoid, T, T, C)                                                                               \
    MAP1(leaky_relu_##T, LeakyReLU, T, T, C)                                                                          \
    MAP1(gelu_##T, GELU, T, T, C)                                                                                     \
    MAP1(gelu_tanh_##T, GELUTanh, T, T, C)                                                                            \
    MAP1(silu_##T, SiLU, T, T, C)                                                                                     \
    MAP1(softplus_##T, Softplus, T, T, f64)                                                                           \
    MAP1(pow_scalar_##T, PowScalar, T, T, f64)                                                                        \
    MAP2(relu_backward_##T, ReLUGrad, T, T, C)                                                                        \
    MAP2(leaky_relu_backward_##T, LeakyReLUGrad, T, T, C)                                                             \
    MAP2(sigmoid_backward_##T, SigmoidGrad, T, T, C)                                                                  \
    MAP2(tanh_backward_##T, TanhGrad, T, T, C)                                                                        \
    MAP2(gelu_backward_##T, GELUGrad, T, T, C)                                                                        \
    MAP2(gelu_tanh_backward_##T, GELUTanhGrad, T, T, C)                                                               \
    MAP2(silu_backward_##T, SiLUGrad, T, T, C)                                                                        \
    MAP2(softplus_backward_##T, SoftplusGrad, T, T, f64)                                                              \
    MAP1(log1p_##T, Log1p, T, T, C)                                                                                   \
    MAP1(expm1_##T, Expm1, T, T, C)                                                                                   \
    MAP1(erf_##T, Erf, T, T, C)                                                                                       \
    MAP1(elu_##T, ELU, T, T, C)                                                                                       \
    MAP1(floor_##T, Floor, T, T, C)                                                                                   \
    MAP1(ceil_##T, Ceil, T, T, C)                                                                                     \
    MAP1(round_##T, Round, T, T, C)                                                                                   \
    MAP1(trunc_##T, Trunc, T, T, C)                                                                                   \
    MAP1(isnan_##T, IsNaN, b8, T, C)                                                                                  \
    MAP1(isinf_##T, IsInf, b8, T, C)                                                                                  \
    MAP1(isfinite_##T, IsFinite, b8, T, C)                                                                            \
    MAP2(erf_backward_##T, ErfGrad, T, T, C)                                                                          \
    MAP2(elu_backward_##T, ELUGrad, T, T, C)                                                                          \
    MAP2(clamp_backward_##T, ClampGrad, T, T, C)                                                                      \
    MAP2(hardtanh_backward_##T, HardtanhGrad, T, T, C)                                                                \
    MAP3(lerp_##T, Lerp, T, C)                                                                                        \
    MAP3(addcdiv_##T, AddCDiv, T, C)                                                                                  \
    MAP2(div_##T, Div_, T, T, C)                                                                                      \
    MAP2(pow_##T, Pow, T, T, C)
