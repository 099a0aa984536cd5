// The element-wise kernels: two for each function and type. name_v reads and writes vectors, of 16 bytes for the widest operand,
// where neighbours along the innermost dimension are neighbours in memory, or one element for all of them; name_s takes
// anything. Nothing is materialised for a broadcast. The output may be an input: a thread reads what it needs before it
// writes, and only to the places that it read.
#pragma once

#include "functions.h"

// Elements, or vectors, that a thread computes, THREADS apart.
constexpr u32 STEPS = 4, VECTORS = 2;

// Dimensions of a walk over vectors.
constexpr int VDIMS = 4;

// Whether a function computes for longer than a few loads take: one at a time is then enough, and less code.
template <class F> constexpr bool computes = false;
#define COMPUTES(F) template <> inline constexpr bool computes<F> = true;

// Whether it computes for so long that loads and stores of single elements do not matter.
template <class F> constexpr bool slow = false;
#define SLOW(F) template <> inline constexpr bool slow<F> = true;

#include "functions_gen.h"

// BYTES bytes, loaded and stored at once. The compiler must not see how: it would take vectors apart, to share accesses with the
// paths for single elements beside them.
template <int BYTES> struct Bits { u32 w[BYTES / 4]; };
template <> struct Bits<2> { u16 w[1]; };

#if defined(__CUDA_ARCH__)

using Global = __attribute__((address_space(1))) void*;

template <int BYTES> FN Bits<BYTES> load_bits(const void* p) {
    Global g = (Global)p;
    Bits<BYTES> b;
    if constexpr (BYTES == 16) asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(b.w[0]), "=r"(b.w[1]), "=r"(b.w[2]), "=r"(b.w[3]) : "l"(g));
    else if constexpr (BYTES == 8) asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(b.w[0]), "=r"(b.w[1]) : "l"(g));
    else if constexpr (BYTES == 4) asm volatile("ld.global.b32 %0, [%1];" : "=r"(b.w[0]) : "l"(g));
    else asm volatile("ld.global.b16 %0, [%1];" : "=h"(b.w[0]) : "l"(g));
    return b;
}

template <int BYTES> FN void store_bits(void* p, const Bits<BYTES>& b) {
    Global g = (Global)p;
    if constexpr (BYTES == 16) asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(g), "r"(b.w[0]), "r"(b.w[1]), "r"(b.w[2]), "r"(b.w[3]) : "memory");
    else if constexpr (BYTES == 8) asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(g), "r"(b.w[0]), "r"(b.w[1]) : "memory");
    else if constexpr (BYTES == 4) asm volatile("st.global.b32 [%0], %1;" ::"l"(g), "r"(b.w[0]) : "memory");
    else asm volatile("st.global.b16 [%0], %1;" ::"l"(g), "h"(b.w[0]) : "memory");
}

#else

template <int BYTES> FN Bits<BYTES> load_bits(const void* p) {
    Bits<BYTES> b;
    __builtin_memcpy(&b, p, BYTES);
    return b;
}
template <int BYTES> FN void store_bits(void* p, const Bits<BYTES>& b) { __builtin_memcpy(p, &b, BYTES); }

#endif

// V elements from p on, of which left are there: beyond, the first one stands in. Or one element, for all.
template <int V, class T> FN vec<T, V> fetch(const T* p, bool one, u32 left) {
    if (!one && left >= V) return __builtin_bit_cast(vec<T, V>, load_bits<V * sizeof(T)>(p));
    vec<T, V> v;
    T first = *p;
    #pragma unroll
    for (u32 e = 0; e < V; e++) v[e] = first;
    if (one) return v;
    #pragma unroll
    for (u32 e = 1; e < V; e++)
        if (e < left) v[e] = p[e];
    return v;
}

template <int V, class T> FN void put_back(T* p, const vec<T, V>& v, u32 left) {
    if (left >= V) return store_bits(p, __builtin_bit_cast(Bits<V * sizeof(T)>, v));
    #pragma unroll
    for (u32 e = 0; e < V; e++)
        if (e < left) p[e] = v[e];
}

// F of the elements at one place.
template <class F, class D, class S, class A> FN D value(const A (&x)[1], S s, S t) {
    return put<D>(F::template of<Compute<A>, S>(get(x[0]), s, t));
}
template <class F, class D, class S, class A> FN D value(const A (&x)[2], S s, S t) {
    return put<D>(F::template of<Compute<A>, S>(get(x[0]), get(x[1]), s, t));
}
template <class F, class D, class S, class A> FN D value(const A (&x)[3], S s, S t) {
    return put<D>(F::template of<Compute<A>, S>(get(x[0]), get(x[1]), get(x[2]), s, t));
}

// M vectors, from number i on, of n elements in all.
template <class F, int M, class D, class A, class S, int N>
FN void map_vectors(u32 n, u32 i, const Walk<N + 1, VDIMS>& w, D* dst, const A* const (&in)[N], S s, S t) {
    constexpr int V = 16 / larger(sizeof(D), sizeof(A));
    i64 at[M][N + 1];
    vec<A, V> x[M][N];
    seek_all(w, i, THREADS, at);
    #pragma unroll
    for (int m = 0; m < M; m++)
        #pragma unroll
        for (int k = 0; k < N; k++)
            if (i + m * THREADS < w.total) x[m][k] = fetch<V>(in[k] + at[m][k + 1], w.stride[k + 1][0] == 0, n - (i + m * THREADS) * V);
    #pragma unroll
    for (int m = 0; m < M; m++) {
        if (i + m * THREADS >= w.total) return;
        vec<D, V> r;
        #pragma unroll
        for (int e = 0; e < V; e++) {
            A at_e[N];
            #pragma unroll
            for (int k = 0; k < N; k++) at_e[k] = x[m][k][e];
            r[e] = value<F, D, S>(at_e, s, t);
        }
        put_back<V>(dst + at[m][0], r, n - (i + m * THREADS) * V);
    }
}

// The elements of vector number i, one after the other.
template <class F, class D, class A, class S, int N>
FN void map_slowly(u32 n, u32 i, const Walk<N + 1, VDIMS>& w, D* dst, const A* const (&in)[N], S s, S t) {
    constexpr u32 V = 16 / larger(sizeof(D), sizeof(A));
    i64 at[1][N + 1];
    seek_all(w, i, THREADS, at);
    if (i >= w.total) return;
    u32 left = n - i * V;
    #pragma unroll 1
    for (u32 e = 0; e < V && e < left; e++) {
        A x[N];
        #pragma unroll
        for (int k = 0; k < N; k++) x[k] = in[k][at[0][k + 1] + (w.stride[k + 1][0] == 0 ? 0 : e)];
        dst[at[0][0] + e] = value<F, D, S>(x, s, t);
    }
}

template <class F, class D, class A, class S, int N>
FN void map_v(u32 n, const Walk<N + 1, VDIMS>& w, D* dst, const A* const (&in)[N], S s, S t) {
    constexpr int M = computes<F> ? 1 : VECTORS;
    u32 first = blockIdx.x * THREADS * VECTORS + threadIdx.x;
    #pragma unroll 1
    for (u32 m = 0; m < VECTORS; m += M)
        if constexpr (slow<F>) map_slowly<F>(n, first + m * THREADS, w, dst, in, s, t);
        else map_vectors<F, M>(n, first + m * THREADS, w, dst, in, s, t);
}

template <class F, class D, class A, class S, int N>
FN void map_s(const Walk<N + 1>& w, D* dst, const A* const (&in)[N], S s, S t) {
    constexpr int M = computes<F> ? 1 : STEPS;
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    #pragma unroll 1
    for (u32 step = 0; step < STEPS; step += M, i += M * THREADS) {
        i64 at[M][N + 1];
        A x[M][N];
        seek_all(w, i, THREADS, at);
        #pragma unroll
        for (int m = 0; m < M; m++)
            #pragma unroll
            for (int k = 0; k < N; k++)
                if (i + m * THREADS < w.total) x[m][k] = in[k][at[m][k + 1]];
        #pragma unroll
        for (int m = 0; m < M; m++)
            if (i + m * THREADS < w.total) dst[at[m][0]] = value<F, D, S>(x[m], s, t);
    }
}

#define MAP1(NAME, F, D, A, S)                                                                                        \
    KERNEL NAME##_v(u32 n, Walk<2, VDIMS> w, D* dst, const A* a, S s, S t) {                                          \
        const A* const in[1] = {a};                                                                                   \
        map_v<F>(n, w, dst, in, s, t);                                                                                \
    }                                                                                                                 \
    KERNEL NAME##_s(Walk<2> w, D* dst, const A* a, S s, S t) {                                                        \
        const A* const in[1] = {a};                                                                                   \
        map_s<F>(w, dst, in, s, t);                                                                                   \
    }

#define MAP2(NAME, F, D, A, S)                                                                                        \
    KERNEL NAME##_v(u32 n, Walk<3, VDIMS> w, D* dst, const A* a, const A* b, S s, S t) {                              \
        const A* const in[2] = {a, b};                                                                                \
        map_v<F>(n, w, dst, in, s, t);                                                                                \
    }                                                                                                                 \
    KERNEL NAME##_s(Walk<3> w, D* dst, const A* a, const A* b, S s, S t) {                                            \
        const A* const in[2] = {a, b};                                                                                \
        map_s<F>(w, dst, in, s, t);                                                                                   \
    }

#define MAP3(NAME, F, T, S)                                                                                           \
    KERNEL NAME##_v(u32 n, Walk<4, VDIMS> w, T* dst, const T* a, const T* b, const T* c, S s, S t) {                  \
        const T* const in[3] = {a, b, c};                                                                             \
        map_v<F>(n, w, dst, in, s, t);                                                                                \
    }                                                                                                                 \
    KERNEL NAME##_s(Walk<4> w, T* dst, const T* a, const T* b, const T* c, S s, S t) {                                \
        const T* const in[3] = {a, b, c};                                                                             \
        map_s<F>(w, dst, in, s, t);                                                                                   \
    }
