// What all kernels share: element types, their conversions, 16-byte vectors, and walks over strided views.
//
// Everything here compiles for the device (clang, no CUDA headers) and, under the emulation header gk.h, for the processor.
// Rules that keep the two equal bit by bit: no contraction of a*b+c (the compilers are told), fma only where written, and
// no library functions.
#pragma once

#include "gk.h"

#define FN GK_METHOD
#define KERNEL GK_KERNEL(THREADS) void

using gk::bf16;
using gk::f16;
using gk::vec;

using f32 = float;
using f64 = double;
using i64 = long long;
using i32 = int;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct b8 { u8 bits; }; // Bool: 0 or 1

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };
template <bool FIRST, class A, class B> struct Either { using type = A; };
template <class A, class B> struct Either<false, A, B> { using type = B; };
template <class T> constexpr bool is_float = Same<T, f32>::value || Same<T, f64>::value;
template <class T> constexpr bool is_half = Same<T, f16>::value || Same<T, bf16>::value;

FN u32 bits_of(f32 v) { return __builtin_bit_cast(u32, v); }
FN u64 bits_of(f64 v) { return __builtin_bit_cast(u64, v); }
FN f32 float_of(u32 b) { return __builtin_bit_cast(f32, b); }
FN f64 double_of(u64 b) { return __builtin_bit_cast(f64, b); }

// The type that elements of type T are computed with.
template <class T> struct ComputeOf { using type = T; };
template <> struct ComputeOf<f16> { using type = f32; };
template <> struct ComputeOf<bf16> { using type = f32; };
template <> struct ComputeOf<b8> { using type = u8; };
template <class T> using Compute = typename ComputeOf<T>::type;

// get reads an element into the type of computation; put<T> rounds a result back.
template <class T> FN T get(T v) { return v; }
FN f32 get(f16 v) { return (f32)v; }
FN f32 get(bf16 v) { return (f32)v; }
FN u8 get(b8 v) { return v.bits; }

template <class T> struct Put {
    template <class C> static FN T from(C v) { return (T)v; }
};
template <> struct Put<b8> { static FN b8 from(u8 v) { return b8{v}; } };
template <class T, class C> FN T put(C v) { return Put<T>::from(v); }

// Vectors of elements are loaded and stored at once.
template <class T, int N> FN vec<T, N> load(const T* p) { return *(const vec<T, N>*)p; }
template <class T, int N> FN void store(T* p, const vec<T, N>& v) { *(vec<T, N>*)p = v; }

// The same for words, of which the compiler stores some of a vec one by one.
FN void store_words(void* p, u32 a, u32 b, u32 c, u32 d) {
    using Words4 = u32 __attribute__((vector_size(16)));
    *(Words4*)p = Words4{a, b, c, d};
}
FN void store_pair(f32* p, f32 a, f32 b) {
    using Pair = f32 __attribute__((vector_size(8)));
    *(Pair*)p = Pair{a, b};
}

constexpr int larger(int a, int b) { return a > b ? a : b; }

// Threads of a block, in all kernels but the matrix products.
constexpr u32 THREADS = 256;

// division by a constant that the host prepared, for numbers below 2^31.
struct Div { u32 size, mul, shift; };

FN u32 mul_high(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
FN u32 quotient(const Div& d, u32 n) { return (mul_high(n, d.mul) + n) >> d.shift; }

constexpr int DIMS = 8;

// The loop over elements 0..total-1 of N operands of one shape. Dimension 0 is the innermost. Strides are in elements.
template <int N, int D = DIMS> struct Walk {
    u32 total, ndim;
    Div dim[D];
    i64 stride[N][D];
};

// The places of element i, relative to each operand's first.
template <int N, int D> FN void seek(const Walk<N, D>& w, u32 i, i64 (&at)[N]) {
    for (int k = 0; k < N; k++) at[k] = 0;
    #pragma unroll
    for (int d = 0; d < D; d++) {
        if ((u32)d >= w.ndim) break;
        u32 q = quotient(w.dim[d], i), r = i - q * w.dim[d].size;
        for (int k = 0; k < N; k++) at[k] += (i64)r * w.stride[k][d];
        i = q;
    }
}

// The places of elements i, i+step, ..., of which there are M.
template <int M, int N, int D> FN void seek_all(const Walk<N, D>& w, u32 i, u32 step, i64 (&at)[M][N]) {
    if (w.ndim <= 1) { // no division
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int k = 0; k < N; k++) at[m][k] = (i64)(i + m * step) * w.stride[k][0];
        return;
    }
    #pragma unroll 1
    for (int m = 0; m < M; m++) { // one copy of seek is enough
        i64 p[N];
        seek(w, i + m * step, p);
        #pragma unroll
        for (int j = 0; j < M; j++)
            #pragma unroll
            for (int k = 0; k < N; k++)
                if (j == m) at[j][k] = p[k];
    }
}

// Exact conversions on the way to a half type: the float is rounded to odd, so that rounding it once more to the half type
// gives what one rounding would.
FN f32 odd_float(f64 v) {
    f32 f = (f32)v;
    u32 b = bits_of(f);
    if ((f64)f == v || f != f || ((b & 1) && (b & 0x7fffffff) != 0x7f800000)) return f;
    b += ((f64)f > v) == (v > 0) ? ~0u : 1u;
    return float_of(b);
}

FN f32 odd_int(i64 v) {
    u64 m = v < 0 ? 0 - (u64)v : (u64)v;
    u64 rest = m >> 24;
    int drop = 0;
    while (rest) { // at most 40 bits: integers beyond 2^24 are rare
        rest >>= 1;
        drop++;
    }
    u64 kept = m >> drop;
    if (kept << drop != m) kept |= 1;
    f32 f = (f32)(u32)kept * float_of((u32)(127 + drop) << 23);
    return v < 0 ? -f : f;
}

// A double as an element of a float type, rounded once.
template <class T> FN T round_to(f64 v) { return (T)v; }
template <> FN f16 round_to<f16>(f64 v) { return put<f16>(odd_float(v)); }
template <> FN bf16 round_to<bf16>(f64 v) { return put<bf16>(odd_float(v)); }

FN bool finite(f32 v) { return v - v == 0; }
FN bool finite(f64 v) { return v - v == 0; }

// What this thread wrote is seen by the host before what it writes next.
FN void system_fence() {
#if defined(__CUDA_ARCH__)
    __nvvm_membar_sys();
#else
    __threadfence();
#endif
}

// A note of an index out of range, for the host, which finds it after its next wait: state, operation, index, place, size. The
// first thread that finds one takes the note, writes, and then says that it is written; until the host has read it, others
// are dropped. The memory is the host's.
struct Note {
    u64* words;
    u64 operation;
};

enum : u64 { NOTE_FREE = 0, NOTE_TAKEN = 1, NOTE_WRITTEN = 2 };

FN void complain(const Note& note, i64 index, u64 place, u64 size) {
    if (atomicCAS(note.words, NOTE_FREE, NOTE_TAKEN) != NOTE_FREE) return;
    volatile u64* w = note.words;
    w[1] = note.operation;
    w[2] = (u64)index;
    w[3] = place;
    w[4] = size;
    system_fence();
    w[0] = NOTE_WRITTEN;
}
