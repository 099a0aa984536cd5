// EmbeddingBag: rows of a table are added up, averaged or compared by bags. Its gradient sorts the indices (index.cu), so that one
// thread adds all that belongs to an element, in order.
#include "base.h"

struct Entry { u32 index, place; };

struct Bags {
    u32 bags, indices;
    Div width;
    u32 mode;
    i64 rows, padding;
};

enum : u32 { SUM = 0, MEAN = 1, MOST = 2 };

// The indices of bag k. Offsets out of order or out of range are noted; such a bag is empty.
FN void range_of(const Bags& p, const i64* offsets, u32 k, i64& from, i64& to, const Note& note) {
    from = offsets[k];
    to = k + 1 < p.bags ? offsets[k + 1] : (i64)p.indices;
    i64 before = k > 0 ? offsets[k - 1] : 0;
    if (from < before || from > p.indices) complain(note, from, k, (u64)p.indices + 1);
    if (from < 0 || to > p.indices) to = from;
}

// A thread for each element of the output. result has counts of bags, or rows of elements.
template <class T>
FN void embedding_bag(const Bags& p, T* dst, i64* result, const T* a, const i64* index, const i64* offsets, const Note& note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x, width = p.width.size;
    if (i >= p.bags * width) return;
    u32 k = quotient(p.width, i), column = i - k * width;
    i64 from, to, count = 0, chosen = -1;
    range_of(p, offsets, k, from, to, note);
    Compute<T> y = 0;
    for (i64 n = from; n < to; n++) {
        i64 row = index[n];
        if (row < 0 || row >= p.rows) {
            complain(note, row, (u64)n, (u64)p.rows);
            continue;
        }
        if (row == p.padding) continue;
        Compute<T> v = get(a[row * width + column]);
        count++;
        if (p.mode != MOST) {
            y += v;
        } else if (chosen < 0 || v > y) {
            y = v;
            chosen = row;
        }
    }
    if (p.mode == MEAN) {
        if (count > 0) y /= (Compute<T>)count;
        if (column == 0) result[k] = count;
    }
    if (p.mode == MOST) result[i] = chosen;
    dst[i] = put<T>(y);
}

// The bag of a place among the indices: the last that begins at or before it; -1 for places before the first.
FN i64 bag_of(const Bags& p, const i64* offsets, u32 place) {
    u32 lo = 0, hi = p.bags;
    while (lo < hi) {
        u32 middle = lo + (hi - lo) / 2;
        if (offsets[middle] <= (i64)place) lo = middle + 1;
        else hi = middle;
    }
    return (i64)lo - 1;
}

// Threads of x are columns, those of y entries: the first of each run of equal indices adds the run up.
template <class T>
FN void embedding_bag_backward(const Bags& p, T* dst, const T* g, const Entry* sorted, const i64* offsets, const i64* counts, const Note& note) {
    u32 column = blockIdx.x * THREADS + threadIdx.x, width = p.width.size;
    if (blockIdx.y == 0) { // one row of blocks looks at the offsets
        for (u32 k = column; k < p.bags; k += gridDim.x * THREADS) {
            i64 before = k > 0 ? offsets[k - 1] : 0;
            if (offsets[k] < before || offsets[k] > p.indices) complain(note, offsets[k], k, (u64)p.indices + 1);
        }
    }
    if (column >= width) return;
    for (u32 e = blockIdx.y; e < p.indices; e += gridDim.y) {
        u32 x = sorted[e].index;
        if (e > 0 && sorted[e - 1].index == x) continue; // not the first of its run
        if ((i64)x == p.padding) continue;
        T* out = dst + (u64)x * width + column;
        Compute<T> sum = get(*out);
        for (u32 n = e; n < p.indices && sorted[n].index == x; n++) {
            i64 k = bag_of(p, offsets, sorted[n].place);
            if (k < 0) continue;
            Compute<T> v = get(g[k * width + column]);
            if (p.mode == MEAN) v /= (Compute<T>)(counts[k] > 0 ? counts[k] : 1);
            sum += v;
        }
        *out = put<T>(sum);
    }
}

#define BAG(T)                                                                                                        \
    KERNEL embedding_bag_##T(Bags p, T* dst, i64* result, const T* a, const i64* index, const i64* offsets, Note note) { \
        embedding_bag(p, dst, result, a, index, offsets, note);                                                       \
    }                                                                                                                 \
    KERNEL embedding_bag_backward_##T(Bags p, T* dst, const T* g, const Entry* sorted, const i64* offsets, const i64* counts, Note note) { \
        embedding_bag_backward(p, dst, g, sorted, offsets, counts, note);                                             \
    }

BAG(f32)
BAG(f64)
BAG(f16)
BAG(bf16)
