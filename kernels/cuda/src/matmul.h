// What the matrix products share: their sizes and strides, and the walk over the batch.
//
//   dst[z, i, j] = alpha * sum over k of a[z, i, k]*b[z, k, j] + beta * c[z, i, j]
//
// c is not read if beta is 0. It may be dst: each element is read and written by one thread.
#pragma once

#include "math.h"

struct Stride2 { i64 row, column; };

// The operands of batch are dst, a, b and c.
template <class C> struct Product {
    Walk<4> batch;
    u32 m, n, k;
    u32 first; // of the batch in this launch, for blocks of z 0: a loop over z would make the compiler keep addresses in registers
    Stride2 dst, a, b, c;
    C alpha, beta;
};

// One element of the result.
template <class T, class C>
FN void finish(const Product<C>& p, T* dst, const T* c, u32 i, u32 j, C sum) {
    if (i >= p.m || j >= p.n) return;
    C v = p.alpha * sum;
    if (p.beta != 0) v = fma(p.beta, (C)get(c[i * p.c.row + j * p.c.column]), v);
    dst[i * p.dst.row + j * p.dst.column] = put<T>(v);
}
