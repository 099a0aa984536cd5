// Comparisons and conversions.
#include <math.h>

#include <limits>
#include <map>

#include "program.h"

namespace fake {
namespace interpreter {

// ---- setp
struct Eq { template <class T> static bool of(T a, T b) { return a == b; } };
struct Ne { template <class T> static bool of(T a, T b) { return a != b && a == a && b == b; } };
struct Lt { template <class T> static bool of(T a, T b) { return a < b; } };
struct Le { template <class T> static bool of(T a, T b) { return a <= b; } };
struct Gt { template <class T> static bool of(T a, T b) { return a > b; } };
struct Ge { template <class T> static bool of(T a, T b) { return a >= b; } };
// The same, or one of the two is not a number.
struct Equ { template <class T> static bool of(T a, T b) { return !(a < b) && !(a > b); } };
struct Neu { template <class T> static bool of(T a, T b) { return a != b; } };
struct Ltu { template <class T> static bool of(T a, T b) { return !(a >= b); } };
struct Leu { template <class T> static bool of(T a, T b) { return !(a > b); } };
struct Gtu { template <class T> static bool of(T a, T b) { return !(a <= b); } };
struct Geu { template <class T> static bool of(T a, T b) { return !(a < b); } };
struct Num { template <class T> static bool of(T a, T b) { return a == a && b == b; } };
struct Nan { template <class T> static bool of(T a, T b) { return a != a || b != b; } };

static inline void set(Warp& w, u32 place, u32 values) {
    u32* const p = reg<u32>(w, place);
    *p = (*p & ~w.mask) | (values & w.mask);
}

template <class T, class F>
static void compare(Warp& w, const Ins& i) {
    const T *const a = reg<T>(w, i.o[1]), *const b = reg<T>(w, i.o[2]);
    u32 r = 0;
    for (int l = 0; l < LANES; l++) r |= (u32)F::of(a[l], b[l]) << l;
    set(w, i.o[0], r);
}
template <class F>
static void compare_half(Warp& w, const Ins& i) {
    const u16 *const a = reg<u16>(w, i.o[1]), *const b = reg<u16>(w, i.o[2]);
    u32 r = 0;
    for (int l = 0; l < LANES; l++) r |= (u32)F::of(half_value(a[l]), half_value(b[l])) << l;
    set(w, i.o[0], r);
}
template <class F>
static void compare_half2(Warp& w, const Ins& i) {
    const u32 *const a = reg<u32>(w, i.o[2]), *const b = reg<u32>(w, i.o[3]);
    u32 low = 0, high = 0;
    for (int l = 0; l < LANES; l++) {
        low |= (u32)F::of(half_value((u16)a[l]), half_value((u16)b[l])) << l;
        high |= (u32)F::of(half_value((u16)(a[l] >> 16)), half_value((u16)(b[l] >> 16))) << l;
    }
    set(w, i.o[0], low);
    set(w, i.o[1], high);
}

template <class F>
static bool of_type(const std::string& t, bool floats_only, Operation* out) {
    if (t == "f32") return *out = {compare<float, F>, "p=44"}, true;
    if (t == "f64") return *out = {compare<double, F>, "p=88"}, true;
    if (t == "f16") return *out = {compare_half<F>, "p=22"}, true;
    if (t == "f16x2") return *out = {compare_half2<F>, "pp=44"}, true;
    if (floats_only) return false;
    if (t == "s16") return *out = {compare<s16, F>, "p=22"}, true;
    if (t == "u16" || t == "b16") return *out = {compare<u16, F>, "p=22"}, true;
    if (t == "s32") return *out = {compare<s32, F>, "p=44"}, true;
    if (t == "u32" || t == "b32") return *out = {compare<u32, F>, "p=44"}, true;
    if (t == "s64") return *out = {compare<s64, F>, "p=88"}, true;
    if (t == "u64" || t == "b64") return *out = {compare<u64, F>, "p=88"}, true;
    return false;
}

bool comparison(const std::vector<std::string>& words, Operation* out) {
    if (words.size() != 3) return false;  // no .ftz, no second predicate
    const std::string &c = words[1], &t = words[2];
    if (c == "eq") return of_type<Eq>(t, false, out);
    if (c == "ne") return of_type<Ne>(t, false, out);
    if (c == "lt" || c == "lo") return of_type<Lt>(t, false, out);
    if (c == "le" || c == "ls") return of_type<Le>(t, false, out);
    if (c == "gt" || c == "hi") return of_type<Gt>(t, false, out);
    if (c == "ge" || c == "hs") return of_type<Ge>(t, false, out);
    if (c == "equ") return of_type<Equ>(t, true, out);
    if (c == "neu") return of_type<Neu>(t, true, out);
    if (c == "ltu") return of_type<Ltu>(t, true, out);
    if (c == "leu") return of_type<Leu>(t, true, out);
    if (c == "gtu") return of_type<Gtu>(t, true, out);
    if (c == "geu") return of_type<Geu>(t, true, out);
    if (c == "num") return of_type<Num>(t, true, out);
    if (c == "nan") return of_type<Nan>(t, true, out);
    return false;
}

// ---- cvt. A type is how a register's bits are read and written; halves are of other structs than words of 16 bits.
enum Rounding : u32 { NONE, RN, RNI, RZI, RMI, RPI };

struct F16 { u16 bits; };
struct BF16 { u16 bits; };

// through_odd rounds a double to float so that rounding that again, to half, is rounding once.
static float through_odd(double x) {
    float f = (float)x;
    if (x != x || (double)f == x || isinf(f)) return f;
    u32 b = bits<u32>(f);
    if (fabs((double)f) > fabs(x)) b--;
    return bits<float>(b | 1);
}

template <class S> static inline double wide(S x) { return (double)x; }
template <> inline double wide(F16 x) { return half_value(x.bits); }
template <> inline double wide(BF16 x) { return bfloat_value(x.bits); }

template <class D> struct Write {
    static D of(double x, u32) { return (D)x; }
};
template <> struct Write<float> {
    static float of(double x, u32) { return x != x ? bits<float>(0x7fffffffu) : (float)x; }
};
template <> struct Write<double> {
    static double of(double x, u32) { return x != x ? bits<double>((u64)0x7fffffffffffffff) : x; }
};
template <> struct Write<F16> {
    static F16 of(double x, u32) { return {half_of(through_odd(x))}; }
};
template <> struct Write<BF16> {
    static BF16 of(double x, u32) { return {bfloat_of(through_odd(x))}; }
};

static double rounded(double x, u32 mode) {
    switch (mode) {
        case RNI: return nearbyint(x);
        case RZI: return trunc(x);
        case RMI: return floor(x);
        case RPI: return ceil(x);
    }
    return x;
}

template <class T>
struct is_float {
    static const bool value = std::is_floating_point<T>::value || std::is_same<T, F16>::value || std::is_same<T, BF16>::value;
};

// saturated is a float as an integer: what does not fit becomes the nearest that does. What is not a number becomes 0, or in 64
// bits the highest bit.
template <class D>
static D saturated(double x) {
    if (x != x) return sizeof(D) == 8 ? (D)((u64)1 << 63) : (D)0;
    if (x <= (double)std::numeric_limits<D>::min()) return std::numeric_limits<D>::min();
    if (x >= (double)std::numeric_limits<D>::max()) return std::numeric_limits<D>::max();
    return (D)x;
}

template <class D, class S>
static void convert(Warp& w, const Ins& i) {
    D* const d = reg<D>(w, i.o[0]);
    const S* const s = reg<S>(w, i.o[1]);
    if constexpr (!is_float<D>::value && !is_float<S>::value) {
        LANES_DO(w, d[l] = (D)s[l]);
    } else if constexpr (!is_float<D>::value) {
        LANES_DO(w, d[l] = saturated<D>(rounded(wide(s[l]), i.mode)));
    } else if constexpr (!is_float<S>::value && std::is_floating_point<D>::value) {
        LANES_DO(w, d[l] = (D)s[l]);  // rounds to nearest, once
    } else {
        LANES_DO(w, d[l] = Write<D>::of(rounded(wide(s[l]), i.mode), i.mode));
    }
}

template <class D, class S>
static void add(std::map<std::string, Operation>* all, const char* d, const char* s) {
    (*all)[std::string(d) + "." + s] = {convert<D, S>, std::string() + (char)('0' + sizeof(D)) + "=" + (char)('0' + sizeof(S))};
}

template <class D>
static void from_all(std::map<std::string, Operation>* all, const char* d) {
    add<D, u16>(all, d, "u16");
    add<D, s16>(all, d, "s16");
    add<D, u32>(all, d, "u32");
    add<D, s32>(all, d, "s32");
    add<D, u64>(all, d, "u64");
    add<D, s64>(all, d, "s64");
    add<D, F16>(all, d, "f16");
    add<D, BF16>(all, d, "bf16");
    add<D, float>(all, d, "f32");
    add<D, double>(all, d, "f64");
}

static std::map<std::string, Operation> conversions() {
    std::map<std::string, Operation> all;
    from_all<u16>(&all, "u16");
    from_all<s16>(&all, "s16");
    from_all<u32>(&all, "u32");
    from_all<s32>(&all, "s32");
    from_all<u64>(&all, "u64");
    from_all<s64>(&all, "s64");
    from_all<F16>(&all, "f16");
    from_all<BF16>(&all, "bf16");
    from_all<float>(&all, "f32");
    from_all<double>(&all, "f64");
    return all;
}

static bool rounding(const std::string& word, u32* mode) {
    static const std::map<std::string, u32> names = {{"rn", RN},   {"rni", RNI}, {"rzi", RZI}, {"rmi", RMI}, {"rpi", RPI}};
    auto found = names.find(word);
    return found != names.end() && (*mode = found->second, true);
}

// cvt.rna.tf32: to 10 bits of mantissa, halves away from zero.
static void to_tf32(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    const u32* const s = reg<u32>(w, i.o[1]);
    LANES_DO(w, d[l] = (s[l] & 0x7fffffff) >= 0x7f800000 ? s[l] : (s[l] + 0x1000) & 0xffffe000);
}

// cvt of two floats to a pair of halves: the first goes to the upper one.
template <u16 (*ROUND)(float)>
static void to_pair(Warp& w, const Ins& i) {
    u32* const d = reg<u32>(w, i.o[0]);
    const float *const high = reg<float>(w, i.o[1]), *const low = reg<float>(w, i.o[2]);
    LANES_DO(w, d[l] = ROUND(low[l]) | (u32)ROUND(high[l]) << 16);
}

bool conversion(const std::vector<std::string>& words, Operation* out) {
    if (words.size() == 4 && words[1] == "rna" && words[2] == "tf32") return *out = {to_tf32, "4=4"}, true;
    if (words.size() == 4 && words[1] == "rn" && words[3] == "f32") {
        if (words[2] == "f16x2") return *out = {to_pair<half_of>, "4=44"}, true;
        if (words[2] == "bf16x2") return *out = {to_pair<bfloat_of>, "4=44"}, true;
    }
    static const auto& all = *new std::map<std::string, Operation>(conversions());
    u32 mode = NONE;
    if (words.size() != 3 && (words.size() != 4 || !rounding(words[1], &mode))) return false;
    auto found = all.find(words[words.size() - 2] + "." + words.back());
    if (found == all.end()) return false;
    *out = found->second;
    out->mode = mode;
    return true;
}

}  // namespace interpreter
}  // namespace fake
