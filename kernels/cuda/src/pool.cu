// Pooling. A thread computes one result, or one element of an image's gradient: it looks at all windows that the element is in,
// so that nothing is added atomically and the order of additions is fixed. Neighbouring threads have neighbouring columns.
#include "base.h"

// One side of a call: the distances of images, channels, rows and columns.
struct Plane { i64 image, channel, row, column; };

// total counts the elements of what is computed; width, height and channels divide its places.
struct Pool {
    u32 total, adaptive;
    Div width, height, channels;
    i32 rows, columns, high, wide;        // of images, and of results
    i32 size0, size1, stride0, stride1, padding0, padding1, dilation0, dilation1;
    u32 include, divided;                 // AvgPool2D: whether padding counts, and whether divisor does instead
    i64 divisor;
    Plane image, result, number;
};

struct Spot { u32 n, c, y, x; };

FN Spot spot_of(const Pool& p, u32 i) {
    u32 q = quotient(p.width, i), r = quotient(p.height, q), n = quotient(p.channels, r);
    return {n, r - n * p.channels.size, q - r * p.height.size, i - q * p.width.size};
}

FN i64 at(const Plane& p, const Spot& s, i32 y, i32 x) { return s.n * p.image + s.c * p.channel + y * p.row + x * p.column; }

// A window along one dimension: first, and the number of elements, which are step apart. All but those of adaptive windows may
// reach over the image.
struct Window { i32 first, size, step; };

FN Window window_of(i32 i, bool adaptive, i32 image, i32 results, i32 size, i32 stride, i32 padding, i32 dilation) {
    if (!adaptive) return {i * stride - padding, size, dilation};
    u32 first = (u32)i * image / results, end = (((u32)i + 1) * image + results - 1) / results; // the host has seen that they fit
    return {(i32)first, (i32)(end - first), 1};
}

template <bool ADAPTIVE> FN Window rows_of(const Pool& p, i32 y) {
    return window_of(y, ADAPTIVE, p.rows, p.high, p.size0, p.stride0, p.padding0, p.dilation0);
}
template <bool ADAPTIVE> FN Window columns_of(const Pool& p, i32 x) {
    return window_of(x, ADAPTIVE, p.columns, p.wide, p.size1, p.stride1, p.padding1, p.dilation1);
}

// The results first..last whose windows may have element i.
struct Range { i32 first, last; };

FN Range range_of(i32 i, bool adaptive, i32 image, i32 results, i32 size, i32 stride, i32 padding, i32 dilation) {
    if (adaptive) {
        i32 last = (i32)((((u32)i + 1) * results - 1) / image);
        return {(i32)((u32)i * results / image), last < results ? last : results - 1};
    }
    i32 before = i + padding - (size - 1) * dilation; // the first window begins no earlier
    i32 first = before > 0 ? (before + stride - 1) / stride : 0, last = (i + padding) / stride;
    return {first, last < results ? last : results - 1};
}

template <bool ADAPTIVE> FN Range rows_with(const Pool& p, i32 y) {
    return range_of(y, ADAPTIVE, p.rows, p.high, p.size0, p.stride0, p.padding0, p.dilation0);
}
template <bool ADAPTIVE> FN Range columns_with(const Pool& p, i32 x) {
    return range_of(x, ADAPTIVE, p.columns, p.wide, p.size1, p.stride1, p.padding1, p.dilation1);
}

// Which element of a window i is, or -1.
FN i32 element_of(const Window& w, i32 i) {
    i32 d = i - w.first;
    if (d < 0) return -1;
    i32 u = d / w.step;
    return u < w.size && u * w.step == d ? u : -1;
}

template <class T, class N> FN void max_pool2d(const Pool& p, T* dst, N* numbers, const T* a) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.total) return;
    Spot s = spot_of(p, i);
    Window h = p.adaptive ? rows_of<true>(p, s.y) : rows_of<false>(p, s.y);
    Window w = p.adaptive ? columns_of<true>(p, s.x) : columns_of<false>(p, s.x);
    Compute<T> most = -__builtin_inff();
    i32 number = -1;
    for (i32 u = 0; u < h.size; u++) {
        i32 y = h.first + u * h.step;
        if ((u32)y >= (u32)p.rows) continue;
        for (i32 v = 0; v < w.size; v++) {
            i32 x = w.first + v * w.step;
            if ((u32)x >= (u32)p.columns) continue;
            Compute<T> value = get(a[at(p.image, s, y, x)]);
            if (value > most || value != value || number < 0) {
                most = value;
                number = u * w.size + v;
            }
        }
    }
    dst[at(p.result, s, s.y, s.x)] = put<T>(most);
    numbers[at(p.number, s, s.y, s.x)] = (N)(number < 0 ? 0 : number);
}

// The sum of the gradients that came from a spot.
template <bool ADAPTIVE, class T, class N> FN Compute<T> max_sum(const Pool& p, const Spot& s, const N* numbers, const T* a) {
    Range rows = rows_with<ADAPTIVE>(p, s.y), columns = columns_with<ADAPTIVE>(p, s.x);
    Compute<T> sum = 0;
    for (i32 y = rows.first; y <= rows.last; y++) {
        i32 u = element_of(rows_of<ADAPTIVE>(p, y), s.y);
        for (i32 x = columns.first; x <= columns.last; x++) {
            Window w = columns_of<ADAPTIVE>(p, x);
            i32 v = element_of(w, s.x);
            if ((u | v) >= 0 && (i32)numbers[at(p.number, s, y, x)] == u * w.size + v) sum += get(a[at(p.result, s, y, x)]);
        }
    }
    return sum;
}

template <class T, class N> FN void max_pool2d_backward(const Pool& p, T* dst, const N* numbers, const T* a) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.total) return;
    Spot s = spot_of(p, i);
    dst[at(p.image, s, s.y, s.x)] = put<T>(p.adaptive ? max_sum<true>(p, s, numbers, a) : max_sum<false>(p, s, numbers, a));
}

FN i32 least(i32 a, i32 b) { return a < b ? a : b; }
FN i32 most(i32 a, i32 b) { return a > b ? a : b; }

// What the sum of a window is divided by. Windows of AvgPool2D have no dilation.
FN i64 divisor_of(const Pool& p, const Window& h, const Window& w) {
    if (p.divided) return p.divisor;
    if (p.include && !p.adaptive)
        return (i64)least(h.size, p.rows + p.padding0 - h.first) * least(w.size, p.columns + p.padding1 - w.first);
    i64 high = least(h.first + h.size, p.rows) - most(h.first, 0), wide = least(w.first + w.size, p.columns) - most(w.first, 0);
    return high * wide;
}

template <class T> FN void avg_pool2d(const Pool& p, T* dst, const T* a) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.total) return;
    Spot s = spot_of(p, i);
    Window h = p.adaptive ? rows_of<true>(p, s.y) : rows_of<false>(p, s.y);
    Window w = p.adaptive ? columns_of<true>(p, s.x) : columns_of<false>(p, s.x);
    i32 y_end = least(h.first + h.size, p.rows), x_end = least(w.first + w.size, p.columns);
    Compute<T> sum = 0;
    bool any = false;
    for (i32 y = most(h.first, 0); y < y_end; y++)
        for (i32 x = most(w.first, 0); x < x_end; x++) {
            sum += get(a[at(p.image, s, y, x)]);
            any = true;
        }
    dst[at(p.result, s, s.y, s.x)] = put<T>(any ? sum / (Compute<T>)divisor_of(p, h, w) : (Compute<T>)0);
}

// The sum of what the gradients give to a spot.
template <bool ADAPTIVE, class T> FN Compute<T> avg_sum(const Pool& p, const Spot& s, const T* a) {
    Range rows = rows_with<ADAPTIVE>(p, s.y), columns = columns_with<ADAPTIVE>(p, s.x);
    Compute<T> sum = 0;
    for (i32 y = rows.first; y <= rows.last; y++) {
        Window h = rows_of<ADAPTIVE>(p, y);
        bool in = element_of(h, s.y) >= 0;
        for (i32 x = columns.first; x <= columns.last; x++) {
            Window w = columns_of<ADAPTIVE>(p, x);
            if (in && element_of(w, s.x) >= 0) sum += get(a[at(p.result, s, y, x)]) / (Compute<T>)divisor_of(p, h, w);
        }
    }
    return sum;
}

template <class T> FN void avg_pool2d_backward(const Pool& p, T* dst, const T* a) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.total) return;
    Spot s = spot_of(p, i);
    dst[at(p.image, s, s.y, s.x)] = put<T>(p.adaptive ? avg_sum<true>(p, s, a) : avg_sum<false>(p, s, a));
}

#define MAX_POOL(T, N)                                                                                                \
    KERNEL max_pool2d_##T##_##N(Pool p, T* dst, N* numbers, const T* a) { max_pool2d(p, dst, numbers, a); }           \
    KERNEL max_pool2d_backward_##T##_##N(Pool p, T* dst, const N* numbers, const T* a) { max_pool2d_backward(p, dst, numbers, a); }

#define POOL(T)                                                                                                       \
    MAX_POOL(T, u8)                                                                                                   \
    MAX_POOL(T, i32)                                                                                                  \
    KERNEL avg_pool2d_##T(Pool p, T* dst, const T* a) { avg_pool2d(p, dst, a); }                                      \
    KERNEL avg_pool2d_backward_##T(Pool p, T* dst, const T* a) { avg_pool2d_backward(p, dst, a); }

POOL(f32)
POOL(f64)
POOL(f16)
POOL(bf16)
