// Fill, Copy, Where and IndexSelect: operations that only move bits, one for each size of an element.
#include "elementwise.h"

struct Same_ {
    template <class C, class S> FN static C of(C a, S, S) { return a; }
};

template <class T> FN void fill_v(u32 n, T* dst, T value) {
    constexpr int V = 16 / sizeof(T);
    u32 i = (blockIdx.x * THREADS + threadIdx.x) * V;
    vec<T, V> v;
    for (int k = 0; k < V; k++) v.v[k] = value;
    if (i + V <= n) store<T, V>(dst + i, v);
    else for (; i < n; i++) dst[i] = value;
}

template <class T> FN void fill_s(const Walk<1>& w, T* dst, T value) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[1];
        seek<1>(w, i, at);
        dst[at[0]] = value;
    }
}

template <class T> FN void where_v(u32 n, T* dst, const u8* a, const T* b, const T* c, const Lane& la, const Lane& lb, const Lane& lc) {
    constexpr int V = 16 / sizeof(T);
    u32 i = (blockIdx.x * THREADS + threadIdx.x) * V;
    if (i + V <= n) {
        vec<u8, V> x = gather<V>(a, la, i);
        vec<T, V> y = gather<V>(b, lb, i), z = gather<V>(c, lc, i);
#pragma unroll
        for (int k = 0; k < V; k++) y.v[k] = x.v[k] ? y.v[k] : z.v[k];
        store<T, V>(dst + i, y);
        return;
    }
    for (; i < n; i++) dst[i] = element(a, la, i) ? element(b, lb, i) : element(c, lc, i);
}

template <class T> FN void where_s(const Walk<4>& w, T* dst, const u8* a, const T* b, const T* c) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[4];
        seek<4>(w, i, at);
        dst[at[0]] = a[at[1]] ? b[at[2]] : c[at[3]];
    }
}

// A tile of 32 by 32 elements turned over in shared memory, for copies whose two sides have different inner dimensions: both
// read and write along theirs. Dimension 0 of the walk is the source's inner one, with size rows; the output's is columns.
// The walk goes over what is left.
template <class T> FN void turn(const Walk<2>& w, T* dst, const T* a, u32 rows, u32 columns, i64 dst_step, i64 a_step) {
    GK_SHARED_ARR(T, tile, [32 * 33]);
    u32 x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (u32 z = blockIdx.z; z < w.total; z += gridDim.z) {
        i64 at[2];
        seek<2>(w, z, at);
        u32 r0 = blockIdx.x * 32, c0 = blockIdx.y * 32;
        for (u32 k = y; k < 32; k += THREADS / 32)
            if (r0 + x < rows && c0 + k < columns) tile[k * 33 + x] = a[at[1] + (i64)(c0 + k) * a_step + r0 + x];
        __syncthreads();
        for (u32 k = y; k < 32; k += THREADS / 32)
            if (r0 + k < rows && c0 + x < columns) dst[at[0] + (i64)(r0 + k) * dst_step + c0 + x] = tile[x * 33 + k];
        __syncthreads();
    }
}

// The walk's operands are the output, the input without the indexed dimension, and the indices.
template <class T> FN void index_select(const Walk<3>& w, T* dst, const T* a, const i64* index, i64 size, i64 stride, Note note) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[3];
        seek<3>(w, i, at);
        i64 x = index[at[2]];
        if (x < 0 || x >= size) complain(note, x, i, size);
        else dst[at[0]] = a[at[1] + x * stride];
    }
}

#define MOVES(T)                                                                                                      \
    KERNEL fill_##T##_v(u32 n, T* dst, T value) { fill_v<T>(n, dst, value); }                         \
    KERNEL fill_##T##_s(Walk<1> w, T* dst, T value) { fill_s<T>(w, dst, value); }                     \
    MAP1(copy_##T, Same_, T, T, u8)                                                                                   \
    KERNEL turn_##T(Walk<2> w, T* dst, const T* a, u32 rows, u32 columns, i64 dst_step, i64 a_step) { \
        turn<T>(w, dst, a, rows, columns, dst_step, a_step);                                                          \
    }                                                                                                                 \
    KERNEL where_##T##_v(u32 n, T* dst, const u8* a, const T* b, const T* c, Lane la, Lane lb, Lane lc) { \
        where_v<T>(n, dst, a, b, c, la, lb, lc);                                                                      \
    }                                                                                                                 \
    KERNEL where_##T##_s(Walk<4> w, T* dst, const u8* a, const T* b, const T* c) { where_s<T>(w, dst, a, b, c); } \
    KERNEL index_select_##T(Walk<3> w, T* dst, const T* a, const i64* index, i64 size, i64 stride, Note note) { \
        index_select<T>(w, dst, a, index, size, stride, note);                                                        \
    }

MOVES(u8)
MOVES(u16)
MOVES(u32)
MOVES(u64)

// Tril and Triu. The third operand of the walk is no memory: its place, and base, are how far right of the diagonal an element is.
template <class T> FN void triangle(const Walk<3>& w, T* dst, const T* a, i64 base, i64 diagonal, u32 upper) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[3];
        seek<3>(w, i, at);
        i64 right = base + at[2];
        bool kept = upper ? right >= diagonal : right <= diagonal;
        dst[at[0]] = kept ? a[at[1]] : (T)0;
    }
}

#define ORDER(T)                                                                                                      \
    KERNEL triangle_##T(Walk<3> w, T* dst, const T* a, i64 base, i64 diagonal, u32 upper) {                           \
        triangle(w, dst, a, base, diagonal, upper);                                                                   \
    }

ORDER(u8)
ORDER(u16)
ORDER(u32)
ORDER(u64)
