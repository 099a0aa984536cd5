// How the tensor-core products keep tiles of a and b in shared memory: the copy into it, and the fragments out of it.
//
// A tile lies as its operand does in memory, in rows along k or across it, without gaps. A row is cut into pieces of 16 bytes,
// and the pieces change places: piece i of row r is where piece i^s would be, with an s that depends on r. So the 8 rows that
// ldmatrix reads at a time, the same piece of each, lie in different banks, and so do the pieces that 8 neighbouring threads
// write. s has few bits: the next 16 of k, or the next 16 rows, are an exclusive or of a constant away, or an offset in the instruction.
#pragma once

#include "matmul.h"

constexpr u32 PIECE = 8; // elements of 16 bytes

// A tile of one operand: SIDE of its rows (of b: columns) and DEEP of k, copied by THREADS threads. ALONG says that elements
// along k are neighbours in memory. Places in it are in bytes.
template <bool ALONG_, u32 SIDE, u32 DEEP_, u32 THREADS> struct Panel {
    static constexpr bool ALONG = ALONG_;
    static constexpr u32 DEEP = DEEP_;
    static constexpr u32 WIDTH = ALONG ? DEEP : SIDE, PIECES = WIDTH / PIECE; // of a row in memory
    static constexpr u32 PASS = THREADS / PIECES * WIDTH;                     // elements that all threads copy at once
    static constexpr u32 PASSES = SIDE * DEEP / PASS, PASS_ROWS = PASS / WIDTH;
    static constexpr u32 MOVED = PIECES < 8 ? PIECES : 8; // neighbouring pieces that change places
    static_assert(PASSES * PASS == SIDE * DEEP && PASS_ROWS % 8 == 0, "a pass is whole rows, in all of which s is the same");

    // The place of a piece in the tile. Rows of fewer than 8 pieces share the banks.
    static FN u32 place(u32 row, u32 piece) { return row * (WIDTH * 2) + (piece ^ row * MOVED / 8 % MOVED) * 16; }

    // The row whose address the lane gives to ldmatrix, for 16 of the side from side on, and 16 of k. Lanes 8 to 15 have the
    // second matrix, the upper half of the side for a, of k for b; lanes 16 to 23 the third, the other way round.
    static FN u32 lane_place(u32 side, bool is_a) {
        u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2, third = lane / 16;
        u32 of_side = is_a ? second : third, of_k = is_a ? third : second;
        return ALONG ? place(side + of_side * 8 + low, of_k) : place(of_k * 8 + low, side / PIECE + of_side);
    }

    // Four matrices of 8 by 8: the i-th 16 of the side and the step-th 16 of k of the tile at a place, of which first is the lane's own.
    static FN void fragment(u32 (&r)[4], gk_place tile, u32 first, u32 i, u32 step) {
        u32 pieces = (ALONG ? step : i) * 2, rows = (ALONG ? i : step) * 16;
        gk_place at = tile + (first ^ pieces * 16);
        if constexpr (ALONG) gk_ldmatrix_x4_in(r, at, (int)(rows * WIDTH * 2));
        else gk_ldmatrix_x4_trans_in(r, at, (int)(rows * WIDTH * 2));
    }
};

// The same address, but the compiler does not know that. It would compute those of all passes ahead, which takes registers.
template <class T> FN const T* here(const T* p) {
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+l"(p));
#endif
    return p;
}

// One thread's pieces of the tiles of an operand, which follow each other along k. What lies outside of the operand becomes zero.
template <class P, class T> struct Source {
    const T *first, *at; // its first piece of the tile to come, and its piece of the pass to come
    i64 pass, step;      // from pass to pass in memory, and from row to row
    u32 to;              // its place in a tile
    i32 rows, inner;     // that exist from its first row on, and elements of a row from its piece on

    FN Source(const T* p, i64 step_, u32 side0, u32 sides, u32 k0, u32 ks) : pass(step_ * P::PASS_ROWS), step(step_) {
        u32 row = threadIdx.x / P::PIECES, piece = threadIdx.x % P::PIECES;
        u32 side = side0 + (P::ALONG ? row : piece * PIECE), k = k0 + (P::ALONG ? piece * PIECE : row);
        first = at = p + (i64)(P::ALONG ? side : k) * step + (P::ALONG ? k : side);
        rows = (i32)((P::ALONG ? sides : ks) - (P::ALONG ? side : k));
        inner = (i32)((P::ALONG ? ks : sides) - (P::ALONG ? k : side));
        to = P::place(row, piece);
    }

    // The bytes of a piece that exist, in a row that does.
    FN u32 bytes() const { return inner >= (i32)PIECE ? 16 : inner > 0 ? (u32)inner * 2 : 0; }

    // Begins the copy of the pass to come to a tile.
    FN void copy(gk_place tile, u32 number, u32 bytes) {
        i32 left = (i32)again((u32)rows); // else what is known of each pass would be kept, in registers
        gk_cp_async_to(tile + to, (int)(number * P::PASS * 2), at, (int)(left > (i32)(number * P::PASS_ROWS) ? bytes : 0));
        at = here(at + pass);
    }

    // Goes on to the next tile: of rows along k beside this one, of others behind it, where at is.
    FN void advance() {
        if constexpr (P::ALONG) first = at = here(first + P::DEEP);
        (P::ALONG ? inner : rows) -= (i32)P::DEEP;
    }
};
