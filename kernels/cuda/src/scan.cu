// CumSum, CumProd and the gradient of CumProd. Rows lie along the last dimension. A row has one thread, where neighbouring rows
// are nearer than the elements of a row, or a warp, or a block; a long row is cut into parts with a block each, whose totals
// name_part leaves in the workspace. All three are scans of an associative operation: the loops in kernels/cpu/scan.go are
// the specification.
#include "functions.h"

// What a scan reads and writes, as elements of one row.
template <class D, class T> struct Rows {
    D* dst;
    const T *a, *b, *c;
    i64 dst_step, a_step, b_step, c_step;
    u32 columns;
};

template <class T> FN T up(T v, u32 d) { return __shfl_up_sync(~0u, v, d); }
template <class T> FN T of_last(T v) { return __shfl_sync(~0u, v, 31); }

template <class C> struct RunSum {
    using A = C;
    FN static A start() { return 0; }
    FN static A join(A a, A b) { return plus<C>(a, b); }
    template <class D, class T> FN static A at(const Rows<D, T>& r, u32 i) { return (C)get(r.a[(i64)i * r.a_step]); }
    template <class D, class T> FN static void put_at(const Rows<D, T>& r, u32 i, A v) { r.dst[(i64)i * r.dst_step] = put<D>(v); }
};

template <class C> struct RunProd : RunSum<C> {
    FN static C start() { return 1; }
    FN static C join(C a, C b) { return times<C>(a, b); }
};

// A product rounds at each factor: those of float are formed in double.
template <> struct RunProd<f32> : RunProd<f64> {
    template <class D, class T> FN static void put_at(const Rows<D, T>& r, u32 i, f64 v) { r.dst[(i64)i * r.dst_step] = put<D>((f32)v); }
};

// The map s -> mul*s + add.
template <class C> struct Affine {
    C mul, add;
};
template <class C> FN Affine<C> up(Affine<C> v, u32 d) { return {up(v.mul, d), up(v.add, d)}; }
template <class C> FN Affine<C> of_last(Affine<C> v) { return {of_last(v.mul), of_last(v.add)}; }

// s[i] = a[i] + b[i+1]*s[i+1], from the end of the row on; the result is s[i] times the output before i.
template <class C> struct RunGrad {
    using A = Affine<C>;
    FN static A start() { return {1, 0}; }
    FN static A join(A a, A b) { return {a.mul * b.mul, fma(b.mul, a.add, b.add)}; }
    template <class T> FN static A at(const Rows<T, T>& r, u32 k) {
        u32 i = r.columns - 1 - k;
        C next = 0;
        if (k > 0) next = get(r.b[(i64)(i + 1) * r.b_step]);
        return {next, get(r.a[(i64)i * r.a_step])};
    }
    template <class T> FN static void put_at(const Rows<T, T>& r, u32 k, A v) {
        u32 i = r.columns - 1 - k;
        C before = 1;
        if (i > 0) before = get(r.c[(i64)(i - 1) * r.c_step]);
        r.dst[(i64)i * r.dst_step] = put<T>(before * v.add);
    }
};

// What the lanes before this one have together; total is what all have. Every thread of the block must come here.
template <class R, class A> FN A lanes_scan(A v, u32 lanes, A* sums, A& total) {
    if (lanes == 1) {
        total = v;
        return R::start();
    }
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 d = 1; d < 32; d *= 2) {
        A o = up(v, d);
        if (lane >= d) v = R::join(o, v);
    }
    A before = up(v, 1);
    if (lane == 0) before = R::start();
    if (lanes == 32) {
        total = of_last(v);
        return before;
    }
    __syncthreads(); // the reads of the last round are over
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    A first = R::start();
    total = sums[0];
    for (u32 k = 0; k < THREADS / 32; k++) {
        if (k < warp) first = R::join(first, sums[k]);
        if (k > 0) total = R::join(total, sums[k]);
    }
    return R::join(first, before);
}

constexpr u32 ITEMS = 4; // neighbouring elements of a thread

template <class R, class D, class T> struct Scanner {
    using A = typename R::A;
    Rows<D, T> rows;
    u32 lanes, lane, from, to;
    bool live;

    // The scan of elements from..to-1, of which carry stands before; it returns the carry for what follows.
    FN A run(A carry, A* sums, bool write) const {
        for (u32 j = from; j < to; j += lanes * ITEMS) {
            u32 first = j + lane * ITEMS;
            A v[ITEMS], acc = R::start(), total;
#pragma unroll
            for (u32 k = 0; k < ITEMS; k++) {
                if (live && first + k < to) acc = R::join(acc, R::at(rows, first + k));
                v[k] = acc;
            }
            A before = R::join(carry, lanes_scan<R>(acc, lanes, sums, total));
#pragma unroll
            for (u32 k = 0; k < ITEMS; k++)
                if (write && live && first + k < to) R::put_at(rows, first + k, R::join(before, v[k]));
            carry = R::join(carry, total);
        }
        return carry;
    }
};

struct ScanPlan {
    u32 columns, lanes, part, splits;
};
struct ScanSteps {
    i64 dst, a, b, c;
};

template <class R, class D, class T>
FN Scanner<R, D, T> scanner(const Walk<4>& w, const ScanPlan& p, D* dst, const T* a, const T* b, const T* c, const ScanSteps& s, u32& row) {
    u32 each = THREADS / p.lanes;
    row = blockIdx.x * each + threadIdx.x / p.lanes;
    i64 at[4] = {0, 0, 0, 0};
    bool live = row < w.total;
    if (live) seek<4>(w, row, at);
    u32 from = blockIdx.y * p.part, to = p.columns - from > p.part ? from + p.part : p.columns;
    return {{dst + at[0], a + at[1], b + at[2], c + at[3], s.dst, s.a, s.b, s.c, p.columns}, p.lanes, threadIdx.x % p.lanes, from, to, live};
}

template <class R, class D, class T>
FN void scan(const Walk<4>& w, const ScanPlan& p, D* dst, const T* a, const T* b, const T* c, const ScanSteps& s, const typename R::A* work) {
    using A = typename R::A;
    GK_SHARED_ARR(A, sums, [THREADS / 32]);
    u32 row;
    Scanner<R, D, T> r = scanner<R>(w, p, dst, a, b, c, s, row);
    A carry = R::start();
    if (p.splits > 1) { // the totals of the parts before this one, of which there are fewer than threads
        A v = R::start();
        if (threadIdx.x < blockIdx.y) v = work[(u64)row * p.splits + threadIdx.x];
        lanes_scan<R>(v, THREADS, sums, carry);
    }
    r.run(carry, sums, true);
}

template <class R, class D, class T>
FN void scan_part(const Walk<4>& w, const ScanPlan& p, D* dst, const T* a, const T* b, const T* c, const ScanSteps& s, typename R::A* work) {
    using A = typename R::A;
    GK_SHARED_ARR(A, sums, [THREADS / 32]);
    u32 row;
    Scanner<R, D, T> r = scanner<R>(w, p, dst, a, b, c, s, row);
    A total = r.run(R::start(), sums, false);
    if (threadIdx.x == 0) work[(u64)row * p.splits + blockIdx.y] = total;
}

#define SCAN(NAME, R, D, T)                                                                                           \
    KERNEL NAME##_##T(Walk<4> w, ScanPlan p, D* dst, const T* a, const T* b, const T* c, ScanSteps s, R::A* work) {   \
        scan<R>(w, p, dst, a, b, c, s, work);                                                                         \
    }                                                                                                                 \
    KERNEL NAME##_##T##_part(Walk<4> w, ScanPlan p, D* dst, const T* a, const T* b, const T* c, ScanSteps s, R::A* work) { \
        scan_part<R>(w, p, dst, a, b, c, s, work);                                                                    \
    }

#define SCANS(D, T, C)                                                                                                \
    SCAN(cumsum, RunSum<C>, D, T)                                                                                     \
    SCAN(cumprod, RunProd<C>, D, T)

SCANS(f32, f32, f32)
SCANS(f64, f64, f64)
SCANS(f16, f16, f32)
SCANS(bf16, bf16, f32)
SCANS(i64, i64, i64)
SCANS(i64, i32, i64)
SCANS(i64, u8, i64)
SCANS(i64, b8, i64)
SCAN(cumprod_backward, RunGrad<f32>, f32, f32)
SCAN(cumprod_backward, RunGrad<f64>, f64, f64)
SCAN(cumprod_backward, RunGrad<f32>, f16, f16)
SCAN(cumprod_backward, RunGrad<f32>, bf16, bf16)
