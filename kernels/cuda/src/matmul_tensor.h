// Matrix products of half types on tensor cores: mma.sync of 16 by 8 by 16, accumulated in float. They are what runs where
// there is no cuBLAS, for operands whose rows (or columns) are contiguous and begin at multiples of 16 bytes; matmul.cu serves
// all others. Sizes need not be multiples of anything. Each element is the sum of its products 16 by 16 in the order of k,
// whatever the tile, so that all tiles give the same bits.
//
// A block computes a tile of the result, each of its warps a part of it, in steps of DEEP of k. Shared memory has room for a few
// stages, each the tiles of a and b for one step (matmul_panel.h). While a stage is used, the others are being filled by
// asynchronous copies; there is one barrier for each step, behind which the next stage is there and the one before is free.
// Within a step a warp goes 16 of k at a time, and loads the fragments for the next 16 before it multiplies the present ones.
#pragma once

#include "matmul_corner.h"
#include "matmul_panel.h"

// What a block computes: ROWS by COLUMNS of the result, by DOWN times ACROSS warps.
template <u32 ROWS_, u32 COLUMNS_, u32 DEEP_, u32 DOWN, u32 ACROSS_> struct Tile {
    static constexpr u32 ROWS = ROWS_, COLUMNS = COLUMNS_, DEEP = DEEP_, ACROSS = ACROSS_;
    static constexpr u32 WARPS = DOWN * ACROSS, WARP_ROWS = ROWS / DOWN, WARP_COLUMNS = COLUMNS / ACROSS;
    static constexpr u32 A = ROWS * DEEP, STAGE = A + COLUMNS * DEEP;               // elements of shared memory
    static constexpr u32 MMA_ROWS = WARP_ROWS / 16, MMA_COLUMNS = WARP_COLUMNS / 8; // mma tiles of a warp
    static constexpr u32 STEPS = DEEP / 16;                                         // of mma in a stage
    static_assert(STEPS % 2 == 0, "the two sets of fragments change places");
    static_assert(WARP_ROWS <= 64 && WARP_COLUMNS <= 64, "Panel::fragment moves within 8 pieces");
};

// The sums of a lane: of rows lane/4 and lane/4+8, and of columns lane%4*2 and the next, of each mma tile.
template <class B> using Sums = f32[B::MMA_ROWS][B::MMA_COLUMNS][4];

constexpr u32 MOST_STAGES = 4; // there are at least two

// Tiles stay at multiples of 16 bytes where the operand, or the result, needs them.
template <class B, bool AK> FN Corner corner_of(const Product<f32>& p, u32 block) {
    return corner_of<B::ROWS, B::COLUMNS>(p, block, AK || p.m % PIECE == 0, p.n % PIECE == 0);
}

template <class B> struct Fragments { u32 a[B::MMA_ROWS][4], b[B::MMA_COLUMNS / 2][4]; };

template <class B> FN void clear(Sums<B>& sum) {
#pragma unroll
    for (u32 i = 0; i < B::MMA_ROWS; i++)
#pragma unroll
        for (u32 j = 0; j < B::MMA_COLUMNS; j++) sum[i][j][0] = sum[i][j][1] = sum[i][j][2] = sum[i][j][3] = 0;
}

// FIRST says that nothing was summed before.
template <class T, class B, bool FIRST = false> FN void multiply(Sums<B>& sum, const Fragments<B>& f) {
#pragma unroll
    for (u32 i = 0; i < B::MMA_ROWS; i++)
#pragma unroll
        for (u32 e = 0; e < B::MMA_COLUMNS; e++) {
            u32 j = i % 2 ? B::MMA_COLUMNS - 1 - e : e; // to and fro: neighbours share a fragment
            u32 pair[2] = {f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1]};
            if constexpr (FIRST) gk_mma_first(T(), sum[i][j], f.a[i], pair);
            else gk_mma(T(), sum[i][j], f.a[i], pair);
        }
}

// The walk of a block along k.
template <class B, bool AK, bool BK, class T> struct Pipeline {
    using PA = Panel<AK, B::ROWS, B::DEEP, B::WARPS * 32>;
    using PB = Panel<BK, B::COLUMNS, B::DEEP, B::WARPS * 32>;

    Source<PA, T> a;
    Source<PB, T> b;
    u32 from_a, from_b;        // what a lane loads of the tiles
    u32 stages;                // of shared memory
    gk_place begin, end;       // of all of them
    gk_place read, write;      // the stage that is used, and the one that is filled: the one that was used before

    // Begins a part of the copies of a stage: each has as many passes.
    FN void copy(u32 part, u32 parts) {
        constexpr u32 ALL = PA::PASSES + PB::PASSES;
        u32 of_a = a.bytes(), of_b = b.bytes();
#pragma unroll
        for (u32 e = part * ALL / parts; e < (part + 1) * ALL / parts; e++) {
            if (e < PA::PASSES) a.copy(write, e, of_a);
            else b.copy(write + B::A * 2, e - PA::PASSES, of_b);
        }
    }

    FN void copied() {
        a.advance();
        b.advance();
    }

    FN gk_place behind(gk_place stage) const { return stage + B::STAGE * 2 == end ? begin : stage + B::STAGE * 2; }

    // Waits until the next stage is there. Groups of nothing make up for the stages that there are not: of MOST_STAGES - 1 open
    // groups it is always the first that must be complete.
    FN void arrive() {
        gk_cp_async_commit();
        if (stages < MOST_STAGES) {
            gk_cp_async_commit();
            if (stages < MOST_STAGES - 1) gk_cp_async_commit();
        }
        gk_cp_async_wait<MOST_STAGES - 2>();
        __syncthreads();
    }

    FN void load(Fragments<B>& f, u32 step) {
        u32 fa = again(from_a), fb = again(from_b); // else what is made from them would be kept, in registers
#pragma unroll
        for (u32 i = 0; i < B::MMA_ROWS; i++) PA::fragment(f.a[i], read, fa, i, step);
#pragma unroll
        for (u32 j = 0; j < B::MMA_COLUMNS / 2; j++) PB::fragment(f.b[j], read + B::A * 2, fb, j, step);
    }

    // Uses a stage, whose first fragments are loaded, and fills another one if there is more to copy.
    FN void use(Sums<B>& sum, Fragments<B> (&f)[2], bool more, bool last) {
#pragma unroll
        for (u32 s = 0; s < B::STEPS; s++) {
            if (s == B::STEPS - 1) {
                copied();
                arrive();
                write = read;
                read = behind(read);
            }
            if (s < B::STEPS - 1 || !last) load(f[(s + 1) % 2], (s + 1) % B::STEPS);
            if (s < B::STEPS - 1 && more) copy(s, B::STEPS - 1);
            multiply<T, B>(sum, f[s % 2]);
        }
    }

    // The sum of all products from k = a.k on, in so many stages, at least one.
    FN void run(Sums<B>& sum, u32 count) {
        u32 ahead = stages - 1;
        write = read = begin;
#pragma unroll 1
        for (u32 s = 0; s < ahead; s++) {
            if (s) gk_cp_async_commit();
            if (s < count) copy(0, 1);
            copied();
            write += B::STAGE * 2;
        }
        arrive();
        Fragments<B> f[2];
        load(f[0], 0);
        clear<B>(sum);
#pragma unroll 1
        do use(sum, f, count > ahead, count == 1);
        while (--count);
    }
};

template <class B, bool AK, bool BK, class T>
FN void add_products(Sums<B>& sum, const Product<f32>& p, const Part<T, f32>& q, const Corner& at, T* sh) {
    using L = Pipeline<B, AK, BK, T>;
    u32 warp = threadIdx.x / 32, row = warp / B::ACROSS * B::WARP_ROWS, column = warp % B::ACROSS * B::WARP_COLUMNS;
    gk_place begin = gk_place_of(sh);
    L l = {{q.a, AK ? p.a.row : p.a.column, at.row, p.m, q.from, q.to},
           {q.b, BK ? p.b.column : p.b.row, at.column, p.n, q.from, q.to},
           again(L::PA::lane_place(row, true)), again(L::PB::lane_place(column, false)), p.stages, begin, begin + p.stages * B::STAGE * 2, begin, begin};
    u32 depth = q.from < q.to ? q.to - q.from : 0;
    l.run(sum, depth ? (depth + B::DEEP - 1) / B::DEEP : 1);
}
