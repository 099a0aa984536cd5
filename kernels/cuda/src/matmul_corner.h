// Which tile of the result a block computes. Blocks walk over the result in groups of rows of tiles, so that those that run at a
// time share what they read in L2. The last tile of a row or a column of tiles begins early enough to be whole, where it can, and
// what its neighbour has is not written: so hardly any block looks at the ends.
#pragma once

#include "matmul.h"

constexpr u32 GROUP = 16; // rows of tiles

// Where a block's tile begins, and where what it writes of it does.
struct Corner { u32 row, column, own_row, own_column; };

FN u32 begin_of(u32 own, u32 each, u32 sides, bool may) { return may && sides >= each && own + each > sides ? sides - each : own; }

// Tiles of ROWS by COLUMNS may begin early at any row and column, or they may not.
template <u32 ROWS, u32 COLUMNS, class C> FN Corner corner_of(const Product<C>& p, u32 block, bool any_row, bool any_column) {
    u32 down = (p.m + ROWS - 1) / ROWS, across = (p.n + COLUMNS - 1) / COLUMNS;
    u32 first = block / (GROUP * across) * GROUP, rows = down - first < GROUP ? down - first : GROUP;
    u32 rest = block - first * across, row = (first + rest % rows) * ROWS, column = rest / rows * COLUMNS;
    return {begin_of(row, ROWS, p.m, any_row), begin_of(column, COLUMNS, p.n, any_column), row, column};
}
