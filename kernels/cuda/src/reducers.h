// What reductions compute. A reducer has a type of accumulator A, where it starts, how it takes in element j with value v,
// how it joins what two threads have (a stands for no later elements than b only where that is said), and what comes out.
// The Go reducers in kernels/cpu (reducers.go, argreduce.go) are the specification.
#pragma once

#include "functions.h"

template <class C> struct Sum {
    using A = C;
    FN static A start() { return 0; }
    FN static void fold(A& a, C v, u32) { a += v; }
    FN static void join(A& a, const A& b) { a += b; }
    FN static A finish(const A& a, u64) { return a; }
};

template <class C> struct Mean : Sum<C> {
    FN static C finish(const C& a, u64 n) { return a / (C)n; }
};

// Sums and products of integers; they wrap.
template <class C> struct IntSum {
    using A = u64;
    FN static A start() { return 0; }
    FN static void fold(A& a, C v, u32) { a += (u64)(i64)v; }
    FN static void join(A& a, const A& b) { a += b; }
    FN static i64 finish(const A& a, u64) { return (i64)a; }
};

template <class C> struct IntProd {
    using A = u64;
    FN static A start() { return 1; }
    FN static void fold(A& a, C v, u32) { a *= (u64)(i64)v; }
    FN static void join(A& a, const A& b) { a *= b; }
    FN static i64 finish(const A& a, u64) { return (i64)a; }
};

// Products round once for each element, whatever their order, so they are computed in more precision than their type has:
// those of float in double, those of double with the rounding errors beside them.
template <class C> struct Prod {
    using A = f64;
    FN static A start() { return 1; }
    FN static void fold(A& a, C v, u32) { a *= v; }
    FN static void join(A& a, const A& b) { a *= b; }
    FN static C finish(const A& a, u64) { return (C)a; }
};

struct Pair {
    f64 value, rest;
};

template <> struct Prod<f64> {
    using A = Pair;
    FN static A start() { return A{1, 0}; }
    FN static void fold(A& a, f64 v, u32) { join(a, A{v, 0}); }
    FN static void join(A& a, const A& b) {
        f64 p = a.value * b.value;
        a.rest = fma(a.value, b.value, -p) + (a.value * b.rest + a.rest * b.value);
        a.value = p;
    }
    FN static f64 finish(const A& a, u64) { return finite(a.rest) ? a.value + a.rest : a.value; }
};

template <class C> struct Limits;
template <> struct Limits<f32> { FN static f32 low() { return -__builtin_inff(); } FN static f32 high() { return __builtin_inff(); } };
template <> struct Limits<f64> { FN static f64 low() { return -__builtin_inf(); } FN static f64 high() { return __builtin_inf(); } };
template <> struct Limits<i64> { FN static i64 low() { return (i64)(1ull << 63); } FN static i64 high() { return (i64)(~0ull >> 1); } };
template <> struct Limits<i32> { FN static i32 low() { return (i32)(1u << 31); } FN static i32 high() { return (i32)(~0u >> 1); } };
template <> struct Limits<u8> { FN static u8 low() { return 0; } FN static u8 high() { return 255; } };

// The largest, or the least; NaN wins.
template <class C> struct Max {
    using A = C;
    FN static A start() { return Limits<C>::low(); }
    FN static void fold(A& a, C v, u32) { a = most<C>(nan(v) ? v : a, v); }
    FN static void join(A& a, const A& b) { fold(a, b, 0); }
    FN static A finish(const A& a, u64) { return a; }
};

template <class C> struct Min {
    using A = C;
    FN static A start() { return Limits<C>::high(); }
    FN static void fold(A& a, C v, u32) { a = least<C>(nan(v) ? v : a, v); }
    FN static void join(A& a, const A& b) { fold(a, b, 0); }
    FN static A finish(const A& a, u64) { return a; }
};

struct All : Min<u8> {
    FN static u8 start() { return 1; }
};

// The place of the first of the largest, or least, elements; the first NaN wins over all. Places decide between equal values,
// so elements may be taken in and joined in any order.
template <class C> struct Best {
    C value;
    u32 place;
};

constexpr u32 NOWHERE = ~0u;

template <class C, bool LEAST> struct Arg {
    using A = Best<C>;
    FN static A start() { return A{0, NOWHERE}; }
    FN static bool beats(const A& a, const A& b) {
        if (a.place == NOWHERE || b.place == NOWHERE) return b.place == NOWHERE;
        if (nan(a.value) || nan(b.value)) return nan(a.value) && (!nan(b.value) || a.place < b.place);
        if (a.value == b.value) return a.place < b.place;
        return LEAST ? a.value < b.value : a.value > b.value;
    }
    FN static void fold(A& a, C v, u32 j) { join(a, A{v, j}); }
    FN static void join(A& a, const A& b) {
        if (beats(b, a)) a = b;
    }
    FN static i64 finish(const A& a, u64) { return (i64)a.place; }
};

// Sums of sizes, the root of a sum of squares, and the extremes of sizes.
template <class C> struct Norm1 : Sum<C> {
    FN static void fold(C& a, C v, u32) { a += abs(v); }
};

template <class C> struct Norm2 : Sum<C> {
    FN static void fold(C& a, C v, u32) { a = fma(v, v, a); }
    FN static C finish(const C& a, u64) { return sqrt(a); }
};

template <class C> struct MeanSquare : Norm2<C> {
    FN static C finish(const C& a, u64 n) { return a / (C)n; }
};

template <class C> struct NormMax : Max<C> {
    FN static C start() { return 0; }
    FN static void fold(C& a, C v, u32) { Max<C>::fold(a, abs(v), 0); }
};

template <class C> struct NormMin : Min<C> {
    FN static void fold(C& a, C v, u32) { Min<C>::fold(a, abs(v), 0); }
};

template <class C> struct Nonzero {
    using A = u64;
    FN static A start() { return 0; }
    FN static void fold(A& a, C v, u32) { a += v != 0; }
    FN static void join(A& a, const A& b) { a += b; }
    FN static i64 finish(const A& a, u64) { return (i64)a; }
};

// The logarithm of the sum of exponentials: the largest so far, and the sum relative to it. Nothing is minus infinity; once the
// largest is infinite, equal elements count 1 each, because their distance is not 0 but NaN.
template <class C> struct Exps {
    C most, sum;
};

template <class C> struct LogSumExp {
    using A = Exps<C>;
    FN static A start() { return A{-Limits<C>::high(), 0}; }
    FN static void fold(A& a, C v, u32) { join(a, A{v, 1}); }
    FN static void join(A& a, const A& b) {
        if (b.most == -Limits<C>::high()) return;
        if (b.most == a.most) a.sum += b.sum;
        else if (b.most < a.most) a.sum += b.sum * exp(b.most - a.most);
        else a = A{b.most, b.sum + a.sum * exp(a.most - b.most)};
    }
    FN static C finish(const A& a, u64) { return a.most + log(a.sum); }
};
