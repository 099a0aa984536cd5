// Scatter and ScatterAdd. Several elements may go to one place: then the last one wins, or all are added in their order, the
// same every time. A line is what is left of a call when all dimensions but the indexed one are fixed. Short lines are one
// thread's. Else the elements are sorted by where they go (index.cu), and one thread takes each run of equal places.
#include "base.h"

struct Entry { u32 index, place; }; // where an element goes, and its number in row-major order

// The walk's operands are row-major numbers, the indices, and the output without the indexed dimension.
KERNEL scatter_entries(Walk<3> w, const i64* index, i64 size, i64 step, Entry* out, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.total) return;
    i64 at[3];
    seek<3>(w, i, at);
    i64 x = index[at[1]];
    if (x < 0 || x >= size) {
        complain(note, x, i, size);
        x = 0;
    }
    out[i] = Entry{(u32)(at[2] + x * step), i};
}

// The walk's operands are row-major numbers and the source.
template <class T> FN void scatter_runs(const Walk<2>& w, T* dst, const T* a, const Entry* sorted) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.total) return;
    Entry e = sorted[i];
    if (i + 1 < w.total && sorted[i + 1].index == e.index) return; // not the last of its run
    i64 at[2];
    seek<2>(w, e.place, at);
    dst[e.index] = a[at[1]];
}

template <class T> FN void scatter_add_runs(const Walk<2>& w, T* dst, const T* a, const Entry* sorted) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.total) return;
    u32 x = sorted[i].index;
    if (i > 0 && sorted[i - 1].index == x) return; // not the first of its run
    Compute<T> sum = get(dst[x]);
    for (; i < w.total && sorted[i].index == x; i++) {
        i64 at[2];
        seek<2>(w, sorted[i].place, at);
        sum += get(a[at[1]]);
    }
    dst[x] = put<T>(sum);
}

// The steps along a line, and its elements. The walk is over lines; its operands are output, source and indices.
struct Line {
    u32 n, unused;
    i64 size, dst, a, index;
};

template <class T> FN void scatter_lines(const Walk<3>& w, const Line& l, T* dst, const T* a, const i64* index, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.total) return;
    i64 at[3];
    seek<3>(w, i, at);
    for (u32 k = 0; k < l.n; k++) {
        i64 x = index[at[2] + k * l.index];
        if (x < 0 || x >= l.size) complain(note, x, i, l.size);
        else dst[at[0] + x * l.dst] = a[at[1] + k * l.a];
    }
}

// All elements for one place are added when the first of them is met, so that half types are rounded once.
template <class T> FN void scatter_add_lines(const Walk<3>& w, const Line& l, T* dst, const T* a, const i64* index, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= w.total) return;
    i64 at[3];
    seek<3>(w, i, at);
    const i64* row = index + at[2];
    for (u32 k = 0; k < l.n; k++) {
        i64 x = row[k * l.index];
        if (x < 0 || x >= l.size) {
            complain(note, x, i, l.size);
            continue;
        }
        bool met = false;
        for (u32 m = 0; m < k && !met; m++) met = row[m * l.index] == x;
        if (met) continue;
        T* out = dst + at[0] + x * l.dst;
        Compute<T> sum = get(*out);
        for (u32 m = k; m < l.n; m++)
            if (row[m * l.index] == x) sum += get(a[at[1] + m * l.a]);
        *out = put<T>(sum);
    }
}

#define SCATTER(NAME, T)                                                                                              \
    KERNEL NAME##_runs_##T(Walk<2> w, T* dst, const T* a, const Entry* sorted) { NAME##_runs(w, dst, a, sorted); }    \
    KERNEL NAME##_lines_##T(Walk<3> w, Line l, T* dst, const T* a, const i64* index, Note note) {                     \
        NAME##_lines(w, l, dst, a, index, note);                                                                      \
    }

SCATTER(scatter, u8)
SCATTER(scatter, u16)
SCATTER(scatter, u32)
SCATTER(scatter, u64)
SCATTER(scatter_add, f32)
SCATTER(scatter_add, f64)
SCATTER(scatter_add, f16)
SCATTER(scatter_add, bf16)
