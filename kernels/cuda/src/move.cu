// Fill, Copy, Where and IndexSelect: operations that only move bits, one for each size of an element.
#include "elementwise.h"

struct Same_ {
    template <class C, class S> FN static C of(C a, S, S) { return a; }
};

template <class T> FN void fill_v(u32 n, const Walk<1, VDIMS>& w, T* dst, T value) {
    constexpr int V = 16 / sizeof(T);
    vec<T, V> v;
    #pragma unroll
    for (int e = 0; e < V; e++) v[e] = value;
    u32 i = blockIdx.x * THREADS * VECTORS + threadIdx.x;
    i64 at[VECTORS][1];
    seek_all(w, i, THREADS, at);
    #pragma unroll
    for (int m = 0; m < VECTORS; m++)
        if (i + m * THREADS < w.total) put_back<V>(dst + at[m][0], v, n - (i + m * THREADS) * V);
}

template <class T> FN void fill_s(const Walk<1>& w, T* dst, T value) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[1];
        seek(w, i, at);
        dst[at[0]] = value;
    }
}

template <int M, class T> FN void where_vectors(u32 n, u32 i, const Walk<4, VDIMS>& w, T* dst, const u8* a, const T* b, const T* c) {
    constexpr int V = 16 / sizeof(T);
    i64 at[M][4];
    vec<u8, V> x[M];
    vec<T, V> y[M], z[M];
    seek_all(w, i, THREADS, at);
    #pragma unroll
    for (int m = 0; m < M; m++) {
        if (i + m * THREADS >= w.total) break;
        u32 left = n - (i + m * THREADS) * V;
        x[m] = fetch<V>(a + at[m][1], w.stride[1][0] == 0, left);
        y[m] = fetch<V>(b + at[m][2], w.stride[2][0] == 0, left);
        z[m] = fetch<V>(c + at[m][3], w.stride[3][0] == 0, left);
    }
    #pragma unroll
    for (int m = 0; m < M; m++) {
        if (i + m * THREADS >= w.total) break;
        #pragma unroll
        for (int e = 0; e < V; e++) y[m][e] = x[m][e] ? y[m][e] : z[m][e];
        put_back<V>(dst + at[m][0], y[m], n - (i + m * THREADS) * V);
    }
}

template <class T> FN void where_v(u32 n, const Walk<4, VDIMS>& w, T* dst, const u8* a, const T* b, const T* c) {
    constexpr int M = sizeof(T) > 1 ? VECTORS : 1; // three times 32 bytes would not stay in registers
    u32 first = blockIdx.x * THREADS * VECTORS + threadIdx.x;
    #pragma unroll 1
    for (u32 m = 0; m < VECTORS; m += M) where_vectors<M>(n, first + m * THREADS, w, dst, a, b, c);
}

template <class T> FN void where_s(const Walk<4>& w, T* dst, const u8* a, const T* b, const T* c) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    for (u32 k = 0; k < STEPS && i < w.total; k++, i += THREADS) {
        i64 at[4];
        seek(w, i, at);
        dst[at[0]] = a[at[1]] ? b[at[2]] : c[at[3]];
    }
}

// A tile of SIDE by SIDE elements transposed in shared memory, for copies whose two sides have different inner dimensions: both
// read and write along theirs. Dimension 0 of the walk is the source's inner one, with size rows; the output's is columns.
// The walk goes over what is left. Rows of the tile are longer by a word, so that its columns lie in different banks.
template <int SIDE, class T> FN void transpose(const Walk<2>& w, T* dst, const T* a, u32 rows, u32 columns, i64 dst_step, i64 a_step) {
    constexpr u32 PITCH = SIDE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1), DOWN = THREADS / 32, N = SIDE / 32;
    GK_SHARED_ARR(T, tile, [SIDE * PITCH]);
    u32 x = threadIdx.x % 32, y = threadIdx.x / 32, r0 = blockIdx.x * SIDE, c0 = blockIdx.y * SIDE;
    for (u32 z = blockIdx.z; z < w.total; z += gridDim.z) {
        i64 at[2];
        seek(w, z, at);
        T v[SIDE / DOWN][N];
        #pragma unroll
        for (u32 k = 0; k < SIDE / DOWN; k++)
            #pragma unroll
            for (u32 n = 0; n < N; n++) {
                u32 r = r0 + n * 32 + x, c = c0 + k * DOWN + y;
                if (r < rows && c < columns) v[k][n] = a[at[1] + (i64)c * a_step + r];
            }
        #pragma unroll
        for (u32 k = 0; k < SIDE / DOWN; k++)
            #pragma unroll
            for (u32 n = 0; n < N; n++) tile[(k * DOWN + y) * PITCH + n * 32 + x] = v[k][n];
        __syncthreads();
        #pragma unroll
        for (u32 k = 0; k < SIDE / DOWN; k++)
            #pragma unroll
            for (u32 n = 0; n < N; n++) {
                u32 r = r0 + k * DOWN + y, c = c0 + n * 32 + x;
                if (r < rows && c < columns) dst[at[0] + (i64)r * dst_step + c] = tile[(n * 32 + x) * PITCH + k * DOWN + y];
            }
        __syncthreads();
    }
}

// An element, or a piece of a row, at once.
template <class T> FN T take(const T* p) {
    if constexpr (sizeof(T) == 16) return __builtin_bit_cast(T, load_bits<16>(p));
    else return *p;
}
template <class T> FN void give(T* p, const T& v) {
    if constexpr (sizeof(T) == 16) store_bits(p, __builtin_bit_cast(Bits<16>, v));
    else *p = v;
}

// The walk's operands are the output, the input without the indexed dimension, and the indices. Each T is so many elements.
template <class T> FN void index_select(const Walk<3>& w, u32 each, T* dst, const T* a, const i64* index, i64 size, i64 stride, Note note) {
    u32 i = blockIdx.x * THREADS * STEPS + threadIdx.x;
    i64 at[STEPS][3], x[STEPS];
    T v[STEPS];
    seek_all(w, i, THREADS, at);
    #pragma unroll
    for (u32 k = 0; k < STEPS; k++) x[k] = i + k * THREADS < w.total ? index[at[k][2]] : 0;
    #pragma unroll
    for (u32 k = 0; k < STEPS; k++)
        if (i + k * THREADS < w.total && x[k] >= 0 && x[k] < size) v[k] = take(a + at[k][1] + x[k] * stride);
    #pragma unroll
    for (u32 k = 0; k < STEPS; k++) {
        if (i + k * THREADS >= w.total) return;
        if (x[k] < 0 || x[k] >= size) complain(note, x[k], (u64)(i + k * THREADS) * each, size);
        else give(dst + at[k][0], v[k]);
    }
}

#define SELECT(T)                                                                                                     \
    KERNEL index_select_##T(Walk<3> w, u32 each, T* dst, const T* a, const i64* index, i64 size, i64 stride, Note note) { \
        index_select<T>(w, each, dst, a, index, size, stride, note);                                                  \
    }

#define TRANSPOSE(T, SIDE)                                                                                            \
    KERNEL transpose_##T##_##SIDE(Walk<2> w, T* dst, const T* a, u32 rows, u32 columns, i64 dst_step, i64 a_step) { \
        transpose<SIDE>(w, dst, a, rows, columns, dst_step, a_step);                                                  \
    }

#define MOVES(T)                                                                                                      \
    KERNEL fill_##T##_v(u32 n, Walk<1, VDIMS> w, T* dst, T value) { fill_v<T>(n, w, dst, value); }                    \
    KERNEL fill_##T##_s(Walk<1> w, T* dst, T value) { fill_s<T>(w, dst, value); }                     \
    MAP1(copy_##T, Same_, T, T, u8)                                                                                   \
    TRANSPOSE(T, 32)                                                                                                  \
    KERNEL where_##T##_v(u32 n, Walk<4, VDIMS> w, T* dst, const u8* a, const T* b, const T* c) {                      \
        where_v<T>(n, w, dst, a, b, c);                                                                               \
    }                                                                                                                 \
    KERNEL where_##T##_s(Walk<4> w, T* dst, const u8* a, const T* b, const T* c) { where_s<T>(w, dst, a, b, c); }     \
    SELECT(T)

MOVES(u8)
MOVES(u16)
MOVES(u32)
MOVES(u64)
TRANSPOSE(u8, 64)
TRANSPOSE(u16, 64)
TRANSPOSE(u32, 64)

using u128 = vec<u32, 4>; // a piece of a row
SELECT(u128)

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
