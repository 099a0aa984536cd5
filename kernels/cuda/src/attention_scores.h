// Scores of attention on tensor cores: which of them a row sees, and how they become exponents.
#pragma once

#include "attention_tile.h"

// How scores become exponents: exponent = (x - most) * unit. Without a mask x is a product times c, and unit is 1; with one it is
// the score itself, since log2(e) times the lowest number of a mask would not be finite.
struct Exponents {
    f32 c, unit;
};

FN Exponents exponents_of(const Attention<f32>& p) {
    if (p.mask_kind) return {p.scale, LOG2_E};
    return {p.scale * LOG2_E, 1.0f};
}

// How many keys are in tiles of which each row from first on sees all: the others have an edge, of the keys or of the diagonal, or a mask.
template <u32 N> FN u32 plain_keys(const Attention<f32>& p, u32 first) {
    if (p.mask_kind) return 0;
    u32 seen = p.causal && first + 1 < p.keys ? first + 1 : p.keys;
    return seen / N * N;
}

// Products to what exponents are made of, -infinity where a query does not see a key. row and column are those of the lane's first
// element. Where columns are queries, those beyond the last are 0 in all operands, and need not be hidden.
template <int MODE, u32 M, u32 N, class T>
FN void hide(f32 (&s)[M][N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, f32 c, u32 row, u32 column) {
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 r = row + i * 16 + half * 8, end = p.causal && r + 1 < p.keys ? r + 1 : p.keys;
            i32 from = p.causal ? (i32)(r - column) : 0, to = (i32)(end - column); // of the columns from this lane's first on
#pragma unroll
            for (u32 j = 0; j < N / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 2; e++) {
                    f32& v = s[i][j][half * 2 + e];
                    i32 at = (i32)(j * 8 + e);
                    bool seen = of_queries(MODE) ? at < to : at >= from;
                    v = seen ? v * c : LOW<f32>;
                    if (!p.mask_kind) continue;
                    u32 t = of_queries(MODE) ? r : column + j * 8 + e, k = of_queries(MODE) ? column + j * 8 + e : r;
                    if (t < p.queries && k < p.keys) v = masked(p, h, t, k, v);
                }
        }
}
