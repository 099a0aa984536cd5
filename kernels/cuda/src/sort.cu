// Sort and TopK. Rows lie along the last dimension. Elements become entries: keys, unsigned numbers in the order of the elements,
// and places, which decide between equal keys, so that any way of sorting is stable and gives the same result every time. A
// block sorts a tile of entries in shared memory, a network of exchanges (Batcher's bitonic one); short rows share a block.
// Longer rows go through the workspace: sorted tiles are merged in pairs; for TopK each tile keeps its first entries and the
// rest is tiled again.
#include "functions.h"

// An entry with a key of 32 bits is one number; with one of 64 bits it is a pair.
struct Wide {
    u64 key;
    u32 at, unused;
};

FN bool less(u64 a, u64 b) { return a < b; }
FN bool less(const Wide& a, const Wide& b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }
FN u32 place(u64 e) { return (u32)e; }
FN u32 place(const Wide& e) { return e.at; }

// Keys: NaN is the greatest, -0 is 0.
FN u32 key_of(f32 v) {
    if (v != v) return ~0u;
    u32 b = v == 0 ? 0u : bits_of(v);
    return b >> 31 ? ~b : b | 1u << 31;
}
FN u64 key_of(f64 v) {
    if (v != v) return ~0ull;
    u64 b = v == 0 ? 0ull : bits_of(v);
    return b >> 63 ? ~b : b | 1ull << 63;
}
FN u64 key_of(i64 v) { return (u64)v ^ 1ull << 63; }
FN u32 key_of(i32 v) { return (u32)v ^ 1u << 31; }
FN u32 key_of(u8 v) { return v; }

FN u64 entry(u32 key, u32 at, u32 flip) { return (u64)(key ^ (flip ? ~0u : 0u)) << 32 | at; }
FN Wide entry(u64 key, u32 at, u32 flip) { return {key ^ (flip ? ~0ull : 0ull), at, 0}; }

// Greater than every entry of an element.
template <class E> FN E last();
template <> FN u64 last<u64>() { return ~0ull; }
template <> FN Wide last<Wide>() { return {~0ull, ~0u, 0}; }

template <class E> constexpr u32 TILE = sizeof(E) == 8 ? 4096 : 2048;

struct SortPlan {
    u32 rows, columns, padded, shared_rows, tiles, keep, flip, direct; // padded: a power of two; shared_rows: rows of a block
};

// Sorts each stretch of p.padded entries.
template <class E> FN void exchange(E* sh, const SortPlan& p) {
    u32 total = p.padded * p.shared_rows;
    for (u32 k = 2; k <= p.padded; k *= 2)
        for (u32 s = k / 2; s > 0; s /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < total / 2; i += THREADS) {
                u32 lo = 2 * i - (i & (s - 1));
                E a = sh[lo], b = sh[lo + s];
                bool ascending = k == p.padded || !(lo & k);
                if (less(b, a) == ascending) {
                    sh[lo] = b;
                    sh[lo + s] = a;
                }
            }
        }
    __syncthreads();
}

// The entries that a tile keeps go to their place among those of the row's other tiles.
template <class E> FN void keep_entries(const E* sh, const SortPlan& p, u32 row, u32 tile, E* work) {
    u32 left = p.columns - tile * TILE<E>, n = left < p.keep ? left : p.keep;
    u64 total = (u64)(p.tiles - 1) * p.keep, end = p.columns - (p.tiles - 1) * TILE<E>;
    total += end < p.keep ? end : p.keep;
    for (u32 j = threadIdx.x; j < n; j += THREADS) work[row * total + (u64)tile * p.keep + j] = sh[j];
}

struct SortSteps {
    i64 values, indices, a;
};

// w walks over the rows: values, indices, input.
template <class E, class T>
FN void sort_rows(const Walk<3>& w, const SortPlan& p, T* values, i64* indices, const T* a, const SortSteps& step, E* work) {
    GK_SHARED_ARR(E, sh, [TILE<E>]);
    u32 tile = blockIdx.x % p.tiles, first = blockIdx.x / p.tiles * p.shared_rows;
    for (u32 i = threadIdx.x; i < p.padded * p.shared_rows; i += THREADS) {
        u32 row = first + i / p.padded, j = tile * TILE<E> + (i & (p.padded - 1));
        E e = last<E>();
        if (row < p.rows && j < p.columns) {
            i64 at[3];
            seek<3>(w, row, at);
            e = entry(key_of(get(a[at[2] + (i64)j * step.a])), j, p.flip);
        }
        sh[i] = e;
    }
    exchange(sh, p);
    if (!p.direct) return keep_entries(sh, p, first, tile, work);
    for (u32 i = threadIdx.x; i < p.keep * p.shared_rows; i += THREADS) {
        u32 seg = i / p.keep, row = first + seg, j = i - seg * p.keep;
        if (row >= p.rows) break;
        i64 at[3];
        seek<3>(w, row, at);
        u32 source = place(sh[seg * p.padded + j]);
        values[at[0] + (i64)j * step.values] = a[at[2] + (i64)source * step.a];
        indices[at[1] + (i64)j * step.indices] = source;
    }
}

// Tiles of entries instead of elements, of rows with p.columns of them.
template <class E> FN void sort_again(const SortPlan& p, const E* from, E* to) {
    GK_SHARED_ARR(E, sh, [TILE<E>]);
    u32 tile = blockIdx.x % p.tiles, row = blockIdx.x / p.tiles;
    for (u32 i = threadIdx.x; i < p.padded; i += THREADS) {
        u32 j = tile * TILE<E> + i;
        sh[i] = j < p.columns ? from[(u64)row * p.columns + j] : last<E>();
    }
    exchange(sh, p);
    keep_entries(sh, p, row, tile, to);
}

// Merges runs of sorted entries in pairs: the place of an entry is its place in its run and the number of lesser entries in the
// other one.
template <class E> FN void sort_merge(u32 rows, u32 n, u32 run, const E* from, E* to) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    u32 lo = i / run / 2 * 2 * run, middle = n - lo > run ? lo + run : n, hi = n - middle > run ? middle + run : n;
    bool left = i < middle;
    for (u32 row = blockIdx.y; row < rows; row += gridDim.y) {
        const E* in = from + (u64)row * n;
        E e = in[i];
        u32 l = left ? middle : lo, h = left ? hi : middle, first = l;
        while (l < h) {
            u32 m = l + (h - l) / 2;
            if (less(in[m], e)) l = m + 1;
            else h = m;
        }
        u32 at = (left ? i : lo + (i - middle)) + (l - first);
        to[(u64)row * n + at] = e;
    }
}

// Values and places of the first p.keep of each row's p.columns entries.
template <class E, class T>
FN void sort_out(const Walk<3>& w, const SortPlan& p, T* values, i64* indices, const T* a, const SortSteps& step, const E* from) {
    u32 j = blockIdx.x * THREADS + threadIdx.x;
    if (j >= p.keep) return;
    for (u32 row = blockIdx.y; row < p.rows; row += gridDim.y) {
        i64 at[3];
        seek<3>(w, row, at);
        u32 source = place(from[(u64)row * p.columns + j]);
        values[at[0] + (i64)j * step.values] = a[at[2] + (i64)source * step.a];
        indices[at[1] + (i64)j * step.indices] = source;
    }
}

#define SORT(T, E)                                                                                                    \
    KERNEL sort_##T(Walk<3> w, SortPlan p, T* values, i64* indices, const T* a, SortSteps step, E* work) {            \
        sort_rows<E>(w, p, values, indices, a, step, work);                                                           \
    }                                                                                                                 \
    KERNEL sort_##T##_out(Walk<3> w, SortPlan p, T* values, i64* indices, const T* a, SortSteps step, E* work) {      \
        sort_out<E>(w, p, values, indices, a, step, work);                                                            \
    }

#define SORT_ENTRIES(NAME, E)                                                                                         \
    KERNEL sort_again_##NAME(SortPlan p, const E* from, E* to) { sort_again(p, from, to); }                           \
    KERNEL sort_merge_##NAME(u32 rows, u32 n, u32 run, const E* from, E* to) { sort_merge(rows, n, run, from, to); }

SORT(f32, u64)
SORT(f16, u64)
SORT(bf16, u64)
SORT(i32, u64)
SORT(u8, u64)
SORT(b8, u64)
SORT(f64, Wide)
SORT(i64, Wide)
SORT_ENTRIES(narrow, u64)
SORT_ENTRIES(wide, Wide)
