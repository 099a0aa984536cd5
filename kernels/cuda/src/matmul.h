// What the matrix products share: their sizes and strides, the walk over the batch, and what becomes of a sum.
//
//   s[z, i, j]   = sum over k of a[z, i, k]*b[z, k, j]
//   pre[z, i, j] = alpha * s[z, i, j] + beta * c[z, i, j]
//   dst[z, i, j] = activation of that, before it is rounded
//
// c is not read if beta is 0. It may be dst: each element is read and written by one thread. pre is written if it is there.
//
// With more than one slice a block computes sums over a part of k only and leaves them in parts; join adds the slices up in
// their order, so that results do not depend on timing, and goes on as above.
#pragma once

#include "functions.h"

struct Stride2 { i64 row, column; };

enum : u32 { IDENTITY = 0, RELU = 1, GELU_ERF = 2, GELU_TANH = 3 };

// Product::wide of results that are the sums as they are, or these and a bias: c of one row whose pieces can be accessed, or of one column.
constexpr u32 PLAIN = 2;

// The operands of batch are dst, a, b and c.
template <class C> struct Product {
    Walk<4> batch;
    u32 m, n, k;
    u32 first;         // of the batch in this launch, for blocks of z 0: a loop over z would make the compiler keep addresses in registers
    u32 slices, depth; // of k, and what each but the last has of it
    u32 activation;
    u32 stages;        // of shared memory, on tensor cores
    u32 wide, wide_c;  // dst and pre, or c, are row-major, and pieces of 16 bytes of a row can be accessed at once; wide may be PLAIN
    Stride2 dst, a, b, c, pre;
    C alpha, beta;
};

template <class C> FN C activate(u32 activation, C v) {
    if (activation == RELU) return v <= 0 ? (C)0 : v;
    if (activation == GELU_ERF) return v * normal_cdf(v);
    if (activation == GELU_TANH) return v * sigmoid(gelu_argument(v));
    return v;
}

// The operands of one product of the batch, and the block's part of it.
template <class T, class C> struct Part {
    T* dst;
    const T *a, *b, *c;
    T* pre;
    C* parts;     // of the block's slice: m by n; null if there is one slice
    u32 from, to; // of k
};

template <class T, class C>
FN Part<T, C> part_of(const Product<C>& p, u32 z, T* dst, const T* a, const T* b, const T* c, T* pre, C* parts) {
    u32 slice = 0, of = z;
    if (p.slices > 1) {
        of = z / p.slices;
        slice = z - of * p.slices;
        parts += (u64)(p.first * p.slices + z) * p.m * p.n;
    }
    i64 at[4];
    seek<4>(p.batch, p.first + of, at);
    u32 from = slice * p.depth, to = p.k - from < p.depth ? p.k : from + p.depth;
    return {dst + at[0], a + at[1], b + at[2], c + at[3], pre, p.slices > 1 ? parts : nullptr, from, to};
}

// The same number, but the compiler does not know that. part_of of it is computed anew after the sums, whose loop needs the registers.
FN u32 again(u32 v) {
    asm volatile("" : "+r"(v));
    return v;
}

// One element of the result, from its sum.
template <class T, class C> FN C value_of(const Product<C>& p, const Part<T, C>& q, u32 i, u32 j, C sum) {
    C v = p.alpha * sum;
    if (p.beta != 0) v = fma(p.beta, (C)get(q.c[i * p.c.row + j * p.c.column]), v);
    return v;
}

template <class T, class C> FN void finish(const Product<C>& p, const Part<T, C>& q, u32 i, u32 j, C sum) {
    if (i >= p.m || j >= p.n) return;
    if (q.parts) {
        q.parts[(u64)i * p.n + j] = sum;
        return;
    }
    C v = value_of(p, q, i, j, sum);
    if (q.pre) q.pre[i * p.pre.row + j * p.pre.column] = put<T>(v);
    q.dst[i * p.dst.row + j * p.dst.column] = put<T>(activate(p.activation, v));
}
