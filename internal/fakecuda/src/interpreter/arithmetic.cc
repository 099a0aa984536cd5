// Arithmetic: what each lane computes by itself. Float results that are not numbers are NVIDIA's one NaN, 0x7fffffff.
#include <math.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <functional>
#include <unordered_map>

#include "program.h"

namespace fake {
namespace interpreter {

float bfloat_value(u16 h) { return bits<float>((u32)h << 16); }

u16 bfloat_of(float x) {
    const u32 b = bits<u32>(x);
    if (x != x) return 0x7fff;
    return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

float half_value(u16 h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    const u32 sign = (u32)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return bits<float>(sign | 0x7f800000 | m << 13);
    if (e == 0) return bits<float>(sign | bits<u32>((float)m * 0x1p-24f));
    return bits<float>(sign | (e + 112) << 23 | m << 13);
#endif
}

u16 half_of(float x) {
    if (x != x) return 0x7fff;
#if defined(__F16C__)
    return (u16)_cvtss_sh(x, 0);
#else
    const u32 b = bits<u32>(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
    if (a >= 0x47800000) return (u16)(sign | 0x7c00);
    if (a < 0x38800000) return (u16)(sign | (u32)nearbyintf(bits<float>(a) * 0x1p24f));
    const u32 r = a + 0xfff + (a >> 13 & 1) - 0x38000000;
    return (u16)(sign | r >> 13);
#endif
}

// What lanes compute.
template <class T>
static inline T canonical(T x) {
    return x;
}
template <>
inline float canonical(float x) {
    return x == x ? x : bits<float>(0x7fffffffu);
}
template <>
inline double canonical(double x) {
    return x == x ? x : bits<double>((u64)0x7fffffffffffffff);
}

struct Add { template <class T> static T of(T a, T b) { return canonical<T>(a + b); } };
struct Sub { template <class T> static T of(T a, T b) { return canonical<T>(a - b); } };
struct Mul { template <class T> static T of(T a, T b) { return canonical<T>(a * b); } };
// The low half of a product, whatever the sign.
struct MulLo { template <class T> static T of(T a, T b) { return (T)((u64)a * (u64)b); } };
struct Div { template <class T> static T of(T a, T b) { return canonical<T>(a / b); } };
// Integer division by zero has no defined value on a GPU: here it is all ones.
struct IntDiv { template <class T> static T of(T a, T b) { return b == 0 ? (T)-1 : b == (T)-1 && (T)-1 < 0 ? (T)(0 - a) : (T)(a / b); } };
struct IntRem { template <class T> static T of(T a, T b) { return b == 0 ? (T)-1 : b == (T)-1 && (T)-1 < 0 ? (T)0 : (T)(a % b); } };
struct Min { template <class T> static T of(T a, T b) { return a < b ? a : b; } };
struct Max { template <class T> static T of(T a, T b) { return a > b ? a : b; } };
struct FloatMin { template <class T> static T of(T a, T b) { return a != a ? canonical(b) : b != b ? a : a < b || (a == b && signbit(a)) ? a : b; } };
struct FloatMax { template <class T> static T of(T a, T b) { return a != a ? canonical(b) : b != b ? a : a > b || (a == b && signbit(b)) ? a : b; } };
// The same, but NaN if one of the two is.
struct MinNan { template <class T> static T of(T a, T b) { return a != a || b != b ? canonical((T)NAN) : FloatMin::of(a, b); } };
struct MaxNan { template <class T> static T of(T a, T b) { return a != a || b != b ? canonical((T)NAN) : FloatMax::of(a, b); } };
// 1/a to one unit in the last place, which is taken at its word: by the bits of a the result is exact, or moved up or down by one.
// Denormals are zero.
struct RcpApprox {
    static float of(float a) {
        if (fabsf(a) < 0x1p-126f) a = copysignf(0, a);
        const float r = 1 / a;
        if (!(fabsf(r) >= 0x1p-126f)) return r == r ? copysignf(0, r) : canonical(r);
        if (isinf(r)) return r;
        return bits<float>(bits<u32>(r) + bits<u32>(a) * 2654435761u % 3 - 1);
    }
};
// 2^a to 2^-22 of the result, which is taken at its word: by the bits of a the result is the nearest float, or about as far above or
// below it as it may be. Denormals are zero, of a and of the result.
struct Ex2Approx {
    static float of(float a) {
        if (a != a) return canonical(a);
        if (fabsf(a) < 0x1p-126f || isinf(a)) return isinf(a) ? a > 0 ? a : 0.0f : 1.0f;
        const double exact = exp2((double)a), off = (double)(bits<u32>(a) * 2654435761u % 3) - 1;
        const float r = (float)(exact * (1 + off * (0x1p-22 - 0x1p-24)));  // rounding may err by 2^-24 more
        return r < 0x1p-126f ? 0.0f : r;
    }
};
struct And { template <class T> static T of(T a, T b) { return a & b; } };
struct Or { template <class T> static T of(T a, T b) { return a | b; } };
struct Xor { template <class T> static T of(T a, T b) { return a ^ b; } };
struct Shl { template <class T> static T of(T a, u32 b) { return b >= sizeof(T) * 8 ? (T)0 : (T)(a << b); } };
struct Shr { template <class T> static T of(T a, u32 b) { return b >= sizeof(T) * 8 ? (T)(a < 0 ? -1 : 0) : (T)(a >> b); } };
struct MulHi { template <class T> static T of(T a, T b) {
    if constexpr (sizeof(T) == 2) return (T)((T)-1 < 0 ? (u32)((s32)a * (s32)b) >> 16 : (u32)a * (u32)b >> 16);
    else if constexpr (sizeof(T) == 8) return (T)(((T)-1 < 0 ? (unsigned __int128)((__int128)a * b) : (unsigned __int128)a * (unsigned __int128)b) >> 64);
    else return (T)(((T)-1 < 0 ? (u64)((s64)a * (s64)b) : (u64)a * (u64)b) >> 32);
} };
struct Not { template <class T> static T of(T a) { return (T)~a; } };
struct Neg { template <class T> static T of(T a) { return (T)(0 - a); } };
struct FloatNeg { template <class T> static T of(T a) { return -a; } };
struct Abs { template <class T> static T of(T a) { return a < 0 ? (T)(0 - a) : a; } };
struct FloatAbs { static float of(float a) { return fabsf(a); } static double of(double a) { return fabs(a); } };
struct Sqrt { static float of(float a) { return canonical(sqrtf(a)); } static double of(double a) { return canonical(sqrt(a)); } };
struct Rcp { template <class T> static T of(T a) { return canonical<T>(1 / a); } };
struct Move { template <class T> static T of(T a) { return a; } };
struct HalfNeg { static u16 of(u16 a) { return a ^ 0x8000; } };
struct HalfNeg2 { static u32 of(u32 a) { return a ^ 0x80008000; } };
struct HalfAbs { static u16 of(u16 a) { return a & 0x7fff; } };
struct Popc { static u32 of(u32 a) { return (u32)__builtin_popcount(a); } };
struct Clz { static u32 of(u32 a) { return a ? (u32)__builtin_clz(a) : 32; } };
struct Brev { static u32 of(u32 a) { u32 r = 0; for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i); return r; } };
// Sums and products of two halves are exact enough in float that rounding twice is rounding once.
template <class F> struct Half { static u16 of(u16 a, u16 b) { return half_of(F::template of<float>(half_value(a), half_value(b))); } };
template <class F> struct Half2 { static u32 of(u32 a, u32 b) { return Half<F>::of((u16)a, (u16)b) | (u32)Half<F>::of((u16)(a >> 16), (u16)(b >> 16)) << 16; } };

template <class D, class A, class F>
static void one(Warp& w, const Ins& i) {
    D* const d = reg<D>(w, i.o[0]);
    const A* const a = reg<A>(w, i.o[1]);
    LANES_DO(w, d[l] = F::of(a[l]));
}
template <class T, class F>
static void two(Warp& w, const Ins& i) {
    T* const d = reg<T>(w, i.o[0]);
    const T *const a = reg<T>(w, i.o[1]), *const b = reg<T>(w, i.o[2]);
    LANES_DO(w, d[l] = F::of(a[l], b[l]));
}
template <class T, class F>
static void shift(Warp& w, const Ins& i) {
    T* const d = reg<T>(w, i.o[0]);
    const T* const a = reg<T>(w, i.o[1]);
    const u32* const b = reg<u32>(w, i.o[2]);
    LANES_DO(w, d[l] = F::of(a[l], b[l]));
}
template <class D, class A>
static void mul_wide(Warp& w, const Ins& i) {
    D* const d = reg<D>(w, i.o[0]);
    const A *const a = reg<A>(w, i.o[1]), *const b = reg<A>(w, i.o[2]);
    LANES_DO(w, d[l] = (D)a[l] * (D)b[l]);
}
template <class D, class A>
static void mad_wide(Warp& w, const Ins& i) {
    D* const d = reg<D>(w, i.o[0]);
    const A *const a = reg<A>(w, i.o[1]), *const b = reg<A>(w, i.o[2]);
    const D* const c = reg<D>(w, i.o[3]);
    LANES_DO(w, d[l] = (D)((D)a[l] * (D)b[l] + c[l]));
}
template <class T>
static void mad(Warp& w, const Ins& i) {
    T* const d = reg<T>(w, i.o[0]);
    const T *const a = reg<T>(w, i.o[1]), *const b = reg<T>(w, i.o[2]), *const c = reg<T>(w, i.o[3]);
    LANES_DO(w, d[l] = (T)(a[l] * b[l] + c[l]));
}
static void fma32(Warp& w, const Ins& i) {
    float* const d = reg<float>(w, i.o[0]);
    const float *const a = reg<float>(w, i.o[1]), *const b = reg<float>(w, i.o[2]), *const c = reg<float>(w, i.o[3]);
    LANES_DO(w, d[l] = canonical(__builtin_fmaf(a[l], b[l], c[l])));
}
static void fma64(Warp& w, const Ins& i) {
    double* const d = reg<double>(w, i.o[0]);
    const double *const a = reg<double>(w, i.o[1]), *const b = reg<double>(w, i.o[2]), *const c = reg<double>(w, i.o[3]);
    LANES_DO(w, d[l] = canonical(__builtin_fma(a[l], b[l], c[l])));
}
template <class T>
static void select(Warp& w, const Ins& i) {
    T* const d = reg<T>(w, i.o[0]);
    const T *const a = reg<T>(w, i.o[1]), *const b = reg<T>(w, i.o[2]);
    const u32 p = *reg<u32>(w, i.o[3]);
    LANES_DO(w, d[l] = p >> l & 1 ? a[l] : b[l]);
}

// bfe: length 0 gives 0; bits beyond the register are those of the sign, or 0.
template <class T>
static void extract(Warp& w, const Ins& i) {
    T* const d = reg<T>(w, i.o[0]);
    const T* const a = reg<T>(w, i.o[1]);
    const u32 *const from = reg<u32>(w, i.o[2]), *const count = reg<u32>(w, i.o[3]);
    LANES_DO(w, {
        const u32 at = from[l] & 255, n = count[l] & 255;
        const T x = Shr::of<T>(a[l], at);
        d[l] = n == 0 ? (T)0 : n >= sizeof(T) * 8 ? x : (T)((T)((u64)x << (64 - n) >> (64 - n) & (u64)(T)-1));
        if ((T)-1 < 0 && n > 0 && n < sizeof(T) * 8) d[l] = (T)((s64)((u64)(s64)x << (64 - n)) >> (64 - n));
    });
}
template <class T>
static void insert(Warp& w, const Ins& i) {
    T* const d = reg<T>(w, i.o[0]);
    const T *const a = reg<T>(w, i.o[1]), *const b = reg<T>(w, i.o[2]);
    const u32 *const from = reg<u32>(w, i.o[3]), *const count = reg<u32>(w, i.o[4]);
    LANES_DO(w, {
        const u32 at = from[l] & 255, n = count[l] & 255;
        const T ones = n >= sizeof(T) * 8 ? (T)-1 : (T)(((T)1 << n) - 1);
        const T mask = at >= sizeof(T) * 8 ? (T)0 : (T)(ones << at);
        d[l] = (T)((b[l] & ~mask) | (Shl::of<T>(a[l], at) & mask));
    });
}

// shf shifts two words, high and low, and keeps one of them. WRAP counts modulo 32.
template <bool LEFT, bool WRAP>
static void funnel(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    const u32 *const a = reg<u32>(w, i.o[1]), *const b = reg<u32>(w, i.o[2]), *const c = reg<u32>(w, i.o[3]);
    LANES_DO(w, {
        const u32 n = WRAP ? c[l] & 31 : c[l] > 32 ? 32 : c[l];
        const u64 both = a[l] | (u64)b[l] << 32;
        d[l] = LEFT ? (u32)(both << n >> 32) : (u32)(both >> n);
    });
}

// The table of lop3 is its last operand. prmt picks bytes of two words.
static void lop3(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    const u32 *const a = reg<u32>(w, i.o[1]), *const b = reg<u32>(w, i.o[2]), *const c = reg<u32>(w, i.o[3]), *const t = reg<u32>(w, i.o[4]);
    LANES_DO(w, {
        u32 r = 0;
        for (int k = 0; k < 8; k++)
            if (t[l] >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
        d[l] = r;
    });
}
static void permute(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    const u32 *const a = reg<u32>(w, i.o[1]), *const b = reg<u32>(w, i.o[2]), *const c = reg<u32>(w, i.o[3]);
    LANES_DO(w, {
        const u64 both = a[l] | (u64)b[l] << 32;
        u32 r = 0;
        for (int k = 0; k < 4; k++) {
            const u32 s = c[l] >> 4 * k & 15;
            const u8 byte = (u8)(both >> 8 * (s & 7));
            r |= (u32)(s & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * k;
        }
        d[l] = r;
    });
}

// Predicates are whole words.
template <class F>
static void predicates(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    *d = (*d & ~w.mask) | (F::of(*reg<u32>(w, i.o[1]), *reg<u32>(w, i.o[2])) & w.mask);
}
template <class F>
static void predicate(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    *d = (*d & ~w.mask) | (F::of(*reg<u32>(w, i.o[1])) & w.mask);
}

// mov between one register and its parts.
template <class D, class A>
static void unpack2(Warp& w, const Ins& i) {
    D *const d = reg<D>(w, i.o[0]), *const e = reg<D>(w, i.o[1]);
    const A* const a = reg<A>(w, i.o[2]);
    LANES_DO(w, {
        const A x = a[l];
        d[l] = (D)x;
        e[l] = (D)(x >> 8 * sizeof(D));
    });
}
template <class D, class A>
static void pack2(Warp& w, const Ins& i) {
    D* const d = reg<D>(w, i.o[0]);
    const A *const a = reg<A>(w, i.o[1]), *const b = reg<A>(w, i.o[2]);
    LANES_DO(w, d[l] = (D)((D)a[l] | (D)b[l] << 8 * sizeof(A)));
}
static void unpack4(Warp& w, const Ins& i) {
    const u64* const a = reg<u64>(w, i.o[4]);
    LANES_DO(w, {
        const u64 x = a[l];
        for (int k = 0; k < 4; k++) reg<u16>(w, i.o[k])[l] = (u16)(x >> 16 * k);
    });
}
static void pack4(Warp& w, const Ins& i) {
    u64* const d = reg<u64>(w, i.o[0]);
    LANES_DO(w, {
        u64 x = 0;
        for (int k = 0; k < 4; k++) x |= (u64)reg<u16>(w, i.o[1 + k])[l] << 16 * k;
        d[l] = x;
    });
}
// A generic address of shared memory is where the processor has it.
static void generic_of_shared(Warp& w, const Ins& i) {
    u64* const d = reg<u64>(w, i.o[0]);
    const u64* const a = reg<u64>(w, i.o[1]);
    LANES_DO(w, d[l] = (u64)w.block->shared + a[l] - SHARED_BASE);
}
static void shared_of_generic(Warp& w, const Ins& i) {
    u64* const d = reg<u64>(w, i.o[0]);
    const u64* const a = reg<u64>(w, i.o[1]);
    LANES_DO(w, d[l] = a[l] - (u64)w.block->shared + SHARED_BASE);
}
static void nothing(Warp&, const Ins&) {}

typedef std::unordered_map<std::string, Operation> Operations;

template <class T, class F>
static void add_two(Operations* o, const std::string& name) {
    const char n = (char)('0' + sizeof(T));
    (*o)[name] = {two<T, F>, std::string() + n + "=" + n + n};
}
template <class D, class A, class F>
static void add_one(Operations* o, const std::string& name) {
    (*o)[name] = {one<D, A, F>, std::string() + (char)('0' + sizeof(D)) + "=" + (char)('0' + sizeof(A))};
}

template <class T>
static void integers(Operations* o, const std::string& t) {
    const std::string n(1, (char)('0' + sizeof(T)));
    typedef typename std::make_unsigned<T>::type U;
    add_two<U, Add>(o, "add." + t);
    add_two<U, Sub>(o, "sub." + t);
    add_two<T, Min>(o, "min." + t);
    add_two<T, Max>(o, "max." + t);
    add_two<T, MulHi>(o, "mul.hi." + t);
    add_two<T, IntDiv>(o, "div." + t);
    add_two<T, IntRem>(o, "rem." + t);
    add_one<T, T, Abs>(o, "abs." + t);
    add_one<U, U, Neg>(o, "neg." + t);
    (*o)["shr." + t] = {shift<T, Shr>, n + "=" + n + "4"};
    (*o)["selp." + t] = {select<U>, n + "=" + n + n + "p"};
    (*o)["mov." + t] = {one<U, U, Move>, n + "=" + n};
    if constexpr (sizeof(T) > 2) {
        add_two<U, MulLo>(o, "mul.lo." + t);
        (*o)["mad.lo." + t] = {mad<U>, n + "=" + n + n + n};
        (*o)["bfe." + t] = {extract<T>, n + "=" + n + "44"};
    } else {
        add_two<U, MulLo>(o, "mul.lo." + t);
    }
}

template <class T>
static void words(Operations* o, const std::string& t) {
    const std::string n(1, (char)('0' + sizeof(T)));
    add_two<T, And>(o, "and." + t);
    add_two<T, Or>(o, "or." + t);
    add_two<T, Xor>(o, "xor." + t);
    add_one<T, T, Not>(o, "not." + t);
    (*o)["shl." + t] = {shift<T, Shl>, n + "=" + n + "4"};
    (*o)["shr." + t] = {shift<T, Shr>, n + "=" + n + "4"};
    (*o)["selp." + t] = {select<T>, n + "=" + n + n + "p"};
    (*o)["bfi." + t] = {insert<T>, n + "=" + n + n + "44"};
    add_one<T, T, Move>(o, "mov." + t);
}

template <class T>
static void floats(Operations* o, const std::string& t) {
    const std::string n(1, (char)('0' + sizeof(T)));
    for (const std::string r : {"", ".rn"}) {
        add_two<T, Add>(o, "add" + r + "." + t);
        add_two<T, Sub>(o, "sub" + r + "." + t);
        add_two<T, Mul>(o, "mul" + r + "." + t);
    }
    add_two<T, Div>(o, "div.rn." + t);
    add_two<T, FloatMin>(o, "min." + t);
    add_two<T, FloatMax>(o, "max." + t);
    add_one<T, T, FloatAbs>(o, "abs." + t);
    add_one<T, T, FloatNeg>(o, "neg." + t);
    add_one<T, T, Sqrt>(o, "sqrt.rn." + t);
    add_one<T, T, Rcp>(o, "rcp.rn." + t);
    typedef typename std::conditional<sizeof(T) == 4, u32, u64>::type U;
    (*o)["selp." + t] = {select<U>, n + "=" + n + n + "p"};
    (*o)["mov." + t] = {one<U, U, Move>, n + "=" + n};
    (*o)["fma.rn." + t] = {sizeof(T) == 4 ? fma32 : fma64, n + "=" + n + n + n};
}

static Operations table() {
    Operations o;
    integers<u16>(&o, "u16");
    integers<s16>(&o, "s16");
    integers<u32>(&o, "u32");
    integers<s32>(&o, "s32");
    integers<u64>(&o, "u64");
    integers<s64>(&o, "s64");
    words<u16>(&o, "b16");
    words<u32>(&o, "b32");
    words<u64>(&o, "b64");
    floats<float>(&o, "f32");
    floats<double>(&o, "f64");
    o["mul.wide.u16"] = {mul_wide<u32, u16>, "4=22"};
    o["mul.wide.s16"] = {mul_wide<s32, s16>, "4=22"};
    o["mul.wide.u32"] = {mul_wide<u64, u32>, "8=44"};
    o["mul.wide.s32"] = {mul_wide<s64, s32>, "8=44"};
    o["mad.wide.u32"] = {mad_wide<u64, u32>, "8=448"};
    o["mad.wide.s32"] = {mad_wide<s64, s32>, "8=448"};
    o["shf.l.wrap.b32"] = {funnel<true, true>, "4=444"};
    o["shf.r.wrap.b32"] = {funnel<false, true>, "4=444"};
    o["shf.l.clamp.b32"] = {funnel<true, false>, "4=444"};
    o["shf.r.clamp.b32"] = {funnel<false, false>, "4=444"};
    o["lop3.b32"] = {lop3, "4=4444"};
    o["prmt.b32"] = {permute, "4=444"};
    add_one<u32, u32, Popc>(&o, "popc.b32");
    add_one<u32, u32, Clz>(&o, "clz.b32");
    add_one<u32, u32, Brev>(&o, "brev.b32");
    add_two<float, MinNan>(&o, "min.NaN.f32");
    add_two<float, MaxNan>(&o, "max.NaN.f32");
    add_two<u16, Half<MinNan>>(&o, "min.NaN.f16");
    add_two<u16, Half<MaxNan>>(&o, "max.NaN.f16");
    add_one<float, float, RcpApprox>(&o, "rcp.approx.ftz.f32");
    add_one<float, float, Ex2Approx>(&o, "ex2.approx.ftz.f32");
    for (const std::string r : {"", ".rn"}) {
        add_two<u16, Half<Add>>(&o, "add" + r + ".f16");
        add_two<u16, Half<Sub>>(&o, "sub" + r + ".f16");
        add_two<u16, Half<Mul>>(&o, "mul" + r + ".f16");
        add_two<u32, Half2<Add>>(&o, "add" + r + ".f16x2");
        add_two<u32, Half2<Sub>>(&o, "sub" + r + ".f16x2");
        add_two<u32, Half2<Mul>>(&o, "mul" + r + ".f16x2");
    }
    add_one<u16, u16, HalfNeg>(&o, "neg.f16");
    add_one<u32, u32, HalfNeg2>(&o, "neg.f16x2");
    add_one<u16, u16, HalfAbs>(&o, "abs.f16");
    add_one<u64, u64, Move>(&o, "cvta.to.global.u64");  // global addresses are generic ones
    add_one<u64, u64, Move>(&o, "cvta.global.u64");
    o["cvta.shared.u64"] = {generic_of_shared, "8=8"};
    o["cvta.to.shared.u64"] = {shared_of_generic, "8=8"};
    o["and.pred"] = {predicates<And>, "p=pp"};
    o["or.pred"] = {predicates<Or>, "p=pp"};
    o["xor.pred"] = {predicates<Xor>, "p=pp"};
    o["not.pred"] = {predicate<Not>, "p=p"};
    o["mov.pred"] = {predicate<Move>, "p=p"};
    for (const char* name : {"membar.sys", "membar.gl", "membar.cta", "fence.acq_rel.gpu"}) o[name] = {nothing, "="};
    return o;
}

bool arithmetic(const std::string& opcode, Operation* out) {
    static const Operations& all = *new Operations(table());
    auto found = all.find(opcode);
    return found != all.end() && (*out = found->second, true);
}

// Packing moves look like others but for their operands: "mov.b64 {a, b}, c". together asks for them by the number of operands.
bool packing(const std::string& opcode, size_t to, size_t from, Operation* out) {
    if (opcode == "mov.b64" && to == 2) return *out = {unpack2<u32, u64>, "44=8"}, true;
    if (opcode == "mov.b64" && from == 2) return *out = {pack2<u64, u32>, "8=44"}, true;
    if (opcode == "mov.b32" && to == 2) return *out = {unpack2<u16, u32>, "22=4"}, true;
    if (opcode == "mov.b32" && from == 2) return *out = {pack2<u32, u16>, "4=22"}, true;
    if (opcode == "mov.b64" && to == 4) return *out = {unpack4, "2222=8"}, true;
    if (opcode == "mov.b64" && from == 4) return *out = {pack4, "8=2222"}, true;
    return false;
}

}  // namespace interpreter
}  // namespace fake
