// The softmax family, and the loss on classes. Rows lie along the last dimension; so many lanes of a block work on one row and
// THREADS/lanes rows share a block. Exponentials are computed twice rather than kept, because a second read of a row that
// is still in the cache costs less than room for it.
#include "functions.h"

// The two ways to join what the lanes of a row have.
struct Add2 { template <class C> FN static C of(C a, C b) { return a + b; } };
struct Most2 { template <class C> FN static C of(C a, C b) { return most<C>(nan(b) ? b : a, b); } };

// What all lanes of a row have together, for each of them. Every thread of the block must come here, and a barrier must lie
// before a second time.
template <class J, class C> FN C row_join(C v, u32 lanes, C* sh) {
    u32 tid = threadIdx.x, lane = tid & (lanes - 1), first = tid - lane;
    sh[tid] = v;
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) sh[tid] = J::of(sh[tid], sh[tid + half]);
    }
    __syncthreads();
    return sh[first];
}

// One row of a call: its elements are step apart.
template <class T> struct Row {
    T* dst;
    const T *a, *b;
    i64 dst_step, a_step, b_step;
    u32 columns, lane, lanes;
    bool live;
};

struct Steps { i64 dst, a, b; };

// The operands of w are the output and the inputs; without a second input the last one repeats the first.
template <class T> FN Row<T> row_of(const Walk<3>& w, u32 columns, u32 lanes, T* dst, const T* a, const T* b, const Steps& step) {
    u32 r = blockIdx.x * (THREADS / lanes) + threadIdx.x / lanes;
    Row<T> row = {dst, a, b, step.dst, step.a, step.b, columns, threadIdx.x & (lanes - 1), lanes, r < w.total};
    if (row.live) {
        i64 at[3];
        seek<3>(w, r, at);
        row.dst += at[0];
        row.a += at[1];
        row.b += at[2];
    } else {
        row.columns = 0;
    }
    return row;
}

template <class T> FN Compute<T> at(const T* p, i64 step, u32 j) { return get(p[(i64)j * step]); }

template <class T, class C> FN C row_most(const Row<T>& r, C* sh) {
    C m = -__builtin_inff();
    for (u32 j = r.lane; j < r.columns; j += r.lanes) m = Most2::of<C>(m, at(r.a, r.a_step, j));
    return row_join<Most2>(m, r.lanes, sh);
}

template <class T, class C> FN C row_exp_sum(const Row<T>& r, C most, C* sh) {
    C sum = 0;
    for (u32 j = r.lane; j < r.columns; j += r.lanes) sum += exp_(at(r.a, r.a_step, j) - most);
    __syncthreads(); // all have read the join of most
    return row_join<Add2>(sum, r.lanes, sh);
}

struct Softmax {
    template <class T, class C> FN static void of(const Row<T>& r, C* sh) {
        C m = row_most(r, sh), scale = 1 / row_exp_sum(r, m, sh);
        for (u32 j = r.lane; j < r.columns; j += r.lanes)
            r.dst[(i64)j * r.dst_step] = put<T>(exp_(at(r.a, r.a_step, j) - m) * scale);
    }
};

struct LogSoftmax {
    template <class T, class C> FN static void of(const Row<T>& r, C* sh) {
        C m = row_most(r, sh), shift = log_(row_exp_sum(r, m, sh));
        for (u32 j = r.lane; j < r.columns; j += r.lanes)
            r.dst[(i64)j * r.dst_step] = put<T>((at(r.a, r.a_step, j) - m) - shift);
    }
};

struct SoftmaxGrad {
    template <class T, class C> FN static void of(const Row<T>& r, C* sh) {
        C dot = 0;
        for (u32 j = r.lane; j < r.columns; j += r.lanes) dot = fma(at(r.a, r.a_step, j), at(r.b, r.b_step, j), dot);
        dot = row_join<Add2>(dot, r.lanes, sh);
        for (u32 j = r.lane; j < r.columns; j += r.lanes)
            r.dst[(i64)j * r.dst_step] = put<T>(at(r.b, r.b_step, j) * (at(r.a, r.a_step, j) - dot));
    }
};

struct LogSoftmaxGrad {
    template <class T, class C> FN static void of(const Row<T>& r, C* sh) {
        C sum = 0;
        for (u32 j = r.lane; j < r.columns; j += r.lanes) sum += at(r.a, r.a_step, j);
        sum = row_join<Add2>(sum, r.lanes, sh);
        for (u32 j = r.lane; j < r.columns; j += r.lanes)
            r.dst[(i64)j * r.dst_step] = put<T>(at(r.a, r.a_step, j) - exp_(at(r.b, r.b_step, j)) * sum);
    }
};

#define ROWS(NAME, F, T)                                                                                              \
    KERNEL NAME##_##T(Walk<3> w, u32 columns, u32 lanes, T* dst, const T* a, const T* b, Steps step) { \
        GK_SHARED_ARR(Compute<T>, sh, [THREADS]);                                                                     \
        F::of(row_of(w, columns, lanes, dst, a, b, step), (Compute<T>*)sh);                                           \
    }

// Row n of the loss: -a[n, class], or 0 for the class to ignore. Classes outside of 0..classes-1 are noted.
template <class T>
FN void nll(u32 n, u32 classes, T* dst, const T* a, const i64* b, const Steps& step, i64 column, i64 ignore, Note note) {
    u32 r = blockIdx.x * THREADS + threadIdx.x;
    if (r >= n) return;
    i64 class_ = b[r * step.b];
    Compute<T> v = 0;
    if (class_ != ignore) {
        if (class_ < 0 || class_ >= classes) return complain(note, class_, r, classes);
        v = -get(a[r * step.a + class_ * column]);
    }
    dst[r * step.dst] = put<T>(v);
}

// The gradient: -a[n] at [n, class], else 0. One thread for each element of dst, of n rows and classes columns.
template <class T>
FN void nll_backward(u32 total, Div classes, T* dst, const T* a, const i64* b, const Steps& step, i64 column, i64 ignore, Note note) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= total) return;
    u32 r = quotient(classes, i), c = i - r * classes.size;
    i64 class_ = b[r * step.b];
    if (c == 0 && class_ != ignore && (class_ < 0 || class_ >= classes.size)) complain(note, class_, r, classes.size);
    Compute<T> v = 0;
    if (class_ == c && class_ != ignore) v = -get(a[r * step.a]);
    dst[r * step.dst + c * column] = put<T>(v);
}

#define LOSS(T)                                                                                                       \
    ROWS(softmax, Softmax, T)                                                                                         \
    ROWS(softmax_backward, SoftmaxGrad, T)                                                                            \
    ROWS(log_softmax, LogSoftmax, T)                                                                                  \
    ROWS(log_softmax_backward, LogSoftmaxGrad, T)                                                                     \
    KERNEL nll_loss_##T(u32 n, u32 classes, T* dst, const T* a, const i64* b, Steps step, i64 column, \
                                         i64 ignore, Note note) {                                                     \
        nll(n, classes, dst, a, b, step, column, ignore, note);                                                       \
    }                                                                                                                 \
    KERNEL nll_loss_backward_##T(u32 total, Div classes, T* dst, const T* a, const i64* b, Steps step, \
                                                  i64 column, i64 ignore, Note note) {                                \
        nll_backward(total, classes, dst, a, b, step, column, ignore, note);                                          \
    }

LOSS(f32)
LOSS(f64)
LOSS(f16)
LOSS(bf16)
