// Matrix products of half types on tensor cores: mma.sync of 16 by 8 by 16, accumulated in float. They are what runs where
// there is no cuBLAS, for operands whose rows (or columns) are contiguous and begin at multiples of 16 bytes; matmul.cu serves
// all others. Sizes need not be multiples of anything.
//
// A block of 8 warps computes 128 by 128 of the result; a warp has 64 by 32 of it, as 4 by 4 mma tiles. Tiles of a and b, 32
// deep, are copied asynchronously into shared memory, the next pair while the present one is used. What lies outside of a
// matrix is zero, filled in by the copy. A tile is stored as its operand lies in memory, along k or across it, and ldmatrix
// turns it where it must; rows are 16 bytes longer than needed, so that the 8 rows that ldmatrix reads at a time lie in
// different banks.
#include "matmul.h"

constexpr u32 SIDE = 128, DEEP = 32;
constexpr u32 ALONG = DEEP + 8, ACROSS = SIDE + 8;                                       // pitches of tiles, in elements
constexpr u32 TILE_SIZE = SIDE * ALONG > DEEP * ACROSS ? SIDE * ALONG : DEEP * ACROSS;   // elements of a tile in shared memory
constexpr u32 STAGE = 2 * TILE_SIZE;                                                     // a tile of a, a tile of b

// Begins the copy of a tile. K_INNER says that elements along k are neighbours in memory; step is the distance of the others.
template <bool K_INNER, class T>
FN void copy_tile(T* sh, const T* p, i64 step, u32 side0, u32 sides, u32 k0, u32 k) {
#pragma unroll
    for (u32 e = 0; e < SIDE * DEEP / 8 / THREADS; e++) {
        u32 piece = threadIdx.x + e * THREADS;
        constexpr u32 PIECES = K_INNER ? DEEP / 8 : SIDE / 8; // of a row, 16 bytes each
        u32 row = piece / PIECES, at = piece % PIECES * 8;
        u32 outer = row + (K_INNER ? side0 : k0), inner = at + (K_INNER ? k0 : side0);
        u32 outers = K_INNER ? sides : k, inners = K_INNER ? k : sides;
        u32 left = outer < outers && inner < inners ? inners - inner : 0;
        const T* from = left ? p + (i64)outer * step + inner : p;
        gk_cp_async<16>(sh + row * (K_INNER ? ALONG : ACROSS) + at, from, (int)(left < 8 ? left * 2 : 16));
    }
}

// The fragment of a for 16 rows from row on, and 16 of k: four matrices of 8 by 8, each lane giving the address of a row.
template <bool K_INNER, class T> FN void fragment_a(u32 (&r)[4], const T* sh, u32 row, u32 k) {
    u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    if constexpr (K_INNER) gk_ldmatrix_x4(r, sh + (row + second + low) * ALONG + k + third);
    else gk_ldmatrix_x4_trans(r, sh + (k + third + low) * ACROSS + row + second);
}

// The fragments of b for two tiles of 8 columns from column on, and 16 of k.
template <bool K_INNER, class T> FN void fragment_b(u32 (&r)[4], const T* sh, u32 column, u32 k) {
    u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    if constexpr (K_INNER) gk_ldmatrix_x4(r, sh + (column + third + low) * ALONG + k + second);
    else gk_ldmatrix_x4_trans(r, sh + (k + second + low) * ACROSS + column + third);
}

// Takes one stage of shared memory into the sums of a warp.
template <bool AK, bool BK, class T> FN void multiply(f32 (&sum)[4][4][4], const T* as, const T* bs, u32 row, u32 column) {
#pragma unroll
    for (u32 k = 0; k < DEEP; k += 16) {
        u32 a[4][4], b[2][4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) fragment_a<AK>(a[i], as, row + 16 * i, k);
#pragma unroll
        for (u32 j = 0; j < 2; j++) fragment_b<BK>(b[j], bs, column + 16 * j, k);
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
                gk_mma(T(), sum[i][j], a[i], pair);
            }
    }
}

// A piece is 8 neighbouring elements of a row, 16 bytes of the result. Its sums lie in shared memory, 32 bytes from those of the next
// thread, at a multiple of 16 bytes.
constexpr u32 PIECE = 8;

// Writes the first n elements of a piece, all at once if they lie so.
template <class T> FN void put_piece(T* to, i64 step, const f32* values, u32 n, bool whole) {
    if (whole) {
        vec<f32, 4> low = load<f32, 4>(values), high = load<f32, 4>(values + 4);
        vec<T, PIECE> r;
#pragma unroll
        for (int f = 0; f < 4; f++) {
            r.v[f] = put<T>(low.v[f]);
            r.v[f + 4] = put<T>(high.v[f]);
        }
        store<T, PIECE>(to, r);
        return;
    }
#pragma unroll 1
    for (u32 f = 0; f < n; f++) to[f * step] = put<T>(values[f]);
}

// Sums of a slice are left as they are.
FN void leave_piece(f32* to, const f32* sums, u32 n, bool whole) {
    if (whole) {
        store<f32, 4>(to, load<f32, 4>(sums));
        store<f32, 4>(to + 4, load<f32, 4>(sums + 4));
        return;
    }
#pragma unroll 1
    for (u32 f = 0; f < n; f++) to[f] = sums[f];
}

// From the sums of a piece to the results, through shared memory once more for each step: what is unrolled here would take the
// registers of the sums that wait for their turn. Threads begin at different elements, so that a warp reads different banks.
template <class T> FN void finish_piece(const Product<f32>& p, const Part<T, f32>& q, u32 i, u32 j, f32* sums) {
    if (i >= p.m || j >= p.n) return;
    u32 n = p.n - j < PIECE ? p.n - j : PIECE, turn = threadIdx.x / 4;
    if (q.parts) {
        leave_piece(q.parts + (u64)i * p.n + j, sums, n, n == PIECE && p.n % 4 == 0);
        return;
    }
    bool whole = p.wide && n == PIECE;
    if (p.alpha != 1 || p.beta != 0) {
#pragma unroll 1
        for (u32 f = 0; f < PIECE; f++) {
            u32 at = (f + turn) % PIECE;
            if (at < n) sums[at] = value_of(p, q, i, j + at, sums[at]);
        }
    }
    if (q.pre) put_piece(q.pre + i * p.pre.row + j * p.pre.column, p.pre.column, sums, n, whole);
    if (p.activation != IDENTITY) {
#pragma unroll 1
        for (u32 f = 0; f < PIECE; f++) {
            u32 at = (f + turn) % PIECE;
            if (at < n) sums[at] = activate(p.activation, sums[at]);
        }
    }
    put_piece(q.dst + i * p.dst.row + j * p.dst.column, p.dst.column, sums, n, whole);
}

// Writes the sums of all warps through shared memory, 64 rows at a time, so that each thread has pieces of rows. The pitch keeps the
// writes of a half warp, 4 rows of 8 columns, in different banks.
template <class T> FN void write_tile(const Product<f32>& p, const Part<T, f32>& q, const f32 (&sum)[4][4][4], f32* sh) {
    constexpr u32 PITCH = SIDE + 8, HALF = SIDE / 2;
    static_assert(HALF * PITCH * 4 <= 2 * STAGE * 2, "the sums fit where the tiles were");
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = warp % 4 * 32 + lane % 4 * 2;
#pragma unroll 1
    for (u32 half = 0; half < 2; half++) {
        if (warp / 4 == half) {
#pragma unroll
            for (u32 i = 0; i < 4; i++)
#pragma unroll
                for (u32 j = 0; j < 4; j++)
#pragma unroll
                    for (u32 e = 0; e < 2; e++) {
                        vec<f32, 2> pair = {{sum[i][j][2 * e], sum[i][j][2 * e + 1]}};
                        store<f32, 2>(sh + (16 * i + lane / 4 + e * 8) * PITCH + column + 8 * j, pair);
                    }
        }
        __syncthreads();
#pragma unroll 1
        for (u32 piece = threadIdx.x; piece < HALF * SIDE / PIECE; piece += THREADS) {
            u32 row = piece / (SIDE / PIECE), at = piece % (SIDE / PIECE) * PIECE;
            finish_piece(p, q, blockIdx.y * SIDE + half * HALF + row, blockIdx.x * SIDE + at, sh + row * PITCH + at);
        }
        __syncthreads();
    }
}

template <bool AK, bool BK, class T> FN void sums(const Product<f32>& p, const Part<T, f32>& q, f32 (&sum)[4][4][4], T* sh) {
    u32 warp = threadIdx.x / 32;
    u32 i0 = blockIdx.y * SIDE, j0 = blockIdx.x * SIDE, row = warp / 4 * 64, column = warp % 4 * 32;
    i64 a_step = AK ? p.a.row : p.a.column, b_step = BK ? p.b.column : p.b.row;
    if (q.from < q.to) {
        copy_tile<AK>(sh, q.a, a_step, i0, p.m, q.from, q.to);
        copy_tile<BK>(sh + TILE_SIZE, q.b, b_step, j0, p.n, q.from, q.to);
    }
    gk_cp_async_commit();
    u32 stage = 0;
    for (u32 k0 = q.from; k0 < q.to; k0 += DEEP, stage ^= 1) {
        if (k0 + DEEP < q.to) {
            T* next = sh + (stage ^ 1) * STAGE;
            copy_tile<AK>(next, q.a, a_step, i0, p.m, k0 + DEEP, q.to);
            copy_tile<BK>(next + TILE_SIZE, q.b, b_step, j0, p.n, k0 + DEEP, q.to);
        }
        gk_cp_async_commit(); // perhaps of nothing: so one group may always stay open
        gk_cp_async_wait<1>();
        __syncthreads();
        const T* now = sh + stage * STAGE;
        multiply<AK, BK>(sum, now, now + TILE_SIZE, row, column);
        __syncthreads();
    }
}

// The letters say whether a, and b, are contiguous along k (n for "not turned" in BLAS: a along k, b across it).
#define MATMUL_TENSOR(NAME, AK, BK, T)                                                                                \
    GK_KERNEL(THREADS, 2) void NAME##_##T(Product<f32> p, T* dst, const T* a, const T* b, const T* c, T* pre, f32* parts) { \
        GK_SHARED_ARR(T, sh, [2 * STAGE]);                                                                            \
        f32 sum[4][4][4] = {};                                                                                        \
        sums<AK, BK>(p, part_of(p, blockIdx.z, dst, a, b, c, pre, parts), sum, (T*)sh);                               \
        write_tile(p, part_of(p, again(blockIdx.z), dst, a, b, c, pre, parts), sum, (f32*)sh);                        \
    }

#define MATMULS_TENSOR(T)                                                                                             \
    MATMUL_TENSOR(matmul_nn, true, false, T)                                                                          \
    MATMUL_TENSOR(matmul_nt, true, true, T)                                                                           \
    MATMUL_TENSOR(matmul_tn, false, false, T)                                                                         \
    MATMUL_TENSOR(matmul_tt, false, true, T)

MATMULS_TENSOR(f16)
MATMULS_TENSOR(bf16)
