// What the kernels of attention on tensor cores share: how tiles of operands come into shared memory, and their products. They
// are for half types, for heads of up to 128 elements whose rows are contiguous and begin at multiples of 16 bytes; attention.cu
// serves all others. Sizes need not be multiples of anything: what does not exist is 0 in a tile.
//
// A block of 4 warps has 16 or 32 rows for each warp, and goes through tiles of N columns. Warps of 32 rows use what they load of a
// tile for twice as many products, which is what shared memory limits. Rows of a tile are 16 bytes apart beyond their size, so that the
// 8 rows which ldmatrix reads at a time lie in different banks; a fragment is a constant away from a lane's first address.
#pragma once

#include "attention.h"

constexpr u32 WARPS = 4, BLOCK = WARPS * 32;

template <int SIZE> constexpr u32 PITCH = SIZE + 8; // of a row in shared memory, in elements

// The row of a warp's first row in its block, which has M times 16 for each warp.
template <u32 M> FN u32 warp_row() { return threadIdx.x / 32 * 16 * M; }

// Where in a tile the row is whose address a lane gives to ldmatrix, for the left operand of a product and for a right one that
// is read transposed; and for a right operand whose rows are columns of the product.
template <int SIZE> FN u32 lane_along() { return threadIdx.x % 16 * PITCH<SIZE> + threadIdx.x / 16 % 2 * 8; }
template <int SIZE> FN u32 lane_across() {
    return (threadIdx.x % 8 + threadIdx.x / 16 % 2 * 8) * PITCH<SIZE> + threadIdx.x / 8 % 2 * 8;
}

// The rows of an operand, as one thread copies its pieces of 16 bytes of them, tile after tile.
template <int SIZE, class T> struct Lines {
    static constexpr u32 ACROSS = SIZE % 64 ? 4 : 8, PIECES = SIZE / 8 / ACROSS, PASS = BLOCK / ACROSS; // threads and pieces of a row; rows at once
    const T *at, *base; // the first piece of the next row, and the operand, for copies of nothing: no row need lie beyond the last
    i64 step;          // from pass to pass
    i32 left;          // rows from the next one to the last
    u32 to;            // the place of the first piece in a tile
    u32 bytes[PIECES]; // of each piece, those that exist

    // Of the rows of a pass, that of a thread's share of it. Two shares whose pieces are written to shared memory at once have rows that lie
    // half of the banks apart.
    static FN u32 copied_row(u32 share) { return ACROSS == 8 ? share : share / 8 * 8 + share % 2 * 4 + share / 2 % 4; }

    FN Lines(const T* p, i64 row, u32 first, u32 count, u32 size) {
        u32 r = copied_row(threadIdx.x / ACROSS), piece = threadIdx.x % ACROSS * 8;
        at = p + (i64)(first + r) * row + piece;
        base = p;
        step = row * PASS;
        left = (i32)count - (i32)(first + r);
        to = r * PITCH<SIZE> + piece;
#pragma unroll
        for (u32 i = 0; i < PIECES; i++) {
            u32 e = piece + i * ACROSS * 8, rest = e < size ? size - e : 0;
            bytes[i] = rest < 8 ? rest * 2 : 16;
        }
    }

    // Begins the copy of the next N rows. WHOLE says that all of them exist.
    template <u32 N, bool WHOLE> FN void copy(T* sh) {
#pragma unroll
        for (u32 e = 0; e < N / PASS; e++) {
            bool there = WHOLE || left > (i32)(e * PASS);
#pragma unroll
            for (u32 i = 0; i < PIECES; i++)
                gk_cp_async_at(sh + to, (e * PASS * PITCH<SIZE> + i * ACROSS * 8) * 2, there ? at : base, i * ACROSS * 16, (int)(there ? bytes[i] : 0));
            at += step;
        }
        left -= N;
    }
};

// The left operand of a warp: its fragments in registers, or its rows in shared memory, at the lane's first address.
template <int SIZE, u32 M, class T> struct Held {
    u32 r[SIZE / 16][M][4];
    FN Held(const T* lane) {
#pragma unroll
        for (u32 k = 0; k < SIZE / 16; k++)
#pragma unroll
            for (u32 i = 0; i < M; i++) gk_ldmatrix_x4_at(r[k][i], lane, (i * 16 * PITCH<SIZE> + k * 16) * 2);
    }
    FN void at(u32 (&a)[M][4], u32 k) const {
#pragma unroll
        for (u32 i = 0; i < M; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) a[i][e] = r[k][i][e];
    }
};
template <int SIZE, u32 M, class T> struct Shared {
    const T* lane;
    FN Shared(const T* lane_) : lane(lane_) {}
    FN void at(u32 (&a)[M][4], u32 k) const {
#pragma unroll
        for (u32 i = 0; i < M; i++) gk_ldmatrix_x4_at(a[i], lane, (i * 16 * PITCH<SIZE> + k * 16) * 2);
    }
};

// sum = rows @ (a tile)ᵀ; lane is where lane_across says.
template <u32 M, u32 N, int SIZE, class T, class L> FN void dots(f32 (&sum)[M][N / 8][4], const L& rows, const T* lane) {
#pragma unroll
    for (u32 k = 0; k < SIZE / 16; k++) {
        u32 a[M][4];
        rows.at(a, k);
#pragma unroll
        for (u32 j = 0; j < N / 16; j++) {
            u32 b[4];
            gk_ldmatrix_x4_at(b, lane, (j * 16 * PITCH<SIZE> + k * 16) * 2);
            u32 pair[2][2] = {{b[0], b[1]}, {b[2], b[3]}};
#pragma unroll
            for (u32 i = 0; i < M; i++)
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    if (k == 0) gk_mma_first(T(), sum[i][2 * j + h], a[i], pair[h]);
                    else gk_mma(T(), sum[i][2 * j + h], a[i], pair[h]);
                }
        }
    }
}

// Weights as the left operand of a product: the sums of two neighbouring mma are its fragment.
template <u32 M, u32 N> struct Weights { u32 r[N / 16][M][4]; };

template <class T, u32 M, u32 N> FN void pack(Weights<M, N>& w, const f32 (&s)[M][N / 8][4]) {
#pragma unroll
    for (u32 k = 0; k < N / 16; k++)
#pragma unroll
        for (u32 i = 0; i < M; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++)
                w.r[k][i][e] = gk_round2(T(), s[i][2 * k + e / 2][e % 2 * 2], s[i][2 * k + e / 2][e % 2 * 2 + 1]);
}

// sum += weights @ a tile; lane is where lane_along says.
template <int SIZE, class T, u32 M, u32 N> FN void weigh(f32 (&sum)[M][SIZE / 8][4], const Weights<M, N>& w, const T* lane) {
#pragma unroll
    for (u32 k = 0; k < N / 16; k++)
#pragma unroll
        for (u32 j = 0; j < SIZE / 16; j++) {
            u32 b[4];
            gk_ldmatrix_x4_trans_at(b, lane, (k * 16 * PITCH<SIZE> + j * 16) * 2);
            u32 pair[2][2] = {{b[0], b[1]}, {b[2], b[3]}};
#pragma unroll
            for (u32 i = 0; i < M; i++)
#pragma unroll
                for (u32 h = 0; h < 2; h++) gk_mma(T(), sum[i][2 * j + h], w.r[k][i], pair[h]);
        }
}

// Whether whole rows of a result can be written two elements at a time.
template <int SIZE, class T> FN bool in_pairs(const T* p, const Strip& s, u32 size) {
    return size == SIZE && s.step == 1 && (s.row | s.head | s.batch) % 2 == 0 && (u64)p % 4 == 0;
}

// Writes a lane's elements of a row, two of each 8, times a factor; half is which two of mma's four sums they are.
template <int SIZE, class T> FN void write_row(T* at, i64 step, const f32 (&sum)[SIZE / 8][4], u32 half, f32 factor, u32 column, u32 size, bool pairs) {
    if (pairs) {
#pragma unroll
        for (u32 j = 0; j < SIZE / 8; j++) *(u32*)(at + j * 8) = gk_round2(T(), sum[j][half * 2] * factor, sum[j][half * 2 + 1] * factor);
        return;
    }
#pragma unroll
    for (u32 j = 0; j < SIZE / 8; j++)
#pragma unroll
        for (u32 e = 0; e < 2; e++)
            if (column + j * 8 + e < size) at[(i64)(j * 8 + e) * step] = put<T>(sum[j][half * 2 + e] * factor);
}

// Writes a lane's sums, times a factor for each of its rows, to the rows of a result that exist.
template <int SIZE, class T, u32 M>
FN void write(T* result, const Strip& s, const Spot& at, const f32 (&sum)[M][SIZE / 8][4], const f32 (&factor)[M][2], u32 rows, u32 size) {
    u32 lane = threadIdx.x % 32, column = lane % 4 * 2;
    bool pairs = in_pairs<SIZE>(result, s, size);
    T* to = result + at.batch * s.batch + at.head * s.head + (i64)column * s.step;
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 row = at.row0 + warp_row<M>() + i * 16 + half * 8 + lane / 4;
            if (row < rows) write_row<SIZE>(to + (i64)row * s.row, s.step, sum[i], half, factor[i][half], column, size, pairs);
        }
}

// The seed lies at the beginning of shared memory: registers that would keep it are not there, and device memory is too far away to
// read it for each fragment.
FN Seed* seed() {
    GK_DYN_SHARED(Seed, s);
    return s;
}

// Puts the seed there, and returns what lies behind. A barrier must come before it is read.
template <class T> FN T* behind_seed(const Attention<f32>& p) {
    if (threadIdx.x == 0 && p.drops) *seed() = seed_of(p);
    return (T*)(seed() + 1);
}

// The seed, read anew each time.
FN Seed kept_seed() {
    const volatile Seed* s = seed();
    return {s->key, s->first};
}

// The random words of a fragment of 16 by 8 scores, in the order of its elements, where rows are queries. Two neighbouring lanes
// share the words of four keys in their two rows: each makes those of one row.
template <class T> FN void words_by_query(u32 (&r)[4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
    bool odd = threadIdx.x % 2;
    Words w = words_at(kept_seed(), p, h, odd ? row + 8 : row, column);
    u32 a = __shfl_xor_sync(~0u, odd ? w.w[0] : w.w[2], 1), b = __shfl_xor_sync(~0u, odd ? w.w[1] : w.w[3], 1);
    r[0] = odd ? a : w.w[0];
    r[1] = odd ? b : w.w[1];
    r[2] = odd ? w.w[2] : a;
    r[3] = odd ? w.w[3] : b;
}

// By its bits: of a chain of comparisons the compiler would make branches, one of which it believes to be never taken.
FN u32 pick(const u32 (&w)[4], u32 i) {
    u32 odd = 0 - (i & 1), upper = 0 - (i >> 1 & 1);
    u32 low = (w[0] & ~odd) | (w[1] & odd), high = (w[2] & ~odd) | (w[3] & odd);
    return (low & ~upper) | (high & upper);
}

// The same where rows are keys. The four lanes of four neighbouring keys share the words of two queries in both halves of the
// fragment: each makes those of one of these, and hands three of them on.
template <class T> FN void words_by_key(u32 (&r)[4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
    u32 mine = threadIdx.x / 4 % 4;
    Words w = words_at(kept_seed(), p, h, column + mine % 2, row + mine / 2 * 8);
    u32 got[4];
#pragma unroll
    for (u32 x = 0; x < 4; x++) got[x] = __shfl_xor_sync(~0u, pick(w.w, mine ^ x), (int)(x * 4));
#pragma unroll
    for (u32 e = 0; e < 4; e++) r[e] = pick(got, mine ^ e);
}
