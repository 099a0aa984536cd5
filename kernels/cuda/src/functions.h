// What functions_gen.h makes the functions of element-wise kernels of, over the type of computation C. Those of package kernels/cpu
// (pointwise.go, activation.go, math.go, blend.go) are their specification.
#pragma once

#include "math.h"

// Wrapping arithmetic of integers.
template <class C> FN C plus(C a, C b) {
    if constexpr (is_float<C>) return a + b;
    else return (C)((u64)a + (u64)b);
}
template <class C> FN C minus(C a, C b) {
    if constexpr (is_float<C>) return a - b;
    else return (C)((u64)a - (u64)b);
}
template <class C> FN C times(C a, C b) {
    if constexpr (is_float<C>) return a * b;
    else return (C)((u64)a * (u64)b);
}
template <class C> FN bool nan(C a) { return a != a; }
template <class C> FN C most(C a, C b) { return nan(a) || a > b ? a : b; }
template <class C> FN C least(C a, C b) { return nan(a) || a < b ? a : b; }

template <class C> FN C negative(C a) {
    if constexpr (is_float<C>) return -a;
    else return minus<C>(0, a);
}
// a + scale*b, and the sum alone of a scale of 1.
template <class C> FN C sum(C a, C b, C scale) {
    if (scale == 1) return plus<C>(a, b);
    return plus<C>(a, times<C>(scale, b));
}
template <class C> FN C greater(C a, C b) { return most<C>(nan(b) ? b : a, b); }
template <class C> FN C lesser(C a, C b) { return least<C>(nan(b) ? b : a, b); }
template <class C> FN C sine(C a) {
    f64 x, y;
    sincos((f64)a, x, y);
    return (C)x;
}
template <class C> FN C cosine(C a) {
    f64 x, y;
    sincos((f64)a, x, y);
    return (C)y;
}
// The bits of an integer, n places to the left or to the right.
template <class C> FN C left_shift(C a, C n) { return (u64)n < 8 * sizeof(C) ? (C)((u64)a << n) : (C)0; }
template <class C> FN C right_shift(C a, C n) { return (u64)n < 8 * sizeof(C) ? (C)(a >> n) : (C)(a < 0 ? -1 : 0); }
// An integer to the power of n, which wraps. Of negative powers only those of 1 and -1 are whole.
template <class C> FN C whole_power(C a, i64 n) {
    if (n < 0) return a == 1 ? a : (C)-1 < 0 && a == (C)-1 ? (n & 1 ? a : (C)1) : (C)0;
    u64 x = (u64)a, r = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) r *= x;
    return (C)r;
}
template <class C> FN C power(C a, C b) {
    if constexpr (is_float<C>) return (C)pow((f64)a, (f64)b);
    else return whole_power<C>(a, (i64)b);
}
template <class C, class S> FN C power_scalar(C a, S p) {
    if constexpr (is_float<C>) {
        if (p == 2) return a * a;
        return (C)pow((f64)a, p);
    } else
        return whole_power<C>(a, p);
}
template <class C> FN C softplus(C a, f64 beta, f64 threshold) {
    f64 z = beta * (f64)a;
    return z > threshold ? a : (C)(log1p(exp(z)) / beta);
}
template <class C> FN C softplus_grad(C g, C a, f64 beta, f64 threshold) {
    f64 z = beta * (f64)a;
    return z > threshold ? g : (C)((f64)g * sigmoid(z));
}

// The distribution function of the normal distribution at x, and exp(-x*x/2).
FN f32 normal_cdf(f32 x) { return fma(0.5f, erf(x * 0.70710678f), 0.5f); }
FN f64 normal_cdf(f64 x) { return 0.5 * erfc(-x / 1.4142135623730951); }
// The derivative of GELU, 0 and 1 at infinities.
template <class C> FN C gelu_slope(C a) {
    C density = exp((C)-0.5 * a * a) * (C)0.39894228040143267793994605993438;
    return normal_cdf(a) + (density != 0 ? a * density : (C)0);
}

template <class C> FN constexpr C root_2_pi() { return (C)0.79788456080286535587989211986876; } // sqrt(2/pi)
template <class C> FN constexpr C cubic() { return (C)0.044715; }

// 0.5*(1+tanh(u)) is sigmoid(2*u), which does not cancel for negative u.
template <class C> FN C gelu_argument(C x) { return 2 * root_2_pi<C>() * x * (1 + cubic<C>() * x * x); }

// sigmoid(z), and its derivative without cancellation.
template <class C> FN C sigmoid_slope(C z, C& slope) {
    C e = exp(-abs(z)), s = ratio((C)1, 1 + e);
    slope = e * s * s;
    return z < 0 ? s * e : s;
}

// The derivatives of GELUTanh and SiLU.
template <class C> FN C gelu_tanh_slope(C a) {
    C k;
    C g = sigmoid_slope(gelu_argument(a), k);
    if (k != 0) g += 2 * a * k * root_2_pi<C>() * (1 + 3 * cubic<C>() * a * a);
    return g;
}
template <class C> FN C silu_slope(C a) {
    C k;
    C g = sigmoid_slope(a, k);
    return g + a * k;
}

// The remainder with the sign of a. Of integers it is 0 where b is 0; -1 divides everything, also where the quotient overflows.
template <class C> FN C fmod(C a, C b) {
    if constexpr (is_float<C>) return long_division(a, b);
    else return b == 0 || ((C)-1 < 0 && b == (C)-1) ? (C)0 : (C)(a % b);
}
template <class C> FN C remainder(C a, C b) {
    C r = fmod<C>(a, b);
    return r != 0 && (r < 0) != (b < 0) ? plus<C>(r, b) : r;
}
// The quotient rounded down, from the remainder, which is exact: a/b itself may be rounded up to an integer.
template <class C> FN C floor_divide(C a, C b) {
    if constexpr (is_float<C>) {
        if (b == 0) return a / b;
        C r = fmod<C>(a, b), q = (a - r) / b;
        if (r != 0 && (r < 0) != (b < 0)) q -= 1;
        if (q == 0) return a / b < 0 ? -(C)0 : (C)0;
        C down = floor(q);
        return q - down > (C)0.5 ? down + 1 : down;
    } else {
        if (b == 0) return 0;
        if ((C)-1 < 0 && b == (C)-1) return minus<C>(0, a);
        return (C)(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
    }
}

// log(a/(1-a)) of a between eps and 1-eps, which are rounded to C, and its derivative; without bounds if eps is negative.
template <class C> FN C logit(C a, f64 eps) {
    f64 p = a;
    if (eps >= 0) p = least<f64>(most<f64>(p, (C)eps), (C)1 - (C)eps);
    return (C)log(p / (1 - p));
}
template <class C> FN C logit_grad(C g, C a, f64 eps) {
    f64 p = a;
    if (eps < 0 && (p < 0 || p > 1)) return (C)__builtin_nan("");
    if (eps >= 0 && (p < (C)eps || p > (C)1 - (C)eps)) return 0;
    return (C)((f64)g / (p * (1 - p)));
}

template <class C> FN C xlogy(C a, C b) { return nan(b) ? b : a == 0 ? (C)0 : a * log(b); }
template <class C> FN C xlogy_grad(C g, C a, C b) { return a == 0 && b <= 0 ? (C)0 : xlogy(g, b); }
