// What the convolutions share: their geometry, and how a product's steps and columns are found in an image ("implicit GEMM"; the
// walk of kernels/cpu/convgemm.go, whose words these are). A product of a group, with OVER_PLACES false:
//
//   dst[row, place] = bias[row] + sum over (channel, tap) of a[row, (channel, tap)] * b[(channel, tap), place]
//
// where a is the kernel and b gathers from the image; and for the gradient of the kernel, with OVER_PLACES true:
//
//   dst[row, (channel, tap)] = sum over places of a[row, place] * b[(channel, tap), place]
//
// where a is the gradient. Either way an element of b lies where its tap and its place say, in each of them a sum of products of
// indices and distances, and is 0 if row or column is outside of the image. What is found of each is kept in shared memory.
#pragma once

#include "base.h"

struct Conv {
    u32 m, n, k;               // rows, columns and steps of the product of a group
    u32 part, splits;          // steps of a split, and splits of the sum; partial sums go to the workspace
    u32 groups, first, biased; // first is the pair of group and split for blocks of z 0; conv_last.cu has bits in biased
    Div size1, size0;          // places: columns and rows of the results
    Div taps1, taps0;          // taps: columns and rows
    i32 h_at, h_tap, h_step, w_at, w_tap, w_step; // op.Axis: where the image is read
    i32 rows, columns;                            // of the image
    i64 a_group, a_row, a0, a1, a2;               // distances in a: a0, a1 and a2 of channel and tap, or of place
    i64 b_group, b_image, b_channel, b_row, b_column;
    i64 d_group, d_row, d0, d1, d2;               // in dst: d0, d1 and d2 of place, or of channel and tap
    i64 bias;
};

struct Triple { u32 i, j, k; };

FN Triple triple(const Div& inner, const Div& middle, u32 n) {
    u32 q = quotient(inner, n), i = quotient(middle, q);
    return {i, q - i * middle.size, n - q * inner.size};
}

constexpr i32 OUTSIDE = -(1 << 30);

// One side of a place in the image: the other is added to it.
struct Half { i64 at; i32 y, x; };

FN Half half_of_tap(const Conv& p, u32 n) {
    Triple t = triple(p.taps1, p.taps0, n);
    i32 y = (i32)t.j * p.h_tap, x = (i32)t.k * p.w_tap;
    return {t.i * p.b_channel + y * p.b_row + x * p.b_column, y, x};
}

FN Half half_of_place(const Conv& p, u32 n) {
    Triple t = triple(p.size1, p.size0, n);
    i32 y = p.h_at + (i32)t.j * p.h_step, x = p.w_at + (i32)t.k * p.w_step;
    return {t.i * p.b_image + y * p.b_row + x * p.b_column, y, x};
}

// A step of the sum: where it is in a row of a, and its half of b.
struct Step {
    i64 a;
    Half b;
};

template <bool OVER_PLACES> FN Step step_of(const Conv& p, u32 k, u32 end) {
    if (k >= end) return {0, {0, OUTSIDE, OUTSIDE}};
    Triple t = OVER_PLACES ? triple(p.size1, p.size0, k) : triple(p.taps1, p.taps0, k);
    return {t.i * p.a0 + t.j * p.a1 + t.k * p.a2, OVER_PLACES ? half_of_place(p, k) : half_of_tap(p, k)};
}

template <bool OVER_PLACES> FN Half column_of(const Conv& p, u32 n) {
    if (n >= p.n) return {0, OUTSIDE, OUTSIDE};
    return OVER_PLACES ? half_of_tap(p, n) : half_of_place(p, n);
}

FN bool inside(const Conv& p, const Half& a, const Half& b) {
    return (u32)(a.y + b.y) < (u32)p.rows && (u32)(a.x + b.x) < (u32)p.columns;
}

// The taps that are inside at a place, a bit for each of at most 32: those whose row and whose column are.
FN u32 taps_of(const Conv& p, const Half& place) {
    u32 across = 0, taps = 0;
    for (u32 x = 0; x < p.taps1.size; x++) across |= (u32)((u32)(place.x + (i32)x * p.w_tap) < (u32)p.columns) << x;
    for (u32 y = 0; y < p.taps0.size; y++)
        if ((u32)(place.y + (i32)y * p.h_tap) < (u32)p.rows) taps |= across << y * p.taps1.size;
    return taps;
}

// The group and the split of a block.
struct Part { u32 group, split, k, end; };

FN Part part_of(const Conv& p) {
    u32 z = p.first + blockIdx.z, group = z / p.splits, split = z - group * p.splits;
    u32 k = split * p.part, end = k + p.part < p.k ? k + p.part : p.k;
    return {group, split, k, end};
}

// One element of a product: to dst, or to the workspace.
template <bool OVER_PLACES, class T, class C>
FN void finish(const Conv& p, const Part& part, T* dst, const T* bias, C* work, u32 row, u32 column, C sum) {
    if (row >= p.m || column >= p.n) return;
    if (p.splits > 1) {
        work[(((i64)part.split * p.groups + part.group) * p.m + row) * p.n + column] = sum;
        return;
    }
    Triple t = OVER_PLACES ? triple(p.taps1, p.taps0, column) : triple(p.size1, p.size0, column);
    if (p.biased) sum += get(bias[((i64)part.group * p.m + row) * p.bias]);
    dst[part.group * p.d_group + row * p.d_row + t.i * p.d0 + t.j * p.d1 + t.k * p.d2] = put<T>(sum);
}
