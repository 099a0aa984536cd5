// IndexAdd. Additions to one element happen in the order of the indices, as the specification wants: the indices are sorted
// first, stably, and then one thread for each element of a slice walks along each run of equal indices. Nothing is added
// atomically, so results are the same bits every time, and half types are rounded once.
#include "base.h"

// An index and where it stood.
struct Entry { u32 index, place; };

// Sorting is by radix, 4 bits a pass, least bits first, and stable. In a block each thread owns a stretch of neighbouring entries
// and counts the digits in it; counts are kept digit-major, so that a running sum over them says where each thread's entries of
// a digit go.
constexpr u32 DIGITS = 16, TILE = 8 * THREADS; // entries of a block, where there are several

FN u32 digit(const Entry& e, u32 shift) { return e.index >> shift & (DIGITS - 1); }

// Reads an index; those outside of 0..size-1 are noted and count as 0.
FN Entry entry_of(const i64* index, i64 stride, i64 size, u32 i, const Note& note) {
    i64 x = index[(i64)i * stride];
    if (x < 0 || x >= size) {
        complain(note, x, i, size);
        x = 0;
    }
    return Entry{(u32)x, i};
}

// The sum of what this lane and those before it in its group of so many lanes bring.
FN u32 sum_along(u32 v, u32 lanes) {
    for (u32 reach = 1; reach < lanes; reach *= 2) {
        u32 other = __shfl_up_sync(0xffffffff, v, reach, lanes);
        if (threadIdx.x % lanes >= reach) v += other;
    }
    return v;
}

// The sum of what the threads before this one bring, and of what all bring. Every thread of the block must come here, and a barrier
// must lie before a second time. sh has a place for each warp.
FN u32 sum_before(u32 v, u32* sh, u32& all) {
    u32 warp = threadIdx.x / 32, sum = sum_along(v, 32), before = 0;
    if (threadIdx.x % 32 == 31) sh[warp] = sum;
    __syncthreads();
    all = 0;
    for (u32 w = 0; w < THREADS / 32; w++) {
        if (w == warp) before = all;
        all += sh[w];
    }
    return before + sum - v;
}

// Counts the digits of a thread's stretch of entries, from lo to hi.
FN void count_digits(u32* counts, const Entry* from, u32 lo, u32 hi, u32 shift) {
    for (u32 d = 0; d < DIGITS; d++) counts[d * THREADS + threadIdx.x] = 0;
    for (u32 i = lo; i < hi; i++) counts[digit(from[i], shift) * THREADS + threadIdx.x]++;
    __syncthreads();
}

// Makes counts their running sums, without each count itself: over all counts or, without sums, over those of each digit, which
// 16 lanes share.
FN void places(u32* counts, u32* sums) {
    u32 first = threadIdx.x * DIGITS, sum = 0, all;
    for (u32 k = 0; k < DIGITS; k++) sum += counts[first + k];
    u32 start = sums ? sum_before(sum, sums, all) : sum_along(sum, THREADS / DIGITS) - sum;
    for (u32 k = 0; k < DIGITS; k++) {
        u32 c = counts[first + k];
        counts[first + k] = start;
        start += c;
    }
    __syncthreads();
}

// Sorts n indices, few of them, by one block. from and to have n entries each; the result is in from after an even number of
// passes, else in to.
KERNEL index_sort(u32 n, const i64* index, i64 stride, i64 size, u32 passes, Entry* from, Entry* to, Note note) {
    GK_SHARED_ARR(u32, counts, [DIGITS * THREADS]);
    GK_SHARED_ARR(u32, sums, [THREADS / 32]);
    u32 tid = threadIdx.x, stretch = (n + THREADS - 1) / THREADS;
    u32 lo = tid * stretch < n ? tid * stretch : n, hi = lo + stretch < n ? lo + stretch : n;
    for (u32 i = lo; i < hi; i++) from[i] = entry_of(index, stride, size, i, note);
    for (u32 shift = 0; shift < 4 * passes; shift += 4) {
        count_digits(counts, from, lo, hi, shift);
        places(counts, sums);
        for (u32 i = lo; i < hi; i++) {
            Entry e = from[i];
            to[counts[digit(e, shift) * THREADS + tid]++] = e;
        }
        __syncthreads();
        Entry* swap = from;
        from = to;
        to = swap;
    }
}

// With many indices each block has a tile of them. A pass is three kernels: the digits of each tile are counted, one block sums
// the counts, digit-major again, and each block puts its entries where they belong.

KERNEL index_entries(u32 n, const i64* index, i64 stride, i64 size, Entry* to, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) to[i] = entry_of(index, stride, size, i, note);
}

FN void stretch_of(u32 n, u32& lo, u32& hi) {
    lo = blockIdx.x * TILE + threadIdx.x * (TILE / THREADS);
    lo = lo < n ? lo : n;
    hi = n - lo < TILE / THREADS ? n : lo + TILE / THREADS;
}

KERNEL index_count(u32 n, u32 shift, const Entry* from, u32* totals) {
    GK_SHARED_ARR(u32, counts, [DIGITS * THREADS]);
    u32 lo, hi;
    stretch_of(n, lo, hi);
    count_digits(counts, from, lo, hi, shift);
    u32 d = threadIdx.x / DIGITS, part = threadIdx.x % DIGITS, sum = 0; // 16 threads for each of 16 digits
    for (u32 k = part; k < THREADS; k += THREADS / DIGITS) sum += counts[d * THREADS + k];
    for (u32 lanes = THREADS / DIGITS / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    if (part == 0) totals[d * gridDim.x + blockIdx.x] = sum;
}

// Makes m counts their running sum. It is one block: there are few counts.
KERNEL index_places(u32 m, u32* totals) {
    GK_SHARED_ARR(u32, sums, [THREADS / 32]);
    u32 carry = 0, all;
    for (u32 first = 0; first < m; first += 2 * THREADS) {
        u32 i = first + 2 * threadIdx.x;
        u32 a = i < m ? totals[i] : 0, b = i + 1 < m ? totals[i + 1] : 0;
        u32 start = carry + sum_before(a + b, sums, all);
        if (i < m) totals[i] = start;
        if (i + 1 < m) totals[i + 1] = start + a;
        carry += all;
        __syncthreads(); // all have read the sums
    }
}

KERNEL index_place(u32 n, u32 shift, const Entry* from, Entry* to, const u32* totals) {
    GK_SHARED_ARR(u32, counts, [DIGITS * THREADS]);
    u32 lo, hi;
    stretch_of(n, lo, hi);
    count_digits(counts, from, lo, hi, shift);
    places(counts, nullptr);
    for (u32 i = lo; i < hi; i++) {
        Entry e = from[i];
        u32 d = digit(e, shift);
        to[totals[d * gridDim.x + blockIdx.x] + counts[d * THREADS + threadIdx.x]++] = e;
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
