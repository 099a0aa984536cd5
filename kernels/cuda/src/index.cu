// IndexAdd. Additions to one element happen in the order of the indices, as the specification wants: the indices are sorted
// first, stably, and then one thread for each element of a slice walks along each run of equal indices. Nothing is added
// atomically, so results are the same bits every time, and half types are rounded once.
#include "base.h"

// An index and where it stood.
struct Entry { u32 index, place; };

// Sorts n indices by one block: by radix, 4 bits a pass, least bits first. Each thread owns a stretch of the entries, so that
// order among equal digits is kept. from and to have n entries each; after the last pass the result is in from. Indices
// outside of 0..size-1 are noted and count as 0.
KERNEL index_sort(u32 n, const i64* index, i64 stride, i64 size, u32 passes, Entry* from, Entry* to, Note note) {
    GK_SHARED_ARR(u32, counts, [16 * THREADS]);
    GK_SHARED_ARR(u32, sums, [THREADS]);
    u32 tid = threadIdx.x, stretch = (n + THREADS - 1) / THREADS;
    u32 lo = tid * stretch < n ? tid * stretch : n, hi = lo + stretch < n ? lo + stretch : n;
    for (u32 i = lo; i < hi; i++) {
        i64 x = index[(i64)i * stride];
        if (x < 0 || x >= size) {
            complain(note, x, i, size);
            x = 0;
        }
        from[i] = Entry{(u32)x, i};
    }
    for (u32 pass = 0; pass < passes; pass++) {
        for (u32 d = 0; d < 16; d++) counts[d * THREADS + tid] = 0;
        for (u32 i = lo; i < hi; i++) counts[(from[i].index >> 4 * pass & 15) * THREADS + tid]++;
        __syncthreads();
        u32 sum = 0; // of 16 neighbouring counts: digit-major, so that all threads' digit 0 comes first
        for (u32 k = 0; k < 16; k++) sum += counts[tid * 16 + k];
        sums[tid] = sum;
        for (u32 reach = 1; reach < THREADS; reach *= 2) {
            __syncthreads();
            u32 before = tid >= reach ? sums[tid - reach] : 0;
            __syncthreads();
            sums[tid] += before;
        }
        u32 start = sums[tid] - sum;
        for (u32 k = 0; k < 16; k++) {
            u32 c = counts[tid * 16 + k];
            counts[tid * 16 + k] = start;
            start += c;
        }
        __syncthreads();
        for (u32 i = lo; i < hi; i++) {
            Entry e = from[i];
            to[counts[(e.index >> 4 * pass & 15) * THREADS + tid]++] = e;
        }
        __syncthreads();
        Entry* swap = from;
        from = to;
        to = swap;
    }
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
        Compute<T> sum = get(*out);
        for (u32 k = e; k < n && sorted[k].index == x; k++) sum += get(a[at[1] + sorted[k].place * a_step]);
        *out = put<T>(sum);
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
