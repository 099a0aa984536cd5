// What becomes of the sums of a tensor-core product. Sums of a slice that lie wholly in the result go from registers to memory, where
// the 4 lanes of a row write a sector. All others are turned first: a warp puts 16 rows of its sums at a time into shared memory of
// its own, where the stages were, and then each lane takes pieces of 8 neighbouring elements: 16 bytes of the result. A lane's pieces
// are all in the same columns.
#pragma once

#include "matmul_tensor.h"

using Values = f32[PIECE];

// Writes the first n elements of a piece, all at once if they lie so.
template <class T> FN void put_piece(T* to, i64 step, const Values& v, u32 n, bool whole) {
    if (whole) {
        store_words(to, gk_round2(T(), v[0], v[1]), gk_round2(T(), v[2], v[3]), gk_round2(T(), v[4], v[5]), gk_round2(T(), v[6], v[7]));
        return;
    }
#pragma unroll
    for (u32 f = 0; f < PIECE; f++)
        if (f < n) to[f * step] = put<T>(v[f]);
}

// Adds beta*c to a piece. A step of 0 is that of a bias of rows.
template <class T> FN void add_piece(f32 beta, const T* c, i64 step, Values& v, u32 n, bool whole) {
    if (whole) {
        vec<T, PIECE> r = load<T, PIECE>(c);
#pragma unroll
        for (u32 f = 0; f < PIECE; f++) v[f] = fma(beta, get(r.v[f]), v[f]);
        return;
    }
    if (step == 0) {
        f32 addend = get(*c);
#pragma unroll
        for (u32 f = 0; f < PIECE; f++) v[f] = fma(beta, addend, v[f]);
        return;
    }
#pragma unroll
    for (u32 f = 0; f < PIECE; f++)
        if (f < n) v[f] = fma(beta, get(c[f * step]), v[f]);
}

template <u32 ACTIVATION> FN void activate_piece(Values& v) {
#pragma unroll
    for (u32 f = 0; f < PIECE; f++) v[f] = activate(ACTIVATION, v[f]);
}

// The part of shared memory in which a warp turns 16 rows of its sums. The pitch keeps the writes of a half warp, 4 rows of 8 columns, in
// different banks. The halves of some pieces change places, so that the reads of 8 lanes are in different banks too.
template <class B> struct Turned {
    static constexpr u32 PITCH = B::WARP_COLUMNS + 8, PIECES = B::WARP_COLUMNS / PIECE, ROWS = 32 / PIECES; // rows that are read at a time
    static_assert(B::WARPS * 16 * PITCH * 4 <= 2 * B::STAGE * 2, "the sums fit where two stages were");
    static_assert(PIECES == 8 || (PIECES == 4 && PITCH % 16 == 8), "8 lanes read a row, or two that are 8 elements apart in the banks");
    f32 *to[2], *low, *high; // where a lane writes, in pieces that are as they were or not; where it reads

    FN Turned(f32* sh) {
        u32 lane = threadIdx.x % 32, row = lane / 4, at = lane % 4 * 2, r = lane / PIECES, c = lane % PIECES;
        sh += threadIdx.x / 32 * 16 * PITCH;
        u32 odd = PIECES == 8 ? 0 : row % 2 * 4, swapped = PIECES == 8 ? c / 4 * 4 : r % 2 * 4;
        to[0] = sh + row * PITCH + (at ^ odd);
        to[1] = sh + row * PITCH + (at ^ (PIECES == 8 ? 4 : odd));
        low = sh + r * PITCH + c * PIECE + swapped;
        high = sh + r * PITCH + c * PIECE + (swapped ^ 4);
    }

    // Writes the lane's sums of the i-th 16 rows.
    FN void write(const Sums<B>& sum, u32 i) const {
#pragma unroll
        for (u32 e = 0; e < 2 * B::MMA_COLUMNS; e++) {
            u32 j = e / 2, half = e % 2;
            store_pair(to[j / 4] + half * 8 * PITCH + j * 8, sum[i][j][2 * half], sum[i][j][2 * half + 1]);
        }
    }

    // Reads the lane's piece of the row that is so many times ROWS behind its first.
    FN void read(Values& v, u32 pass) const {
        vec<f32, 4> l = load<f32, 4>(low + pass * ROWS * PITCH), h = load<f32, 4>(high + pass * ROWS * PITCH);
#pragma unroll
        for (u32 f = 0; f < 4; f++) {
            v[f] = l.v[f];
            v[f + 4] = h.v[f];
        }
    }
};

// Where a lane writes: a row, which goes down the warp's part of the result, and columns of which n exist and are this block's.
template <class T> struct Pen {
    u32 i, n;
    T *dst, *pre;
    const T* c;
    f32* part;
};

template <class T> FN Pen<T> pen_at(const Product<f32>& p, const Part<T, f32>& q, const Corner& at, u32 i, u32 j) {
    u32 n = j < at.own_column || j >= p.n ? 0 : p.n - j < PIECE ? p.n - j : PIECE;
    return {i, n, q.dst + i * p.dst.row + j * p.dst.column, q.pre + i * p.pre.row + j * p.pre.column, q.c + i * p.c.row + j * p.c.column,
            q.parts + (u64)i * p.n + j};
}

template <class T> FN void down(const Product<f32>& p, Pen<T>& pen, u32 rows) {
    pen.i += rows;
    pen.dst += p.dst.row * rows;
    pen.pre += p.pre.row * rows;
    pen.c += p.c.row * rows;
    pen.part += (u64)p.n * rows;
}

// From the sums of a piece to the results.
template <class T> FN void finish_piece(const Product<f32>& p, const Part<T, f32>& q, const Pen<T>& pen, Values& v) {
    if (q.parts) {
#pragma unroll
        for (u32 f = 0; f < PIECE; f++)
            if (f < pen.n) pen.part[f] = v[f];
        return;
    }
    bool whole = p.wide && pen.n == PIECE;
    if (p.alpha != 1)
#pragma unroll
        for (u32 f = 0; f < PIECE; f++) v[f] = p.alpha * v[f];
    if (p.beta != 0) add_piece(p.beta, pen.c, p.c.column, v, pen.n, p.wide_c && pen.n == PIECE);
    if (q.pre) put_piece(pen.pre, p.pre.column, v, pen.n, whole);
    if (p.activation != IDENTITY) {
        if (p.activation == RELU) activate_piece<RELU>(v);
        if (p.activation == GELU_ERF) activate_piece<GELU_ERF>(v);
        if (p.activation == GELU_TANH) activate_piece<GELU_TANH>(v);
    }
    put_piece(pen.dst, p.dst.column, v, pen.n, whole);
}

// Any sums. An index that is not known would put them into memory, hence the choice among all rows.
template <class B, class T> FN void finish_sums(const Product<f32>& p, const Part<T, f32>& q, const Corner& at, const Sums<B>& sum, const Turned<B>& turned, Pen<T> pen) {
    using D = Turned<B>;
#pragma unroll 1
    for (u32 rows = 0; rows < B::MMA_ROWS; rows++) {
#pragma unroll
        for (u32 i = 0; i < B::MMA_ROWS; i++)
            if (i == rows) turned.write(sum, i);
        __syncwarp();
#pragma unroll 1
        for (u32 pass = 0; pass < 16 / D::ROWS; pass++) {
            Values v;
            turned.read(v, pass);
            if (pen.n && pen.i >= at.own_row && pen.i < p.m) finish_piece(p, q, pen, v);
            down(p, pen, D::ROWS);
        }
        __syncwarp();
    }
}

// Sums that are PLAIN, in a block that owns all of its tile. A lane's first piece is at row i0 and column j0, at dst.
template <class B, class T>
FN void put_sums(const Product<f32>& p, const Sums<B>& sum, const Turned<B>& turned, T* dst, const T* c, u32 i0, u32 j0) {
    using D = Turned<B>;
    bool biased = p.beta != 0, of_rows = false;
    Values bias;
    if (biased) {
        of_rows = p.c.column == 0;
        c += i0 * p.c.row + j0 * p.c.column;
        if (!of_rows) {
            vec<T, PIECE> r = load<T, PIECE>(c);
#pragma unroll
            for (u32 f = 0; f < PIECE; f++) bias[f] = get(r.v[f]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < B::MMA_ROWS; i++) {
        turned.write(sum, i);
        __syncwarp();
#pragma unroll
        for (u32 pass = 0; pass < 16 / D::ROWS; pass++) {
            Values v;
            turned.read(v, pass);
            if (biased) {
                if (of_rows) {
                    f32 r = get(*c);
#pragma unroll
                    for (u32 f = 0; f < PIECE; f++) bias[f] = r;
                    c += p.c.row * D::ROWS;
                }
#pragma unroll
                for (u32 f = 0; f < PIECE; f++) v[f] += bias[f];
            }
            put_piece(dst, 1, v, PIECE, true);
            dst += p.dst.row * D::ROWS;
        }
        __syncwarp();
    }
}

// Sums of a slice, in such a block.
template <class B> FN void leave_sums(const Sums<B>& sum, f32* to, u64 row) {
#pragma unroll
    for (u32 e = 0; e < 2 * B::MMA_ROWS; e++, to += row * 8)
#pragma unroll
        for (u32 j = 0; j < B::MMA_COLUMNS; j++) store_pair(to + j * 8, sum[e / 2][j][e % 2 * 2], sum[e / 2][j][e % 2 * 2 + 1]);
}

// Writes the sums of a warp.
template <class B, class T>
FN void write_sums(const Product<f32>& p, const Part<T, f32>& q, const Corner& at, const Sums<B>& sum, f32* sh) {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 row = at.row + warp / B::ACROSS * B::WARP_ROWS, column = at.column + warp % B::ACROSS * B::WARP_COLUMNS;
    bool own = at.row == at.own_row && at.column == at.own_column && at.row + B::ROWS <= p.m && at.column + B::COLUMNS <= p.n;
    if (own && q.parts && p.n % 2 == 0 && (u64)q.parts % 8 == 0) {
        leave_sums<B>(sum, q.parts + (u64)(row + lane / 4) * p.n + column + lane % 4 * 2, p.n);
        return;
    }
    Turned<B> turned(sh);
    u32 i = row + lane / Turned<B>::PIECES, j = column + lane % Turned<B>::PIECES * PIECE;
    if (own && !q.parts && p.wide == PLAIN) put_sums<B>(p, sum, turned, q.dst + i * p.dst.row + j, q.c, i, j);
    else finish_sums<B>(p, q, at, sum, turned, pen_at(p, q, at, i, j));
}

template <class B, bool AK, bool BK, class T>
FN void multiply_tile(const Product<f32>& p, T* dst, const T* a, const T* b, const T* c, T* pre, f32* parts, T* sh) {
    Sums<B> sum;
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
