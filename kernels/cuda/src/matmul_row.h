// Writing of results by the products without tensor cores.
#pragma once

#include "matmul.h"

// Writes the four neighbouring elements that a thread has of a row, 8 or 16 bytes at once where they lie so.
template <class T, class C> FN void write_row(const Product<C>& p, const Part<T, C>& q, u32 i, u32 j, const C (&sum)[4]) {
    if (q.parts || !p.wide || i >= p.m || j + 4 > p.n) {
#pragma unroll
        for (u32 f = 0; f < 4; f++) finish(p, q, i, j + f, sum[f]);
        return;
    }
    constexpr int W = sizeof(T) == 8 ? 2 : 4;
#pragma unroll
    for (u32 g = 0; g < 4; g += W) {
        vec<T, W> r, before;
#pragma unroll
        for (u32 f = 0; f < (u32)W; f++) {
            C v = value_of(p, q, i, j + g + f, sum[g + f]);
            before.v[f] = put<T>(v);
            r.v[f] = put<T>(activate(p.activation, v));
        }
        if (q.pre) store<T, W>(q.pre + i * p.pre.row + j + g, before);
        store<T, W>(q.dst + i * p.dst.row + j + g, r);
    }
}
