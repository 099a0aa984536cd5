// What element-wise kernels do at one place. Each function is a struct with a call operator over the type of computation C;
// s and t are the scalars of the call. The Go loops in kernels/cpu (pointwise.go, activation.go, arithmetic.go) are their
// specification.
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

#define UNARY(NAME, BODY)                                                                                             \
    struct NAME {                                                                                                     \
        template <class C, class S> FN static C of(C a, S s, S t) { BODY }                                            \
    };
#define BINARY(NAME, BODY)                                                                                            \
    struct NAME {                                                                                                     \
        template <class C, class S> FN static C of(C a, C b, S s, S t) { BODY }                                       \
    };
#define TERNARY(NAME, BODY)                                                                                           \
    struct NAME {                                                                                                     \
        template <class C, class S> FN static C of(C a, C b, C c, S s, S t) { BODY }                                  \
    };
#define TEST(NAME, EXPR)                                                                                              \
    struct NAME {                                                                                                     \
        template <class C, class S> FN static u8 of(C a, S, S) { return EXPR; }                                       \
    };
#define COMPARE(NAME, EXPR)                                                                                           \
    struct NAME {                                                                                                     \
        template <class C, class S> FN static u8 of(C a, C b, S s, S t) { return EXPR; }                              \
    };

UNARY(Neg, if constexpr (is_float<C>) return -a; else return minus<C>(0, a); )
UNARY(Abs, return a <= 0 ? minus<C>(0, a) : a; )
UNARY(Sign, return (C)(a > 0) - (C)(a < 0); )
UNARY(ReLU, return a <= 0 ? (C)0 : a; )
UNARY(AddScalar, return plus<C>(a, s); )
UNARY(MulScalar, return times<C>(a, s); )
UNARY(DivScalar, return a / s; )
UNARY(Clamp, return least<C>(most<C>(a, s), t); )
UNARY(Exp, return exp(a); )
UNARY(Log, return log(a); )
UNARY(Sqrt, return sqrt(a); )
UNARY(Rsqrt, return 1 / sqrt(a); )
UNARY(Reciprocal, return 1 / a; )
UNARY(Sin, f64 x; f64 y; sincos((f64)a, x, y); return (C)x; )
UNARY(Cos, f64 x; f64 y; sincos((f64)a, x, y); return (C)y; )
UNARY(Tanh, return tanh(a); )
UNARY(Sigmoid, return sigmoid(a); )
UNARY(SiLU, return silu(a); )
UNARY(LeakyReLU, return a > 0 ? a : a * s; )
// An integer to the power of n, which wraps. Of negative powers only those of 1 and -1 are whole.
template <class C> FN C whole_power(C a, i64 n) {
    if (n < 0) return a == 1 ? a : (C)-1 < 0 && a == (C)-1 ? (n & 1 ? a : (C)1) : (C)0;
    u64 x = (u64)a, r = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) r *= x;
    return (C)r;
}
UNARY(PowScalar, if constexpr (is_float<C>) { if (s == 2) return a * a; return (C)pow((f64)a, s); } else return whole_power<C>(a, s); )
UNARY(Softplus, f64 z = s * (f64)a; return z > t ? a : (C)(log1p(exp(z)) / s); )
UNARY(Log1p, return log1p(a); )
UNARY(Expm1, return expm1(a); )
UNARY(Erf, return erf(a); )
UNARY(ELU, return a > 0 ? a : s * expm1(a); )
UNARY(Floor, return floor(a); )
UNARY(Ceil, return ceil(a); )
UNARY(Round, return rint(a); )
UNARY(Trunc, return trunc(a); )
TEST(Not, a == 0)
TEST(IsNaN, a != a)
TEST(IsInf, !(a - a == 0) && a == a)
TEST(IsFinite, a - a == 0)

// The distribution function of the normal distribution at x, and exp(-x*x/2).
FN f32 normal_cdf(f32 x) { return fma(0.5f, erf(x * 0.70710678f), 0.5f); }
FN f64 normal_cdf(f64 x) { return 0.5 * erfc(-x / 1.4142135623730951); }
UNARY(GELU, return a * normal_cdf(a); )

template <class C> FN constexpr C root_2_pi() { return (C)0.79788456080286535587989211986876; } // sqrt(2/pi)
template <class C> FN constexpr C cubic() { return (C)0.044715; }

// 0.5*(1+tanh(u)) is sigmoid(2*u), which does not cancel for negative u.
template <class C> FN C gelu_argument(C x) { return 2 * root_2_pi<C>() * x * (1 + cubic<C>() * x * x); }
UNARY(GELUTanh, return a * sigmoid(gelu_argument(a)); )

// sigmoid(z), and its derivative without cancellation.
template <class C> FN C sigmoid_slope(C z, C& slope) {
    C e = exp(-abs(z)), s = ratio((C)1, 1 + e);
    slope = e * s * s;
    return z < 0 ? s * e : s;
}

BINARY(ReLUGrad, return b <= 0 ? (C)0 : a; )
BINARY(LeakyReLUGrad, return b > 0 ? a : a * s; )
BINARY(SigmoidGrad, return a * b * (1 - b); )
BINARY(TanhGrad, return a * (1 - b * b); )
BINARY(GELUGrad, return a * (normal_cdf(b) + b * exp((C)-0.5 * b * b) * (C)0.39894228040143267793994605993438); )
BINARY(GELUTanhGrad, C k; C g = sigmoid_slope(gelu_argument(b), k);
       if (k != 0) g += 2 * b * k * root_2_pi<C>() * (1 + 3 * cubic<C>() * b * b); return a * g; )
BINARY(SiLUGrad, C k; C g = sigmoid_slope(b, k); return a * (g + b * k); )
BINARY(SoftplusGrad, f64 z = s * (f64)b; return z > t ? a : (C)((f64)a * sigmoid(z)); )

BINARY(ErfGrad, return a * ((C)1.12837916709551257389615890312155 * exp(-b * b)); ) // 2/sqrt(pi)
BINARY(ELUGrad, return b > 0 ? a : a * (s * exp(b)); )
BINARY(ClampGrad, return b >= s && b <= t ? a : (C)0; )
BINARY(HardtanhGrad, return b <= s || b >= t ? (C)0 : a; )

BINARY(Add, if (s == 1) return plus<C>(a, b); return plus<C>(a, times<C>(s, b)); )
BINARY(Sub, return minus<C>(a, b); )
BINARY(Mul, return times<C>(a, b); )
BINARY(Div_, return a / b; )
BINARY(Pow, if constexpr (is_float<C>) return (C)pow((f64)a, (f64)b); else return whole_power<C>(a, (i64)b); )
// The remainder with the sign of a. Of integers it is 0 where b is 0; -1 divides everything, also where the quotient overflows.
template <class C> FN C fmod(C a, C b) {
    if constexpr (is_float<C>) return long_division(a, b);
    else return b == 0 || ((C)-1 < 0 && b == (C)-1) ? (C)0 : (C)(a % b);
}
BINARY(Fmod, return fmod<C>(a, b); )
BINARY(Remainder, C r = fmod<C>(a, b); return r != 0 && (r < 0) != (b < 0) ? plus<C>(r, b) : r; )
BINARY(Maximum, return most<C>(nan(b) ? b : a, b); )
BINARY(Minimum, return least<C>(nan(b) ? b : a, b); )
BINARY(And, return a & b; )
BINARY(Or, return a | b; )
BINARY(Xor, return a ^ b; )
TERNARY(Lerp, return abs(c) < (C)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c); )
TERNARY(AddCMul, return plus<C>(a, times<C>(times<C>(s, b), c)); )
TERNARY(AddCDiv, return a + s * (b / c); )
COMPARE(Eq, a == b)
COMPARE(Ne, a != b)
COMPARE(Lt, a < b)
COMPARE(Le, a <= b)
COMPARE(Gt, a > b)
COMPARE(Ge, a >= b)
