// Random numbers and Arange: what is made from nothing. The layout of random words is that of kernels/cpu/philox.go, so that
// the numbers are the processor's; Normal is computed in double as there, because it is for initial values, not for loops.
#include "math.h"

struct Words { u32 w[4]; };

// Philox4x32-10 of Salmon, Moraes, Dror and Shaw (SC 2011).
FN Words philox(u64 key, u64 n, u32 s) {
    u32 c0 = (u32)n, c1 = (u32)(n >> 32), c2 = s, c3 = 0, k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
    for (int i = 0; i < 10; i++) {
        u64 p0 = (u64)0xD2511F53 * c0, p1 = (u64)0xCD9E8D57 * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return Words{{c0, c1, c2, c3}};
}

// The four uniform numbers of block n, in [0, 1).
FN void uniforms(f32 (&u)[4], u64 key, u64 n) {
    Words w = philox(key, n, 0);
    #pragma unroll
    for (int j = 0; j < 4; j++) u[j] = (f32)(w.w[j] >> 8) * 0x1p-24f;
}
FN void uniforms(f64 (&u)[4], u64 key, u64 n) {
    Words w = philox(key, n, 0), v = philox(key, n, 1);
    #pragma unroll
    for (int j = 0; j < 4; j++) u[j] = (f64)(((u64)w.w[j] << 32 | v.w[j]) >> 11) * 0x1p-53;
}

template <class C> FN void uniform(C (&u)[4], f64 from, f64 to, f64 most) {
    C start = (C)from, width = (C)(to - from), last = (C)most;
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        C v = start + u[j] * width;
        u[j] = v > last ? last : v;
    }
}

// The method of Box and Muller. 1-u is exact, and in (0, 1].
template <class T, class C> FN void normal(T (&r)[4], const C (&u)[4], f64 mean, f64 deviation) {
    #pragma unroll
    for (int j = 0; j < 4; j += 2) {
        f64 size = sqrt(-2.0 * log(1.0 - (f64)u[j])), sin, cos;
        sincos(6.283185307179586 * (f64)u[j + 1], sin, cos);
        r[j] = round_to<T>(mean + deviation * size * cos);
        r[j + 1] = round_to<T>(mean + deviation * size * sin);
    }
}

// Key and counter offset of a launch. at may be null; else it has the key, and what is added to the offset.
struct Seed {
    u64 key, first;
};

FN Seed seed_of(u64 key, u64 first, const u64* at) {
    if (at) return {at[0], first + at[1]};
    return {key, first};
}

enum { UNIFORM, NORMAL, BERNOULLI };

// Each thread makes the four elements of one block.
template <int KIND, class T, class C> FN void random(u64 n, T* dst, const Seed& seed, f64 a, f64 b, f64 c) {
    u64 block = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (block * 4 >= n) return;
    C u[4];
    uniforms(u, seed.key, seed.first + block);
    vec<T, 4> x;
    T (&r)[4] = x.v;
    if constexpr (KIND == UNIFORM) {
        uniform(u, a, b, c);
        #pragma unroll
        for (int j = 0; j < 4; j++) r[j] = put<T>(u[j]);
    } else if constexpr (KIND == NORMAL) {
        normal(r, u, a, b);
    } else {
        #pragma unroll
        for (int j = 0; j < 4; j++) r[j] = put<T>((Compute<T>)((f64)u[j] < a ? 1 : 0));
    }
    if (block * 4 + 4 <= n && (u64)dst % sizeof(x) == 0) return store<T, 4>(dst + block * 4, x);
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (block * 4 + j < n) dst[block * 4 + j] = r[j];
}

#define RANDOM(KIND, NAME, T, C)                                                                                      \
    KERNEL NAME##_##T(u64 n, T* dst, u64 key, u64 first, f64 a, f64 b, f64 c, const u64* at) {                        \
        random<KIND, T, C>(n, dst, seed_of(key, first, at), a, b, c);                                                 \
    }
#define RANDOMS(T, C) RANDOM(UNIFORM, uniform, T, C) RANDOM(NORMAL, normal, T, C) RANDOM(BERNOULLI, bernoulli, T, C)

RANDOMS(f32, f32)
RANDOMS(f64, f64)
RANDOMS(f16, f32)
RANDOMS(bf16, f32)
RANDOM(BERNOULLI, bernoulli, b8, f32)

// Which of the four elements of block n are kept: those whose uniform number is less than keep. A number of float is an integer
// over 2^24, and so is compared as one, with the same result.
struct Kept { bool of[4]; };

FN u32 bound(f64 keep) { return (u32)__builtin_ceil(keep * 0x1p24); }

FN Kept kept(u64 key, u64 n, f64, u32 bound) {
    Words w = philox(key, n, 0);
    Kept k;
    #pragma unroll
    for (int j = 0; j < 4; j++) k.of[j] = w.w[j] >> 8 < bound;
    return k;
}

template <class T> FN Kept keep_of(u64 key, u64 n, f64 keep, u32 bound) {
    if constexpr (!Same<T, f64>::value) return kept(key, n, keep, bound);
    f64 u[4];
    uniforms(u, key, n);
    return {{u[0] < keep, u[1] < keep, u[2] < keep, u[3] < keep}};
}

// V elements, of one block or of two, at once where they lie so, else one by one. dst may be a.
template <class T, class C> FN void dropout(u64 n, T* dst, const T* a, const Seed& seed, f64 keep, f64 factor) {
    constexpr u32 V = sizeof(T) == 2 ? 8 : 4;
    u64 thread = (u64)blockIdx.x * THREADS + threadIdx.x, at = thread * V;
    if (at >= n) return;
    C scale = (C)factor;
    u32 limit = bound(keep);
    bool whole = at + V <= n && (((u64)dst | (u64)a) & 15) == 0;
    constexpr u32 PIECE = 16 / sizeof(T);
    vec<T, PIECE> x[V / PIECE];
    #pragma unroll
    for (u32 m = 0; m < V / PIECE; m++)
        if (whole) x[m] = load<T, PIECE>(a + at + m * PIECE);
    C by[V];
    #pragma unroll
    for (u32 b = 0; b < V; b += 4) {
        Kept k = keep_of<T>(seed.key, seed.first + (at + b) / 4, keep, limit);
        #pragma unroll
        for (u32 j = 0; j < 4; j++) by[b + j] = k.of[j] ? scale : (C)0;
    }
    if (whole) {
        #pragma unroll
        for (u32 m = 0; m < V / PIECE; m++) {
            #pragma unroll
            for (u32 e = 0; e < PIECE; e++) x[m][e] = put<T>(get(x[m][e]) * by[m * PIECE + e]);
            store<T, PIECE>(dst + at + m * PIECE, x[m]);
        }
        return;
    }
    #pragma unroll
    for (u32 e = 0; e < V; e++)
        if (at + e < n) dst[at + e] = put<T>(get(a[at + e]) * by[e]);
}

#define DROPOUT(T, C)                                                                                                 \
    KERNEL dropout_##T(u64 n, T* dst, const T* a, u64 key, u64 first, f64 keep, f64 factor, const u64* at) {          \
        dropout<T, C>(n, dst, a, seed_of(key, first, at), keep, factor);                                              \
    }

DROPOUT(f32, f32)
DROPOUT(f64, f64)
DROPOUT(f16, f32)
DROPOUT(bf16, f32)

template <class T> FN T progression(u64 i, f64 start, f64 step) { return round_to<T>(start + (f64)i * step); }
template <class T> FN T progression(u64 i, i64 start, i64 step) { return (T)((u64)start + i * (u64)step); }

#define ARANGE(T, S)                                                                                                  \
    KERNEL arange_##T(u64 n, T* dst, i64 stride, S start, S step) {                                   \
        u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;                                                              \
        if (i < n) dst[(i64)i * stride] = progression<T>(i, start, step);                                             \
    }

ARANGE(f32, f64)
ARANGE(f64, f64)
ARANGE(f16, f64)
ARANGE(bf16, f64)
ARANGE(i64, i64)
ARANGE(i32, i64)
ARANGE(u8, i64)
