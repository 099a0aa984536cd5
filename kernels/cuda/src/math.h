// Elementary functions. Single-precision ones are polynomials in float, for operations that memory bandwidth should limit;
// errors are in ulps, measured by math_test.go. Double-precision ones serve float64 and the few operations on narrower
// types whose speed does not matter. Sources: the polynomials for float are Norbert Juffa's; those for double are FreeBSD's
// msun (exp, log, erf, sin, cos) and Cephes (tanh).
#pragma once

#include "base.h"

FN f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
FN f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
FN f32 sqrt(f32 v) { return __builtin_sqrtf(v); }
FN f64 sqrt(f64 v) { return __builtin_sqrt(v); }
FN f32 abs(f32 v) { return float_of(bits_of(v) & 0x7fffffff); }
FN f64 abs(f64 v) { return double_of(bits_of(v) & 0x7fffffffffffffff); }
FN f32 copysign(f32 v, f32 s) { return float_of((bits_of(v) & 0x7fffffff) | (bits_of(s) & 0x80000000)); }

// ---- float ------------------------------------------------------------------------------------------------------------

// Nothing below branches on its argument: the elements of a vector go their way side by side.

// v, or the bound if v is beyond it; NaN stays.
FN f32 at_least(f32 v, f32 lo) {
#if defined(__CUDA_ARCH__)
    return __nvvm_fmax_nan_f(v, lo);
#else
    return v < lo ? lo : v;
#endif
}
FN f32 at_most(f32 v, f32 hi) {
#if defined(__CUDA_ARCH__)
    return __nvvm_fmin_nan_f(v, hi);
#else
    return v > hi ? hi : v;
#endif
}

// 1/d for d between 1 and 2^100: within 1 ulp.
FN f32 inverse(f32 d) {
#if defined(__CUDA_ARCH__)
    return __nvvm_rcp_approx_ftz_f(d);
#else
    return 1.0f / d;
#endif
}

// n/d for such d and finite n: within 1 ulp.
FN f32 ratio(f32 n, f32 d) {
    f32 r = inverse(d), q = n * r;
    return fma(r, fma(-d, q, n), q);
}
FN f64 ratio(f64 n, f64 d) { return n / d; }

// exp(v) = p * 2^j, for v between -150 and 90: p, and the bits of j on those of a large number. v = j*log(2) + f.
FN f32 exp_parts(f32 v, u32& j) {
    const f32 shift = 12582912.0f; // 1.5 * 2^23: the low bits of the sum are the integer
    f32 sum = fma(1.442695f, v, shift);
    f32 k = sum - shift;
    f32 f = fma(k, -6.93145752e-1f, v);
    f = fma(k, -1.42860677e-6f, f);
    f32 p = 1.37805939e-3f;
    p = fma(p, f, 8.37312452e-3f);
    p = fma(p, f, 4.16695364e-2f);
    p = fma(p, f, 1.66664720e-1f);
    p = fma(p, f, 4.99999851e-1f);
    p = fma(p, f, 1.0f);
    p = fma(p, f, 1.0f);
    j = bits_of(sum);
    return p;
}

// 2^j for j as exp_parts gives it, or half of it: shifts leave nothing of the large number.
FN f32 power(u32 j) { return float_of(0x3f800000 + (j << 23)); }

// exp(v) as a product of which the first factor is not denormal.
FN f32 exp_factors(f32 v, f32& scale) {
    u32 j;
    f32 p = exp_parts(v, j);
    scale = power(j - (j >> 1));
    return p * power(j >> 1);
}

// exp(v): within 1 ulp. The power of 2 is applied in two steps, so that denormal results are rounded once.
FN f32 exp(f32 v) {
    f32 scale, p = exp_factors(at_least(at_most(v, 90.0f), -105.0f), scale);
    return p * scale;
}

// exp(v) for v between -80 and 80.
FN f32 exp_normal(f32 v) {
    u32 j;
    f32 p = exp_parts(v, j);
    return p * power(j);
}

// 2^v by the instruction that the hardware has: within 2^-22 of the result, which is 0 where it would be denormal.
FN f32 exp2_fast(f32 v) {
#if defined(__CUDA_ARCH__)
    return __nvvm_ex2_approx_ftz_f(v);
#else
    if (v != v) return v;
    if (v < -126.0f) return 0.0f;
    if (v >= 128.0f) return __builtin_inff();
    f32 j = __builtin_floorf(v);
    return exp_normal((v - j) * 0.693147182f) * float_of((u32)((i32)j + 127) << 23);
#endif
}

// The larger of the two; what is not a number counts for nothing.
FN f32 larger_of(f32 a, f32 b) {
#if defined(__CUDA_ARCH__)
    return __nvvm_fmax_f(a, b);
#else
    return b > a || a != a ? b : a;
#endif
}

// log(v): within 1 ulp.
FN f32 log(f32 a) {
    if (a != a || a == __builtin_inff()) return a;
    if (a <= 0.0f) return a == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    f32 i = 0.0f;
    if (a < 1.17549435e-38f) {
        a *= 8388608.0f;
        i = -23.0f;
    }
    i32 e = (i32)((bits_of(a) - 0x3f2aaaab) & 0xff800000);
    f32 m = float_of(bits_of(a) - (u32)e);
    i = fma((f32)e, 1.19209290e-7f, i);
    f32 f = m - 1.0f, s = f * f;
    f32 r = fma(-0.130310059f, f, 0.140869141f), t = fma(-0.121483326f, f, 0.139814854f);
    r = fma(r, s, t);
    r = fma(r, f, -0.166846052f);
    r = fma(r, f, 0.200120345f);
    r = fma(r, f, -0.249996200f);
    r = fma(r, f, 0.333331972f);
    r = fma(r, f, -0.500000000f);
    r = fma(r, s, f);
    return fma(i, 0.693147182f, r);
}

// 1/(1+exp(-v)), relative to its own size on both sides.
FN f32 sigmoid(f32 v) {
    f32 scale, p = exp_factors(at_least(-abs(v), -105.0f), scale), e = p * scale;
    return ratio(v < 0.0f ? e : 1.0f, 1.0f + e);
}

// v*sigmoid(v). Far below 0 the exponential is denormal while the product is not: it is scaled last. What the product's rounding
// takes is put back with the quotient's.
FN f32 silu(f32 v) {
    f32 scale, t = -abs(v), p = exp_factors(at_least(t, -120.0f), scale), d = fma(p, scale, 1.0f);
    f32 factor = v < 0.0f ? p : 1.0f, n = v * factor, r = inverse(d), q = n * r;
    q = fma(r, fma(-d, q, n) + fma(v, factor, -n), q) * (v < 0.0f ? scale : 1.0f);
    if (t < -120.0f) q = v < 0.0f ? v * 0.0f : v;
    return q;
}

FN f32 tanh(f32 v) {
    f32 t = abs(v), s = v * v;
    f32 large = 1.0f - ratio(2.0f, exp_normal(at_most(2.0f * t, 20.0f)) + 1.0f);
    f32 r = 1.57394409e-2f;
    r = fma(r, s, -5.23025580e-2f);
    r = fma(r, s, 1.33152470e-1f);
    r = fma(r, s, -3.33327681e-1f);
    r = fma(r * s, v, v);
    return t >= 0.55f ? copysign(large, v) : r;
}

FN f32 erf(f32 v) {
    f32 t = at_most(abs(v), 4.0f), s = t * t; // beyond 4 the result is 1
    f32 r = fma(-1.72853470e-5f, t, 3.83197126e-4f);
    f32 u = fma(-3.88396438e-3f, t, 2.42546219e-2f);
    r = fma(r, s, u);
    r = fma(r, t, -1.06777877e-1f);
    r = fma(r, t, -6.34846687e-1f);
    r = fma(r, t, -1.28717512e-1f);
    f32 large = 1.0f - exp_normal(fma(r, t, -t));
    r = -5.96761703e-4f;
    r = fma(r, s, 4.99119423e-3f);
    r = fma(r, s, -2.67681349e-2f);
    r = fma(r, s, 1.12819925e-1f);
    r = fma(r, s, -3.76125336e-1f);
    r = fma(r, s, 1.28379166e-1f);
    r = fma(r, v, v);
    return t > 0.927734375f ? copysign(large, v) : r;
}

// exp(v) - 1 = 2^j * (exp(f) - 1) + (2^j - 1) with |f| <= log(2)/2; the series of exp(f) - 1 leaves out less than 2^-26 of it.
FN f32 expm1(f32 v) {
    if (v > 80.0f) return exp(v);
    if (v < -20.0f) return -1.0f;
    f32 j = __builtin_rintf(1.442695f * v);
    f32 f = fma(j, -6.93145752e-1f, v);
    f = fma(j, -1.42860677e-6f, f);
    f32 p = 1.98412698e-4f; // 1/7!
    p = fma(p, f, 1.38888889e-3f);
    p = fma(p, f, 8.33333333e-3f);
    p = fma(p, f, 4.16666667e-2f);
    p = fma(p, f, 1.66666667e-1f);
    p = fma(p, f, 0.5f);
    p = fma(p * f, f, f);
    if (v != v) return v;
    f32 power = float_of((u32)(127 + (i32)j) << 23);
    return fma(power, p, power - 1.0f);
}

// log(1+v): the logarithm of the rounded sum, and what the rounding took.
FN f32 log1p(f32 v) {
    f32 u = 1.0f + v;
    if (!(u > 0.0f && u < __builtin_inff())) return log(u);
    return log(u) + (v - (u - 1.0f)) / u;
}

FN f32 floor(f32 v) { return __builtin_floorf(v); }
FN f64 floor(f64 v) { return __builtin_floor(v); }
FN f32 ceil(f32 v) { return __builtin_ceilf(v); }
FN f64 ceil(f64 v) { return __builtin_ceil(v); }
FN f32 trunc(f32 v) { return __builtin_truncf(v); }
FN f64 trunc(f64 v) { return __builtin_trunc(v); }
FN f32 rint(f32 v) { return __builtin_rintf(v); } // halves to the even neighbour
FN f64 rint(f64 v) { return __builtin_rint(v); }

FN u32 zeros_before(u32 v) { return (u32)__clz((i32)v); }
FN u32 zeros_before(u64 v) { return v >> 32 ? zeros_before((u32)(v >> 32)) : 32 + zeros_before((u32)v); }
FN f32 same_bits(u32 b) { return float_of(b); }
FN f64 same_bits(u64 b) { return double_of(b); }

// The remainder of a/b with the sign of a, exact: a long division of the mantissas, a bit at a time. M is the explicit bits of
// a mantissa.
template <int M, class F, class U> FN F divide_long(F a, F b, U ua, U ub) {
    constexpr U top = (U)1 << (8 * sizeof(U) - 1), hidden = (U)1 << M, infinity = (top - 1) & ~(hidden - 1);
    U sign = ua & top;
    ua &= top - 1;
    ub &= top - 1;
    if (ub == 0 || ua >= infinity || ub > infinity) return (a * b) / (a * b); // NaN
    if (ua < ub) return a;
    i32 ea = (i32)(ua >> M), eb = (i32)(ub >> M);
    U ma = ua & (hidden - 1), mb = ub & (hidden - 1);
    if (ea) ma |= hidden; else ea = 1;
    if (eb) mb |= hidden; else eb = 1;
    u32 shift = zeros_before(ma) - (u32)(8 * sizeof(U) - 1 - M); // of denormal numbers
    ma <<= shift;
    ea -= (i32)shift;
    shift = zeros_before(mb) - (u32)(8 * sizeof(U) - 1 - M);
    mb <<= shift;
    eb -= (i32)shift;
    for (i32 k = ea - eb; k > 0; k--) {
        if (ma >= mb) ma -= mb;
        ma <<= 1;
    }
    if (ma >= mb) ma -= mb;
    if (ma == 0) return same_bits(sign);
    shift = zeros_before(ma) - (u32)(8 * sizeof(U) - 1 - M);
    ma <<= shift;
    eb -= (i32)shift;
    if (eb < 1) ma >>= 1 - eb; // exact: the remainder is a multiple of what the operands are multiples of
    else ma = (ma & (hidden - 1)) | (U)eb << M;
    return same_bits(sign | ma);
}
FN f32 long_division(f32 a, f32 b) { return divide_long<23>(a, b, bits_of(a), bits_of(b)); }
FN f64 long_division(f64 a, f64 b) { return divide_long<52>(a, b, bits_of(a), bits_of(b)); }

// ---- double -----------------------------------------------------------------------------------------------------------

// exp(v + rest), for a small rest.
FN f64 exp(f64 v, f64 rest) {
    if (v != v) return v;
    if (v > 709.8) return __builtin_inf();
    if (v < -746.0) return 0.0;
    const f64 shift = 6755399441055744.0; // 1.5 * 2^52
    f64 sum = fma(1.4426950408889634, v, shift);
    f64 j = sum - shift;
    f64 hi = fma(j, -6.93147180369123816490e-01, v), lo = fma(j, 1.90821492927058770002e-10, -rest);
    f64 r = hi - lo, t = r * r;
    f64 c = r - t * (1.66666666666666657415e-01 + t * (-2.77777777770155933842e-03 + t * (6.61375632143793436117e-05 +
            t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
    f64 y = 1.0 - ((lo - (r * c) / (2.0 - c)) - hi);
    i64 k = (i64)bits_of(sum) - (i64)bits_of(shift), half = k >> 1;
    return y * double_of((u64)(1023 + half) << 52) * double_of((u64)(1023 + k - half) << 52);
}
FN f64 exp(f64 v) { return exp(v, 0.0); }

// v = m * 2^e with m in [sqrt(1/2), sqrt(2)), for positive finite v.
FN f64 mantissa(f64 v, f64& e) {
    i64 extra = 0;
    if (v < 2.2250738585072014e-308) {
        v *= 18014398509481984.0;
        extra = -54;
    }
    i64 k = (i64)((bits_of(v) - 0x3fe6a09e667f3bcd) & 0xfff0000000000000);
    e = (f64)((k >> 52) + extra);
    return double_of(bits_of(v) - (u64)k);
}

FN f64 log(f64 v) {
    if (v != v || v == __builtin_inf()) return v;
    if (v <= 0.0) return v == 0.0 ? -__builtin_inf() : __builtin_nan("");
    f64 k;
    f64 f = mantissa(v, k) - 1.0;
    f64 s = f / (2.0 + f), s2 = s * s, s4 = s2 * s2;
    f64 t1 = s2 * (6.666666666666735130e-01 + s4 * (2.857142874366239149e-01 + s4 * (1.818357216161805012e-01 + s4 * 1.479819860511658591e-01)));
    f64 t2 = s4 * (3.999999999940941908e-01 + s4 * (2.222219843214978396e-01 + s4 * 1.531383769920937332e-01));
    f64 r = t1 + t2, square = 0.5 * f * f;
    return k * 6.93147180369123816490e-01 - ((square - (s * (square + r) + k * 1.90821492927058770002e-10)) - f);
}

// log(1+v), as the one of float.
FN f64 log1p(f64 v) {
    f64 u = 1.0 + v;
    if (!(u > 0.0 && u < __builtin_inf())) return log(u);
    return log(u) - ((u - 1.0) - v) / u;
}

// exp(v) - 1, as the one of float, with the series to f^14/14!.
FN f64 expm1(f64 v) {
    if (v > 600.0) return exp(v);
    if (v < -40.0) return -1.0;
    f64 j = __builtin_rint(1.4426950408889634 * v);
    f64 f = fma(j, -6.93147180369123816490e-01, v);
    f = fma(j, -1.90821492927058770002e-10, f);
    f64 p = 1.1470745597729725e-11;
    p = fma(p, f, 1.6059043836821613e-10);
    p = fma(p, f, 2.0876756987868099e-09);
    p = fma(p, f, 2.5052108385441720e-08);
    p = fma(p, f, 2.7557319223985888e-07);
    p = fma(p, f, 2.7557319223985893e-06);
    p = fma(p, f, 2.4801587301587302e-05);
    p = fma(p, f, 1.9841269841269841e-04);
    p = fma(p, f, 1.3888888888888889e-03);
    p = fma(p, f, 8.3333333333333332e-03);
    p = fma(p, f, 4.1666666666666664e-02);
    p = fma(p, f, 1.6666666666666666e-01);
    p = fma(p, f, 0.5);
    p = fma(p * f, f, f);
    if (v != v) return v;
    f64 power = double_of((u64)(1023 + (i64)j) << 52);
    return fma(power, p, power - 1.0);
}

FN f64 sigmoid(f64 v) { return 1.0 / (1.0 + exp(-v)); }
FN f64 silu(f64 v) { return v * sigmoid(v); }

FN f64 tanh(f64 v) {
    f64 t = abs(v);
    if (t > 354.0) return v > 0.0 ? 1.0 : -1.0; // half of the logarithm of the largest number
    if (t >= 0.625) {
        f64 y = 1.0 - 2.0 / (exp(2.0 * t) + 1.0);
        return v < 0.0 ? -y : y;
    }
    f64 s = v * v;
    f64 p = (-9.64399179425052238628e-1 * s - 9.92877231001918586564e1) * s - 1.61468768441708447952e3;
    f64 q = ((s + 1.12811678491632931402e2) * s + 2.23548839060100448583e3) * s + 4.84406305325125486048e3;
    return v + v * s * p / q;
}

// erf(x)/x - 1 for |x| < 0.84375, with z = x*x.
FN f64 erf_ratio(f64 z) {
    const f64 pp0 = 1.28379167095512558561e-01;
    const f64 pp1 = -3.25042107247001499370e-01;
    const f64 pp2 = -2.84817495755985104766e-02;
    const f64 pp3 = -5.77027029648944159157e-03;
    const f64 pp4 = -2.37630166566501626084e-05;
    const f64 qq1 = 3.97917223959155352819e-01;
    const f64 qq2 = 6.50222499887672944485e-02;
    const f64 qq3 = 5.08130628187576562776e-03;
    const f64 qq4 = 1.32494738004321644526e-04;
    const f64 qq5 = -3.96022827877536812320e-06;
    f64 r = pp0 + z * (pp1 + z * (pp2 + z * (pp3 + z * pp4)));
    f64 s = 1.0 + z * (qq1 + z * (qq2 + z * (qq3 + z * (qq4 + z * qq5))));
    return r / s;
}

// 1 - erf(v), relative to its own size.
FN f64 erfc(f64 v) {
    const f64 erx = 8.45062911510467529297e-01;
    const f64 pa0 = -2.36211856075265944077e-03;
    const f64 pa1 = 4.14856118683748331666e-01;
    const f64 pa2 = -3.72207876035701323847e-01;
    const f64 pa3 = 3.18346619901161753674e-01;
    const f64 pa4 = -1.10894694282396677476e-01;
    const f64 pa5 = 3.54783043256182359371e-02;
    const f64 pa6 = -2.16637559486879084300e-03;
    const f64 qa1 = 1.06420880400844228286e-01;
    const f64 qa2 = 5.40397917702171048937e-01;
    const f64 qa3 = 7.18286544141962662868e-02;
    const f64 qa4 = 1.26171219808761642112e-01;
    const f64 qa5 = 1.36370839120290507362e-02;
    const f64 qa6 = 1.19844998467991074170e-02;
    const f64 ra0 = -9.86494403484714822705e-03;
    const f64 ra1 = -6.93858572707181764372e-01;
    const f64 ra2 = -1.05586262253232909814e+01;
    const f64 ra3 = -6.23753324503260060396e+01;
    const f64 ra4 = -1.62396669462573470355e+02;
    const f64 ra5 = -1.84605092906711035994e+02;
    const f64 ra6 = -8.12874355063065934246e+01;
    const f64 ra7 = -9.81432934416914548592e+00;
    const f64 sa1 = 1.96512716674392571292e+01;
    const f64 sa2 = 1.37657754143519042600e+02;
    const f64 sa3 = 4.34565877475229228821e+02;
    const f64 sa4 = 6.45387271733267880336e+02;
    const f64 sa5 = 4.29008140027567833386e+02;
    const f64 sa6 = 1.08635005541779435134e+02;
    const f64 sa7 = 6.57024977031928170135e+00;
    const f64 sa8 = -6.04244152148580987438e-02;
    const f64 rb0 = -9.86494292470009928597e-03;
    const f64 rb1 = -7.99283237680523006574e-01;
    const f64 rb2 = -1.77579549177547519889e+01;
    const f64 rb3 = -1.60636384855821916062e+02;
    const f64 rb4 = -6.37566443368389627722e+02;
    const f64 rb5 = -1.02509513161107724954e+03;
    const f64 rb6 = -4.83519191608651397019e+02;
    const f64 sb1 = 3.03380607434824582924e+01;
    const f64 sb2 = 3.25792512996573918826e+02;
    const f64 sb3 = 1.53672958608443695994e+03;
    const f64 sb4 = 3.19985821950859553908e+03;
    const f64 sb5 = 2.55305040643316442583e+03;
    const f64 sb6 = 4.74528541206955367215e+02;
    const f64 sb7 = -2.24409524465858183362e+01;
    if (v != v) return v;
    bool sign = v < 0.0;
    f64 x = abs(v);
    if (x < 0.84375) {
        f64 temp = x;
        if (x >= 0x1p-56) {
            f64 y = erf_ratio(x * x);
            temp = x < 0.25 ? x + x * y : 0.5 + (x * y + (x - 0.5));
        }
        return sign ? 1.0 + temp : 1.0 - temp;
    }
    if (x < 1.25) {
        f64 s = x - 1.0;
        f64 p = pa0 + s * (pa1 + s * (pa2 + s * (pa3 + s * (pa4 + s * (pa5 + s * pa6)))));
        f64 q = 1.0 + s * (qa1 + s * (qa2 + s * (qa3 + s * (qa4 + s * (qa5 + s * qa6)))));
        return sign ? 1.0 + erx + p / q : 1.0 - erx - p / q;
    }
    if (!(x < 28.0) || (sign && x > 6.0)) return sign ? 2.0 : 0.0;
    f64 s = 1.0 / (x * x), r, q;
    if (x < 1.0 / 0.35) {
        r = ra0 + s * (ra1 + s * (ra2 + s * (ra3 + s * (ra4 + s * (ra5 + s * (ra6 + s * ra7))))));
        q = 1.0 + s * (sa1 + s * (sa2 + s * (sa3 + s * (sa4 + s * (sa5 + s * (sa6 + s * (sa7 + s * sa8)))))));
    } else {
        r = rb0 + s * (rb1 + s * (rb2 + s * (rb3 + s * (rb4 + s * (rb5 + s * rb6)))));
        q = 1.0 + s * (sb1 + s * (sb2 + s * (sb3 + s * (sb4 + s * (sb5 + s * (sb6 + s * sb7))))));
    }
    f64 z = double_of(bits_of(x) & 0xffffffff00000000);
    f64 e = exp(-z * z - 0.5625) * exp((z - x) * (z + x) + r / q) / x;
    return sign ? 2.0 - e : e;
}

FN f64 erf(f64 v) {
    f64 x = abs(v);
    if (x < 0.84375) return v + v * erf_ratio(v * v);
    if (v != v) return v;
    f64 y = 1.0 - erfc(x);
    return v < 0.0 ? -y : y;
}

// The remainder of v by pi/2, in [-pi/4, pi/4], and the quotient modulo 4.
FN f64 reduce_angle(f64 v, i32& quadrant) {
    f64 x = abs(v), r;
    if (x < 0x1p29) {
        f64 k = __builtin_rint(x * 0.63661977236758138);
        r = fma(-k, 1.5707963267948966, x);
        r = fma(-k, 6.123233995736766e-17, r);
        quadrant = (i32)((i64)k & 3);
    } else { // Payne and Hanek: the bits of 4/pi that matter, times the mantissa
        const u64 digits[20] = {
            0x0000000000000001,
            0x45f306dc9c882a53,
            0xf84eafa3ea69bb81,
            0xb6c52b3278872083,
            0xfca2c757bd778ac3,
            0x6e48dc74849ba5c0,
            0x0c925dd413a32439,
            0xfc3bd63962534e7d,
            0xd1046bea5d768909,
            0xd338e04d68befc82,
            0x7323ac7306a673e9,
            0x3908bf177bf25076,
            0x3ff12fffbc0b301f,
            0xde5e2316b414da3e,
            0xda6cfd9e4f96136e,
            0x9e8c7ecd3cbfd45a,
            0xea4f758fd7cbe2f6,
            0x7a0e73ef14a525d4,
            0xd7f6bf623f1aba10,
            0xac06608df8f6d757,
        };
        i32 e = (i32)(bits_of(x) >> 52) - 1075 + 61;
        u64 m = (bits_of(x) & 0xfffffffffffff) | 1ull << 52;
        u32 at = (u32)e / 64, by = (u32)e % 64;
        u64 d[4], z[3];
        for (u32 i = 0; i < 20; i++) // a table that is never indexed by a variable needs no memory
            for (u32 k = 0; k < 4; k++)
                if (i == at + k) d[k] = digits[i];
        for (int k = 0; k < 3; k++) z[k] = by ? d[k] << by | d[k + 1] >> (64 - by) : d[k];
        unsigned __int128 p2 = (unsigned __int128)z[2] * m, p1 = (unsigned __int128)z[1] * m;
        u64 lo = (u64)p1 + (u64)(p2 >> 64);
        u64 hi = z[0] * m + (u64)(p1 >> 64) + (lo < (u64)p1);
        i32 j = (i32)(hi >> 61); // octant
        u64 part = hi << 3 | lo >> 61, next = lo << 3;
        f64 f = (f64)part * 0x1p-64 + (f64)next * 0x1p-128;
        if (j & 1) {
            j++;
            f = -((f64)(~part) * 0x1p-64 + (f64)(~next) * 0x1p-128);
        }
        quadrant = j >> 1 & 3;
        r = f * 0.78539816339744831;
    }
    return r;
}

FN f64 sin_poly(f64 r) {
    f64 z = r * r;
    f64 p = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 +
            z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
    return r + z * r * (-1.66666666666666324348e-01 + z * p);
}

FN f64 cos_poly(f64 r) {
    f64 z = r * r;
    f64 p = z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 +
            z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    f64 half = 0.5 * z, w = 1.0 - half;
    return w + (((1.0 - w) - half) + z * p);
}

FN void sincos(f64 v, f64& sin, f64& cos) {
    if (!finite(v)) {
        sin = cos = v - v;
        return;
    }
    i32 q;
    f64 r = reduce_angle(v, q);
    f64 s = sin_poly(r), c = cos_poly(r);
    sin = q & 1 ? c : s;
    cos = q & 1 ? s : c;
    if (q & 2) sin = -sin;
    if (q == 1 || q == 2) cos = -cos;
    if (v < 0.0) sin = -sin;
}

// log(v) as a sum of two doubles, for positive finite v: log(v) = e*log(2) + 2*s*(1 + s^2/3 + s^4/5 + ...).
FN f64 log_pair(f64 v, f64& low) {
    f64 e;
    f64 f = mantissa(v, e) - 1.0;
    f64 den = 2.0 + f, den_low = f - (den - 2.0);
    f64 s = f / den, s_low = (fma(-s, den, f) - s * den_low) / den;
    f64 z = s * s, z_low = fma(s, s, -z) + 2.0 * s * s_low;
    f64 p = 1.0 / 27;
    p = fma(p, z, 1.0 / 25);
    p = fma(p, z, 1.0 / 23);
    p = fma(p, z, 1.0 / 21);
    p = fma(p, z, 1.0 / 19);
    p = fma(p, z, 1.0 / 17);
    p = fma(p, z, 1.0 / 15);
    p = fma(p, z, 1.0 / 13);
    p = fma(p, z, 1.0 / 11);
    p = fma(p, z, 1.0 / 9);
    p = fma(p, z, 1.0 / 7);
    p = fma(p, z, 1.0 / 5);
    p *= z;
    const f64 third = 1.0 / 3, third_low = 1.8503717077085941e-17;
    f64 q = third + p, q_low = ((third - q) + p) + third_low;
    f64 t = z * q, t_low = fma(z, q, -t) + (z * q_low + z_low * q);
    f64 u = 1.0 + t, u_low = ((1.0 - u) + t) + t_low;
    f64 l = s * u, l_low = fma(s, u, -l) + (s * u_low + s_low * u);
    l *= 2.0;
    l_low *= 2.0;
    f64 a = e * 0x1.62e42fefa3800p-1; // exact: the constant has 11 zero bits
    f64 sum = a + l;
    f64 rest = e == 0.0 ? 0.0 : (a - sum) + l;
    low = rest + (l_low + e * 0x1.ef35793c76730p-45);
    return sum;
}

FN f64 pow(f64 x, f64 y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return x + y;
    f64 ax = abs(x), ay = abs(y);
    bool whole = ay >= 0x1p53 || __builtin_rint(y) == y;
    bool odd = ay < 0x1p53 && whole && ((i64)y & 1);
    f64 r;
    if (ay == __builtin_inf()) return ax == 1.0 ? 1.0 : (ax < 1.0) == (y > 0.0) ? 0.0 : ay;
    if (ax == 0.0 || ax == __builtin_inf()) {
        r = (ax == 0.0) == (y > 0.0) ? 0.0 : __builtin_inf();
    } else if (x < 0.0 && !whole) {
        return __builtin_nan("");
    } else {
        f64 low, l = log_pair(ax, low);
        f64 e = y * l;
        r = ay > 0x1p70 ? ((e > 0.0) ? __builtin_inf() : 0.0) : exp(e, fma(y, l, -e) + y * low);
        if (ax == 1.0) r = 1.0;
    }
    return odd && bits_of(x) >> 63 ? -r : r;
}

// ---- functions of the table of element-wise operations -------------------------------------------------------------------

// Float results of these are computed in double and rounded once.

// log(m)/log(2) + e for v = m*2^e, which is exact for powers of two: then m is 1.
FN f64 log2(f64 v) {
    if (!(v > 0.0) || v == __builtin_inf()) return log(v);
    f64 e, m = mantissa(v, e);
    return e + log(m) * 1.4426950408889634;
}
FN f32 log2(f32 v) { return (f32)log2((f64)v); }

FN f64 log10(f64 v) { return log(v) * 0.43429448190325182765; }
FN f32 log10(f32 v) { return (f32)log10((f64)v); }

// exp(v*log(2)), with what rounding takes of the product.
FN f64 exp2(f64 v) {
    if (v != v) return v;
    if (v >= 1024.0) return __builtin_inf();
    if (v < -1080.0) return 0.0;
    f64 y = v * 0.693147180559945286227;
    return exp(y, fma(v, 0.693147180559945286227, -y) + v * 2.319046813846299558e-17);
}
FN f32 exp2(f32 v) { return (f32)exp2((f64)v); }

FN f64 tan(f64 v) {
    f64 s, c;
    sincos(v, s, c);
    return s / c;
}
FN f32 tan(f32 v) { return (f32)tan((f64)v); }

// a*tanh(log(1+e)) with e = exp(a), whose tanh is n/(n+2) for n = e*(e+2). From 20 on that is 1.
FN f64 mish(f64 a) {
    if (a > 20) return a;
    f64 e = exp(a), n = e * (e + 2);
    return a * (n / (n + 2));
}
FN f32 mish(f32 a) { return (f32)mish((f64)a); }
// The derivative: that of tanh is 4*(n+1)/(n+2)^2, with n+1 = (1+e)^2, and that of log(1+exp(a)) is e/(1+e).
template <class C> FN C mish_slope(C a) {
    if (a > 20) return 1;
    C e = exp(a), n = e * (e + 2);
    return n / (n + 2) + a * (4 * e * (1 + e) / ((n + 2) * (n + 2)));
}

// log(exp(a)+exp(b)) relative to the greater of them, and that one if both are infinite alike.
template <class C> FN C log_add_exp(C a, C b) {
    if (a == b && a - b != 0) return a;
    C top = a != a || a > b ? a : b;
    return top + log1p(exp(-abs(a - b)));
}

// atan(v) for v in [0, 1]: atan(v) = atan(c) + atan((v-c)/(1+v*c)) for the nearest c of 0, 1/4, ... 1, and the series of the rest, which is
// at most 1/8.
FN f64 atan_of_ratio(f64 v) {
    f64 k = __builtin_rint(4.0 * v), c = 0.25 * k;
    f64 base = k < 2.0 ? (k < 1.0 ? 0.0 : 0.24497866312686415417) : k < 3.0 ? 0.46364760900080611621 : k < 4.0 ? 0.64350110879328438680 : 0.78539816339744830962;
    f64 r = (v - c) / (1.0 + v * c), z = r * r;
    f64 p = 1.0 / 19 - z * (1.0 / 21);
    p = 1.0 / 17 - z * p;
    p = 1.0 / 15 - z * p;
    p = 1.0 / 13 - z * p;
    p = 1.0 / 11 - z * p;
    p = 1.0 / 9 - z * p;
    p = 1.0 / 7 - z * p;
    p = 1.0 / 5 - z * p;
    p = 1.0 / 3 - z * p;
    return base + (r - r * (z * p));
}

// The angle of the point with the ordinate y and the abscissa x.
FN f64 atan2(f64 y, f64 x) {
    if (x != x || y != y) return x + y;
    f64 ay = abs(y), ax = abs(x), r;
    bool steep = ay > ax;
    if (ax == ay) r = ax == 0.0 ? 0.0 : 0.78539816339744830962; // also where both are infinite
    else r = atan_of_ratio(steep ? ax / ay : ay / ax);
    if (steep) r = 1.57079632679489661923 - (r - 6.123233995736766e-17);
    if (bits_of(x) >> 63) r = 3.14159265358979323846 - (r - 1.2246467991473532e-16);
    return bits_of(y) >> 63 ? -r : r;
}
FN f32 atan2(f32 y, f32 x) { return (f32)atan2((f64)y, (f64)x); }

// The inverse of erf: algorithm AS 241 (Wichura, 1988), of three ranges.
FN f64 erfinv(f64 v) {
    f64 x = abs(v), r, p, q;
    if (!(x < 1.0)) return x == 1.0 ? v * __builtin_inf() : __builtin_nan("");
    if (x <= 0.85) {
        r = 0.180625 - 0.25 * x * x;
        p = 887.0940696254552;
        p = fma(p, r, 11819.493347062295);
        p = fma(p, r, 23782.041382114385);
        p = fma(p, r, 16235.862515167575);
        p = fma(p, r, 4854.886889384388);
        p = fma(p, r, 697.062665343896);
        p = fma(p, r, 47.07268811238398);
        p = fma(p, r, 1.1975323115670913);
        q = 5226.495278852854;
        q = fma(q, r, 28729.085735721943);
        q = fma(q, r, 39307.89580009271);
        q = fma(q, r, 21213.794301586597);
        q = fma(q, r, 5394.196021424751);
        q = fma(q, r, 687.1870074920579);
        q = fma(q, r, 42.31333070160091);
        q = fma(q, r, 1.0);
        return v * p / q;
    }
    r = sqrt(0.693147180559945309417 - log(1.0 - x));
    if (r <= 5.0) {
        r -= 1.6;
        p = 0.0007745450142783414;
        p = fma(p, r, 0.022723844989269184);
        p = fma(p, r, 0.2417807251774506);
        p = fma(p, r, 1.2704582524523684);
        p = fma(p, r, 3.6478483247632045);
        p = fma(p, r, 5.769497221460691);
        p = fma(p, r, 4.630337846156546);
        p = fma(p, r, 1.4234371107496835);
        q = 1.4859850019840355e-09;
        q = fma(q, r, 0.0007744145906515771);
        q = fma(q, r, 0.021494160384252878);
        q = fma(q, r, 0.2094506521051275);
        q = fma(q, r, 0.9754783200178743);
        q = fma(q, r, 2.3707661626024534);
        q = fma(q, r, 2.9036514445419948);
        q = fma(q, r, 1.4142135623730951);
    } else {
        r -= 5.0;
        p = 2.0103343992922881e-07;
        p = fma(p, r, 2.7115555687434876e-05);
        p = fma(p, r, 0.0012426609473880784);
        p = fma(p, r, 0.026532189526576124);
        p = fma(p, r, 0.29656057182850487);
        p = fma(p, r, 1.7848265399172913);
        p = fma(p, r, 5.463784911164114);
        p = fma(p, r, 6.657904643501103);
        q = 2.8910246058729655e-15;
        q = fma(q, r, 2.010321207683943e-07);
        q = fma(q, r, 2.6110884050805935e-05);
        q = fma(q, r, 0.0011128009970788597);
        q = fma(q, r, 0.02103693768272069);
        q = fma(q, r, 0.19364809469506591);
        q = fma(q, r, 0.8482908416595164);
        q = fma(q, r, 1.4142135623730951);
    }
    return v < 0.0 ? -p / q : p / q;
}

// log(gamma(1+z)) + log(1+z) = log(gamma(2+z)) for |z| <= 1/4: the series of (-1)^k*(zeta(k)-1)/k * z^k, from k = 2 on.
FN f64 lgamma_near_two(f64 z) {
    f64 p = 2.1207184805554665e-07;
    p = fma(p, z, -4.492469198764566e-07);
    p = fma(p, z, 9.55141213040742e-07);
    p = fma(p, z, -2.039215753801366e-06);
    p = fma(p, z, 4.374866789907488e-06);
    p = fma(p, z, -9.439488275268397e-06);
    p = fma(p, z, 2.050721277567069e-05);
    p = fma(p, z, -4.492623673813314e-05);
    p = fma(p, z, 9.945751278180853e-05);
    p = fma(p, z, -0.00022315475845357939);
    p = fma(p, z, 0.0005096695247430425);
    p = fma(p, z, -0.001192753911703261);
    p = fma(p, z, 0.0028905103307415234);
    p = fma(p, z, -0.007385551028673986);
    p = fma(p, z, 0.020580808427784546);
    p = fma(p, z, -0.0673523010531981);
    p = fma(p, z, 0.3224670334241132);
    return z * fma(p, z, 0.422784335098467139393); // 1 - Euler's constant
}

// log(gamma(x)) for x > 0: near 1 and 2, where it is 0, by its series, else of x + n >= 8 by Stirling's.
FN f64 lgamma_positive(f64 x) {
    if (abs(x - 2.0) <= 0.25) return lgamma_near_two(x - 2.0);
    if (abs(x - 1.0) <= 0.25) return lgamma_near_two(x - 1.0) - log1p(x - 1.0);
    if (x > 1e17) return x * (log(x) - 1.0);
    f64 product = 1.0;
    #pragma unroll 1
    for (; x < 8.0; x += 1.0) product *= x;
    f64 z = 1.0 / x, s = z * z;
    f64 p = 1.0 / 156;
    p = fma(p, s, -691.0 / 360360);
    p = fma(p, s, 1.0 / 1188);
    p = fma(p, s, -1.0 / 1680);
    p = fma(p, s, 1.0 / 1260);
    p = fma(p, s, -1.0 / 360);
    p = fma(p, s, 1.0 / 12);
    return ((x - 0.5) * (log(x) - 1.0) + 0.418938533204672741780) + (p * z - log(product));
}

// sin(pi*v) and cos(pi*v) but for their sign: v and the distance to the nearest integer differ by that integer.
FN void sincos_pi(f64 v, f64& sin, f64& cos) { sincos(3.14159265358979323846 * (v - rint(v)), sin, cos); }

// log(|gamma(v)|), of negative v by reflection: gamma(v)*gamma(-v) = -pi/(v*sin(pi*v)).
FN f64 lgamma(f64 v) {
    f64 x = abs(v);
    if (v != v || x == __builtin_inf()) return x;
    if (x == 0.0) return __builtin_inf();
    if (x < 0x1p-70) return -log(x);
    if (v > 0.0) return lgamma_positive(v);
    if (rint(v) == v) return __builtin_inf();
    f64 s, c;
    sincos_pi(x, s, c);
    return log(3.14159265358979323846 / (x * abs(s))) - lgamma_positive(x);
}

// The derivative of log(gamma(v)): of negative v by reflection, else of v + n >= 10 by its asymptotic series.
FN f64 digamma(f64 v) {
    if (v == 0.0) return bits_of(v) >> 63 ? __builtin_inf() : -__builtin_inf();
    if (v == __builtin_inf() || v != v) return v;
    f64 r = 0.0;
    if (v < 0.0) {
        if (rint(v) == v) return __builtin_nan("");
        f64 s, c;
        sincos_pi(v, s, c);
        r = -3.14159265358979323846 * c / s;
        v = 1.0 - v;
    }
    #pragma unroll 1
    for (; v < 10.0; v += 1.0) r -= 1.0 / v;
    f64 z = 1.0 / v, s = z * z;
    f64 p = 1.0 / 12;
    p = fma(p, s, -691.0 / 32760);
    p = fma(p, s, 1.0 / 132);
    p = fma(p, s, -1.0 / 240);
    p = fma(p, s, 1.0 / 252);
    p = fma(p, s, -1.0 / 120);
    p = fma(p, s, 1.0 / 12);
    return r + ((log(v) - 0.5 * z) - s * p);
}

// Whole powers of positive numbers, by multiplication.
FN f64 natural_power(f64 v, i64 n) {
    f64 r = 1.0;
    #pragma unroll 1
    for (; n > 0; n >>= 1, v *= v)
        if (n & 1) r *= v;
    return r;
}

// The derivative number order of digamma: (-1)^(n+1) * n! * (1/v^(n+1) + 1/(v+1)^(n+1) + ...) for n >= 1, whose tail Euler and Maclaurin's
// formula gives from v + k > 10 + 1.5*n on: power_tail. Of a large negative v all terms but those near 0 are a difference of two such tails.
FN f64 power_tail(f64 order, f64 v) {
    // The integral, half of the first term, and B(2k)/(2k)! * (n+1)*...*(n+2k-1) / v^(n+2k).
    f64 x = 1.0 / v, s = x * x, tail = natural_power(x, (i64)order), term = tail * s * (order + 1.0);
    f64 m = order + 1.0, t = 0.0;
    t = -3617.0 / 10670622842880000.0;
    t = fma(t * s, (m + 13.0) * (m + 14.0), 1.0 / 74724249600.0);
    t = fma(t * s, (m + 11.0) * (m + 12.0), -691.0 / 1307674368000.0);
    t = fma(t * s, (m + 9.0) * (m + 10.0), 1.0 / 47900160.0);
    t = fma(t * s, (m + 7.0) * (m + 8.0), -1.0 / 1209600.0);
    t = fma(t * s, (m + 5.0) * (m + 6.0), 1.0 / 30240.0);
    t = fma(t * s, (m + 3.0) * (m + 4.0), -1.0 / 720.0);
    t = fma(t * s, (m + 1.0) * (m + 2.0), 1.0 / 12.0);
    return tail / order + 0.5 * tail * x + term * t;
}

FN f64 polygamma(f64 order, f64 v) {
    i64 n = (i64)order;
    if (v != v) return v;
    f64 fact = 1.0;
    #pragma unroll 1
    for (i64 k = 2; k <= n; k++) fact *= (f64)k;
    if (!(n & 1)) fact = -fact;
    if (v <= 0.0 && rint(v) == v) return fact * __builtin_inf();
    if (v == __builtin_inf()) return 0.0 * fact;
    f64 sum = 0.0, from = 10.0 + 1.5 * order;
    f64 whole = floor(-v - from);
    if (whole > 0.0) {
        sum = power_tail(order, 1.0 - v - whole) - power_tail(order, 1.0 - v);
        if (!(n & 1)) sum = -sum;
        v += whole;
    }
    #pragma unroll 1
    for (; v < from; v += 1.0) {
        f64 x = 1.0 / abs(v), t = natural_power(x, n + 1);
        sum += v < 0.0 && !(n & 1) ? -t : t;
    }
    return fact * (sum + power_tail(order, v));
}

FN f64 sinh(f64 v) {
    f64 x = abs(v), y;
    if (x > 709.0) {
        y = exp(0.5 * x);
        y *= 0.5 * y;
    } else {
        y = expm1(x);
        y = 0.5 * (y + y / (y + 1.0));
    }
    return v < 0.0 ? -y : x == 0.0 ? v : y;
}
FN f32 sinh(f32 v) { return (f32)sinh((f64)v); }
FN f64 cosh(f64 v) {
    f64 x = abs(v), y = exp(x > 709.0 ? 0.5 * x : x);
    return x > 709.0 ? 0.5 * y * y : 0.5 * (y + 1.0 / y);
}
FN f32 cosh(f32 v) { return (f32)cosh((f64)v); }
FN f64 asin(f64 v) { return atan2(v, sqrt((1.0 - v) * (1.0 + v))); }
FN f32 asin(f32 v) { return (f32)asin((f64)v); }
FN f64 acos(f64 v) { return 2.0 * atan2(sqrt(1.0 - v), sqrt(1.0 + v)); }
FN f32 acos(f32 v) { return (f32)acos((f64)v); }
FN f64 asinh(f64 v) {
    f64 x = abs(v), y = x > 0x1p28 ? log(x) + 0.693147180559945309417 : log1p(x + x * x / (1.0 + sqrt(x * x + 1.0)));
    return v < 0.0 ? -y : x == 0.0 ? v : y;
}
FN f32 asinh(f32 v) { return (f32)asinh((f64)v); }
FN f64 acosh(f64 v) {
    if (v > 0x1p28) return log(v) + 0.693147180559945309417;
    f64 t = v - 1.0;
    return t < 0.0 ? __builtin_nan("") : log1p(t + sqrt(t * (2.0 + t)));
}
FN f32 acosh(f32 v) { return (f32)acosh((f64)v); }
FN f64 atanh(f64 v) {
    f64 x = abs(v), y = 0.5 * log1p(2.0 * x / (1.0 - x));
    return v < 0.0 ? -y : x == 0.0 ? v : y;
}
FN f32 atanh(f32 v) { return (f32)atanh((f64)v); }
