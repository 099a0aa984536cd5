// Resampling. A thread computes one result, or one element of an image's gradient: it looks at all results that took from the
// element, so that nothing is added atomically and the order of additions is fixed. Where results take from does not
// decrease along a dimension, so those of an element are neighbours; the first of them is guessed, and found by walking.
#include "base.h"

// One side of a call: the distances of images, channels, rows and columns.
struct Plane { i64 image, channel, row, column; };

// total counts the elements of what is computed; width, height and channels divide its places. step is the distance of
// results in the image.
template <class C> struct Sample {
    u32 total, aligned;
    Div width, height, channels;
    i32 rows, columns, high, wide; // of images, and of results
    Plane image, result;
    C step0, step1;
};

struct Spot { u32 n, c, y, x; };

template <class C> FN Spot spot_of(const Sample<C>& p, u32 i) {
    u32 q = quotient(p.width, i), r = quotient(p.height, q), n = quotient(p.channels, r);
    return {n, r - n * p.channels.size, q - r * p.height.size, i - q * p.width.size};
}

FN i64 at(const Plane& p, const Spot& s, i32 y, i32 x) { return s.n * p.image + s.c * p.channel + y * p.row + x * p.column; }

// Where a result comes from along one dimension: near with weight 1-part, far with weight part.
template <class C> struct Source {
    i32 near, far;
    C part;
};

struct Nearest {
    template <class C> FN static Source<C> of(i32 i, C step, i32 size, u32) {
        i32 near = (i32)((f32)i * (f32)step);
        near = near < size ? near : size - 1;
        return {near, near, 0};
    }
};

struct Linear {
    template <class C> FN static Source<C> of(i32 i, C step, i32 size, u32 aligned) {
        C at = (C)i * step;
        if (!aligned) {
            at = ((C)i + (C)0.5) * step - (C)0.5;
            at = at > 0 ? at : 0;
        }
        i32 near = (i32)at;
        if (near >= size - 1) return {size - 1, size - 1, 0};
        return {near, near + 1, at - (C)near};
    }
};

template <class F, class T, class C> FN void sample(const Sample<C>& p, T* dst, const T* a) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.total) return;
    Spot s = spot_of(p, i);
    Source<C> h = F::of((i32)s.y, p.step0, p.rows, p.aligned), w = F::of((i32)s.x, p.step1, p.columns, p.aligned);
    C v = get(a[at(p.image, s, h.near, w.near)]);
    if (Same<F, Linear>::value) {
        C above = v * (1 - w.part) + (C)get(a[at(p.image, s, h.near, w.far)]) * w.part;
        C below = (C)get(a[at(p.image, s, h.far, w.near)]) * (1 - w.part) + (C)get(a[at(p.image, s, h.far, w.far)]) * w.part;
        v = above * (1 - h.part) + below * h.part;
    }
    dst[at(p.result, s, s.y, s.x)] = put<T>(v);
}

// The first result of which far is at least i. guess is where it may be.
template <class F, class C> FN i32 first_of(i32 i, C step, i32 size, i32 results, u32 aligned) {
    i32 guess = 0;
    if (step > 0) {
        C g = ((C)i - 1) / step;
        guess = g < 0 ? 0 : g < (C)results ? (i32)g : results;
    }
    while (guess > 0 && F::of(guess - 1, step, size, aligned).far >= i) guess--;
    while (guess < results && F::of(guess, step, size, aligned).far < i) guess++;
    return guess;
}

// The weight with which element i goes into a result.
template <class C> FN C weight(const Source<C>& s, i32 i) { return (s.near == i ? 1 - s.part : 0) + (s.far == i ? s.part : 0); }

template <class F, class T, class C> FN void sample_backward(const Sample<C>& p, T* dst, const T* a) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.total) return;
    Spot s = spot_of(p, i);
    i32 row = (i32)s.y, column = (i32)s.x;
    i32 x0 = first_of<F>(column, p.step1, p.columns, p.wide, p.aligned);
    C sum = 0;
    for (i32 y = first_of<F>(row, p.step0, p.rows, p.high, p.aligned); y < p.high; y++) {
        Source<C> h = F::of(y, p.step0, p.rows, p.aligned);
        if (h.near > row) break;
        C line = 0;
        for (i32 x = x0; x < p.wide; x++) {
            Source<C> w = F::of(x, p.step1, p.columns, p.aligned);
            if (w.near > column) break;
            line += (C)get(a[at(p.result, s, y, x)]) * weight(w, column);
        }
        sum += line * weight(h, row);
    }
    dst[at(p.image, s, s.y, s.x)] = put<T>(sum);
}

#define SAMPLE_OF(NAME, F, T)                                                                                         \
    KERNEL NAME##_##T(Sample<Compute<T>> p, T* dst, const T* a) { sample<F>(p, dst, a); }                             \
    KERNEL NAME##_backward_##T(Sample<Compute<T>> p, T* dst, const T* a) { sample_backward<F>(p, dst, a); }

#define SAMPLE(T)                                                                                                     \
    SAMPLE_OF(upsample_nearest2d, Nearest, T)                                                                         \
    SAMPLE_OF(upsample_bilinear2d, Linear, T)

SAMPLE(f32)
SAMPLE(f64)
SAMPLE(f16)
SAMPLE(bf16)
