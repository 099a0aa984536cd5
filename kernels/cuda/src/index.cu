// IndexAdd. Additions to one element happen in the order of the indices, as the specification wants: the indices are sorted
// first, stably, and then one thread for each element of a slice walks along each run of equal indices. Nothing is added
// atomically, so results are the same bits every time, and half types are rounded once.
#include "base.h"

// An index and where it stood.
struct Entry { u32 index, place; };

// The entries of n indices. Those outside of 0..size-1 are noted and count as 0.
KERNEL index_entries(u32 n, const i64* index, i64 stride, i64 size, Entry* out, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    i64 x = index[(i64)i * stride];
    if (x < 0 || x >= size) {
        complain(note, x, i, size);
        x = 0;
    }
    out[i] = Entry{(u32)x, i};
}

// Sorting is by radix, 4 bits a pass, least bits first. Each thread owns a stretch of the entries, and stretches follow each
// other, so that order among equal digits is kept.
constexpr u32 DIGITS = 16;
struct Stretch { u32 lo, hi; };

FN Stretch stretch_of(u32 from, u32 to) {
    u32 each = (to - from + THREADS - 1) / THREADS, lo = from + threadIdx.x * each;
    lo = lo < to ? lo : to;
    return {lo, to - lo > each ? lo + each : to};
}

FN u32 digit(const Entry& e, u32 pass) { return e.index >> 4 * pass & (DIGITS - 1); }

// Replaces each of count numbers by the sum of those before it, by one block. A thread has so many neighbours of them.
FN void scan(u32* v, u32 count, u32* sums) {
    u32 tid = threadIdx.x, sum = 0;
    Stretch s = stretch_of(0, count);
    for (u32 i = s.lo; i < s.hi; i++) sum += v[i];
    sums[tid] = sum;
    for (u32 reach = 1; reach < THREADS; reach *= 2) {
        __syncthreads();
        u32 before = tid >= reach ? sums[tid - reach] : 0;
        __syncthreads();
        sums[tid] += before;
    }
    u32 start = sums[tid] - sum;
    for (u32 i = s.lo; i < s.hi; i++) {
        u32 c = v[i];
        v[i] = start;
        start += c;
    }
}

// Where each thread's entries of each digit go, among those of the block: counts[digit*THREADS + thread].
FN void rank(const Entry* from, const Stretch& s, u32 pass, u32* counts, u32* sums) {
    for (u32 d = 0; d < DIGITS; d++) counts[d * THREADS + threadIdx.x] = 0;
    for (u32 i = s.lo; i < s.hi; i++) counts[digit(from[i], pass) * THREADS + threadIdx.x]++;
    __syncthreads();
    scan(counts, DIGITS * THREADS, sums);
    __syncthreads();
}

// Sorts n entries by one block. After the last pass the result is in from if the number of passes is even, else in to.
KERNEL index_sort(u32 n, u32 passes, Entry* from, Entry* to) {
    GK_SHARED_ARR(u32, counts, [DIGITS * THREADS]);
    GK_SHARED_ARR(u32, sums, [THREADS]);
    Stretch s = stretch_of(0, n);
    for (u32 pass = 0; pass < passes; pass++) {
        rank(from, s, pass, (u32*)counts, (u32*)sums);
        for (u32 i = s.lo; i < s.hi; i++) {
            Entry e = from[i];
            to[counts[digit(e, pass) * THREADS + threadIdx.x]++] = e;
        }
        __syncthreads();
        Entry* swap = from;
        from = to;
        to = swap;
    }
}

// The same for many entries: a pass is three kernels. Each block ranks its tile; one block adds up how many of each digit all
// tiles before have; and each block moves its tile.
FN Stretch tile_of(u32 n, u32 tile) {
    u32 from = blockIdx.x * tile, to = n - from > tile ? from + tile : n;
    return {from, to};
}

KERNEL sort_count(u32 n, u32 tile, u32 pass, const Entry* from, u32* totals) {
    GK_SHARED_ARR(u32, counts, [DIGITS * THREADS]);
    GK_SHARED_ARR(u32, sums, [THREADS]);
    Stretch t = tile_of(n, tile);
    rank(from, stretch_of(t.lo, t.hi), pass, (u32*)counts, (u32*)sums);
    u32 d = threadIdx.x;
    if (d >= DIGITS) return;
    u32 next = d + 1 < DIGITS ? counts[(d + 1) * THREADS] : t.hi - t.lo;
    totals[d * gridDim.x + blockIdx.x] = next - counts[d * THREADS];
}

KERNEL sort_scan(u32 count, u32* totals) {
    GK_SHARED_ARR(u32, sums, [THREADS]);
    scan(totals, count, (u32*)sums);
}

KERNEL sort_move(u32 n, u32 tile, u32 pass, const Entry* from, Entry* to, const u32* totals) {
    GK_SHARED_ARR(u32, counts, [DIGITS * THREADS]);
    GK_SHARED_ARR(u32, sums, [THREADS]);
    GK_SHARED_ARR(u32, first, [DIGITS]);
    Stretch t = tile_of(n, tile), s = stretch_of(t.lo, t.hi);
    rank(from, s, pass, (u32*)counts, (u32*)sums);
    u32 d = threadIdx.x;
    if (d < DIGITS) first[d] = totals[d * gridDim.x + blockIdx.x] - counts[d * THREADS];
    __syncthreads();
    for (u32 i = s.lo; i < s.hi; i++) {
        Entry e = from[i];
        u32 x = digit(e, pass);
        to[first[x] + counts[x * THREADS + d]++] = e;
    }
}

// Adds the run of x that begins at entry e, in its order; several loads are on their way at a time.
template <class C, class T> FN C add_run(C sum, u32 e, u32 n, u32 x, const T* a, const Entry* sorted, i64 a_step) {
    constexpr u32 AHEAD = 8;
    for (; n - e >= AHEAD && sorted[e + AHEAD - 1].index == x; e += AHEAD) {
        C v[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) v[k] = get(a[sorted[e + k].place * a_step]);
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) sum += v[k];
    }
    for (; e < n && sorted[e].index == x; e++) sum += get(a[sorted[e].place * a_step]);
    return sum;
}

// The walk is over one slice; its operands are the output and the input. Threads of y are entries.
template <class T> FN void index_add(const Walk<2>& w, u32 n, T* dst, const T* a, const Entry* sorted, i64 dst_step, i64 a_step) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.total) return;
    i64 at[2];
    seek<2>(w, i, at);
    for (u32 e = blockIdx.y; e < n; e += gridDim.y) {
        u32 x = sorted[e].index;
        if (e > 0 && sorted[e - 1].index == x) continue; // not the first of its run
        T* out = dst + at[0] + x * dst_step;
        *out = put<T>(add_run(get(*out), e, n, x, a + at[1], sorted, a_step));
    }
}

#define INDEX_ADD(T)                                                                                                  \
    KERNEL index_add_##T(Walk<2> w, u32 n, T* dst, const T* a, const Entry* sorted, i64 dst_step, i64 a_step) { \
        index_add(w, n, dst, a, sorted, dst_step, a_step);                                                            \
    }

INDEX_ADD(f32)
INDEX_ADD(f64)
INDEX_ADD(f16)
INDEX_ADD(bf16)
