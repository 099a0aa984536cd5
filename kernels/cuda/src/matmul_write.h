// What becomes of the sums of a tensor-core product. A warp puts 16 rows of its sums at a time into shared memory of its own, where
// the stages were, and then each lane takes pieces of 8 neighbouring elements: 16 bytes of the result.
#pragma once

#include "matmul_tensor.h"

using Values = f32[PIECE];

// Writes the first n elements of a piece, all at once if they lie so.
template <class T> FN void put_piece(T* to, i64 step, const Values& v, u32 n, bool whole) {
    if (whole) {
        vec<T, PIECE> r;
#pragma unroll
        for (u32 f = 0; f < PIECE; f++) r.v[f] = put<T>(v[f]);
        store<T, PIECE>(to, r);
        return;
    }
#pragma unroll
    for (u32 f = 0; f < PIECE; f++)
        if (f < n) to[f * step] = put<T>(v[f]);
}

// Sums of a slice are left as they are.
FN void leave_piece(f32* to, const Values& v, u32 n, bool whole) {
    if (whole) {
        store<f32, 4>(to, {{v[0], v[1], v[2], v[3]}});
        store<f32, 4>(to + 4, {{v[4], v[5], v[6], v[7]}});
        return;
    }
#pragma unroll
    for (u32 f = 0; f < PIECE; f++)
        if (f < n) to[f] = v[f];
}

// value_of for a piece.
template <class T> FN void add_piece(const Product<f32>& p, const T* c, Values& v, u32 n, bool whole) {
    Values addend = {};
    if (p.beta != 0 && whole) {
        vec<T, PIECE> r = load<T, PIECE>(c);
#pragma unroll
        for (u32 f = 0; f < PIECE; f++) addend[f] = get(r.v[f]);
    } else if (p.beta != 0) {
#pragma unroll
        for (u32 f = 0; f < PIECE; f++)
            if (f < n) addend[f] = get(c[f * p.c.column]);
    }
#pragma unroll
    for (u32 f = 0; f < PIECE; f++) {
        v[f] = p.alpha * v[f];
        if (p.beta != 0) v[f] = fma(p.beta, addend[f], v[f]);
    }
}

template <u32 ACTIVATION> FN void activate_piece(Values& v) {
#pragma unroll
    for (u32 f = 0; f < PIECE; f++) v[f] = activate(ACTIVATION, v[f]);
}

// From the sums of a piece to the results.
template <class T> FN void finish_piece(const Product<f32>& p, const Part<T, f32>& q, u32 i, u32 j, const f32* sums) {
    u32 n = p.n - j < PIECE ? p.n - j : PIECE;
    vec<f32, 4> low = load<f32, 4>(sums), high = load<f32, 4>(sums + 4);
    Values v = {low.v[0], low.v[1], low.v[2], low.v[3], high.v[0], high.v[1], high.v[2], high.v[3]};
    if (q.parts) {
        leave_piece(q.parts + (u64)i * p.n + j, v, n, n == PIECE && p.n % 4 == 0);
        return;
    }
    bool whole = p.wide && n == PIECE;
    if (p.alpha != 1 || p.beta != 0) add_piece(p, q.c + i * p.c.row + j * p.c.column, v, n, p.wide_c && n == PIECE);
    if (q.pre) put_piece(q.pre + i * p.pre.row + j * p.pre.column, p.pre.column, v, n, whole);
    if (p.activation == RELU) activate_piece<RELU>(v);
    if (p.activation == GELU_ERF) activate_piece<GELU_ERF>(v);
    if (p.activation == GELU_TANH) activate_piece<GELU_TANH>(v);
    put_piece(q.dst + i * p.dst.row + j * p.dst.column, p.dst.column, v, n, whole);
}

// Writes the sums of a warp. The pitch keeps the writes of a half warp, 4 rows of 8 columns, in different banks. An index that
// is not known would put the sums into memory, hence the choice among all rows.
template <class B, class T>
FN void write_sums(const Product<f32>& p, const Part<T, f32>& q, const Corner& at, const Sums<B>& sum, f32* sh) {
    constexpr u32 PITCH = B::WARP_COLUMNS + 8, PIECES = B::WARP_COLUMNS / PIECE;
    static_assert(B::WARPS * 16 * PITCH * 4 <= 2 * B::STAGE * 2, "the sums fit where two stages were");
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 row = at.row + warp / B::ACROSS * B::WARP_ROWS, column = at.column + warp % B::ACROSS * B::WARP_COLUMNS;
    sh += warp * 16 * PITCH;
#pragma unroll 1
    for (u32 rows = 0; rows < B::MMA_ROWS; rows++) {
#pragma unroll
        for (u32 i = 0; i < B::MMA_ROWS; i++)
            if (i == rows) {
#pragma unroll
                for (u32 e = 0; e < 2 * B::MMA_COLUMNS; e++) {
                    u32 j = e / 2, half = e % 2;
                    vec<f32, 2> pair = {{sum[i][j][2 * half], sum[i][j][2 * half + 1]}};
                    store<f32, 2>(sh + (lane / 4 + half * 8) * PITCH + lane % 4 * 2 + j * 8, pair);
                }
            }
        __syncwarp();
#pragma unroll 1
        for (u32 piece = lane; piece < 16 * PIECES; piece += 32) {
            u32 r = piece / PIECES, c = piece % PIECES * PIECE, i = row + rows * 16 + r, j = column + c;
            if (i >= at.own_row && j >= at.own_column && i < p.m && j < p.n) finish_piece(p, q, i, j, sh + r * PITCH + c);
        }
        __syncwarp();
    }
}

template <class B, bool AK, bool BK, class T>
FN void multiply_tile(const Product<f32>& p, T* dst, const T* a, const T* b, const T* c, T* pre, f32* parts, T* sh) {
    Sums<B> sum = {};
    add_products<B, AK, BK>(sum, p, part_of(p, blockIdx.z, dst, a, b, c, pre, parts), corner_of<B, AK>(p, blockIdx.x), sh);
    Corner at = corner_of<B, AK>(p, again(blockIdx.x));
    write_sums<B>(p, part_of(p, again(blockIdx.z), dst, a, b, c, pre, parts), at, sum, (f32*)sh);
}

// The letters say whether a, and b, are contiguous along k (n for "not turned" in BLAS: a along k, b across it). B is the tile, and
// BLOCKS how many blocks a multiprocessor shall have room for.
#define MATMUL_TENSOR(NAME, B, BLOCKS, AK, BK, T)                                                       \
    GK_KERNEL(B::WARPS * 32, BLOCKS)                                                                    \
    void NAME##_##T(Product<f32> p, T* dst, const T* a, const T* b, const T* c, T* pre, f32* parts) {   \
        GK_DYN_SHARED(T, sh);                                                                           \
        multiply_tile<B, AK, BK>(p, dst, a, b, c, pre, parts, sh);                                      \
    }

#define MATMULS_TENSOR(NAME, B, BLOCKS, T)               \
    MATMUL_TENSOR(NAME##_nn, B, BLOCKS, true, false, T)  \
    MATMUL_TENSOR(NAME##_nt, B, BLOCKS, true, true, T)   \
    MATMUL_TENSOR(NAME##_tn, B, BLOCKS, false, false, T) \
    MATMUL_TENSOR(NAME##_tt, B, BLOCKS, false, true, T)
