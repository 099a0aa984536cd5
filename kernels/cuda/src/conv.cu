// Convolutions without tensor cores, for every float type and any strides. As in matmul.cu, a block of 256 threads computes a
// tile of 64 by 64 results, 4 by 4 of them a thread; tiles of both operands, 16 steps deep, go through shared memory, and
// the next ones are loaded into registers while the present ones are used. Neighbouring threads load neighbouring places.
//
// Groups of next to no channels have kernels of their own, with a thread for each result, or a block for each element of the
// kernel's gradient.
#include "conv.h"
#include "math.h"

constexpr u32 TILE = 64, DEPTH = 16, PITCH = TILE + 4, LOADS = TILE * DEPTH / THREADS;

// The elements of a tile that a thread loads. deep says that neighbouring threads load neighbouring steps.
struct Loader {
    u32 tid;
    bool deep;
    FN u32 depth(u32 e) const { return deep ? tid % DEPTH : tid / TILE + e * (THREADS / TILE); }
    FN u32 side(u32 e) const { return deep ? tid / DEPTH + e * (THREADS / DEPTH) : tid % TILE; }
};

template <class T, class C>
FN void fetch_a(C (&r)[LOADS], const Loader& l, const Conv& p, const T* a, const Step* steps, u32 row) {
    const Step& s = steps[l.depth(0)]; // the same for all
#pragma unroll
    for (u32 e = 0; e < LOADS; e++) {
        u32 i = row + l.side(e);
        r[e] = i < p.m && s.b.y != OUTSIDE ? (C)get(a[i * p.a_row + s.a]) : (C)0;
    }
}

template <class T, class C>
FN void fetch_b(C (&r)[LOADS], const Loader& l, const Conv& p, const T* b, const Step* steps, const Half* columns) {
#pragma unroll
    for (u32 e = 0; e < LOADS; e++) {
        const Half &u = steps[l.depth(e)].b, &v = columns[l.side(e)];
        r[e] = inside(p, u, v) ? (C)get(b[u.at + v.at]) : (C)0;
    }
}

template <class C> FN void place(C* sh, const C (&r)[LOADS], const Loader& l) {
#pragma unroll
    for (u32 e = 0; e < LOADS; e++) sh[l.depth(e) * PITCH + l.side(e)] = r[e];
}

template <class C> FN void multiply(C (&sum)[4][4], const C* as, const C* bs, u32 x, u32 y) {
#pragma unroll 4
    for (u32 d = 0; d < DEPTH; d++) {
        C u[4], v[4];
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            u[e] = as[d * PITCH + y * 4 + e];
            v[e] = bs[d * PITCH + x * 4 + e];
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++)
#pragma unroll
            for (u32 f = 0; f < 4; f++) sum[e][f] = fma(u[e], v[f], sum[e][f]);
    }
}

// steps has two tables of DEPTH, of the present tile and of the next one.
template <bool OVER_PLACES, class T, class C>
FN void convolve(const Conv& p, T* dst, const T* a, const T* b, const T* bias, C* work, C* as, C* bs, Step* steps, Half* columns) {
    u32 tid = threadIdx.x, x = tid % 16, y = tid / 16, i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
    Part part = part_of(p);
    a += part.group * p.a_group;
    b += part.group * p.b_group;
    Loader la = {tid, true}, lb = {tid, OVER_PLACES};
    C sum[4][4] = {}, ra[LOADS], rb[LOADS];
    if (tid < TILE) columns[tid] = column_of<OVER_PLACES>(p, j0 + tid);
    if (tid < DEPTH) steps[tid] = step_of<OVER_PLACES>(p, part.k + tid, part.end);
    __syncthreads();
    fetch_a<T>(ra, la, p, a, steps, i0);
    fetch_b<T>(rb, lb, p, b, steps, columns);
    u32 next = DEPTH;
    for (u32 k0 = part.k; k0 < part.end; k0 += DEPTH, next ^= DEPTH) {
        place(as, ra, la);
        place(bs, rb, lb);
        if (tid < DEPTH) steps[next + tid] = step_of<OVER_PLACES>(p, k0 + DEPTH + tid, part.end);
        __syncthreads();
        if (k0 + DEPTH < part.end) {
            fetch_a<T>(ra, la, p, a, steps + next, i0);
            fetch_b<T>(rb, lb, p, b, steps + next, columns);
        }
        multiply(sum, as, bs, x, y);
        __syncthreads();
    }
#pragma unroll
    for (u32 e = 0; e < 4; e++)
#pragma unroll
        for (u32 f = 0; f < 4; f++) finish<OVER_PLACES>(p, part, dst, bias, work, i0 + y * 4 + e, j0 + x * 4 + f, sum[e][f]);
}

// A thread for each result. Blocks of y are rows of groups, of which first is the first, and x has the places.
template <class T> FN void conv_direct(const Conv& p, const Div& rows, T* dst, const T* a, const T* b, const T* bias) {
    u32 place = blockIdx.x * THREADS + threadIdx.x;
    if (place >= p.n) return;
    u32 z = p.first + blockIdx.y, group = quotient(rows, z), row = z - group * rows.size;
    a += group * p.a_group + row * p.a_row;
    b += group * p.b_group;
    Half h = half_of_place(p, place);
    Compute<T> sum = 0;
    u32 channels = p.k / (p.taps0.size * p.taps1.size);
    for (u32 c = 0; p.k > 0 && c < channels; c++)
        for (u32 u = 0; u < p.taps0.size; u++) {
            i32 y = h.y + (i32)u * p.h_tap;
            if ((u32)y >= (u32)p.rows) continue;
            for (u32 v = 0; v < p.taps1.size; v++) {
                i32 x = h.x + (i32)v * p.w_tap;
                if ((u32)x >= (u32)p.columns) continue;
                i64 at = h.at + c * p.b_channel + (i32)u * p.h_tap * p.b_row + (i32)v * p.w_tap * p.b_column;
                sum = fma((Compute<T>)get(a[c * p.a0 + u * p.a1 + v * p.a2]), (Compute<T>)get(b[at]), sum);
            }
        }
    Part part = {group, 0, 0, 0};
    finish<false, T, Compute<T>>(p, part, dst, bias, nullptr, row, place, sum);
}

// A block for each element of the gradient of a kernel whose groups have one channel, and each split of its sum.
template <class T, class C> FN void conv_direct_weight(const Conv& p, T* dst, const T* a, const T* b, C* work, C* sh) {
    u32 tid = threadIdx.x, row = blockIdx.y, tap = blockIdx.x;
    Part part = part_of(p);
    a += part.group * p.a_group + row * p.a_row;
    b += part.group * p.b_group;
    Half h = half_of_tap(p, tap);
    C sum = 0;
    for (u32 k = part.k + tid; k < part.end; k += THREADS) {
        Step s = step_of<true>(p, k, part.end);
        if (inside(p, s.b, h)) sum = fma((C)get(a[s.a]), (C)get(b[s.b.at + h.at]), sum);
    }
    sh[tid] = sum;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) sh[tid] += sh[tid + half];
    }
    if (tid == 0) finish<true, T, C>(p, part, dst, nullptr, work, row, tap, sh[0]);
}

// The sum of the splits, in their order.
template <bool OVER_PLACES, class T> FN void conv_join(const Conv& p, T* dst, const T* bias, const Compute<T>* work) {
    u32 column = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (column >= p.n) return;
    Conv whole = p;
    whole.splits = 1;
    Part part = {blockIdx.z, 0, 0, 0};
    Compute<T> sum = 0;
    for (u32 s = 0; s < p.splits; s++) sum += work[(((i64)s * p.groups + part.group) * p.m + row) * p.n + column];
    finish<OVER_PLACES, T, Compute<T>>(whole, part, dst, bias, nullptr, row, column, sum);
}

#define CONV_PRODUCT(NAME, OVER_PLACES, T)                                                                            \
    GK_KERNEL(THREADS, 2) void NAME##_##T(Conv p, T* dst, const T* a, const T* b, const T* bias, Compute<T>* work) {  \
        GK_SHARED_ARR(Compute<T>, as, [DEPTH * PITCH]);                                                               \
        GK_SHARED_ARR(Compute<T>, bs, [DEPTH * PITCH]);                                                               \
        GK_SHARED_ARR(Step, steps, [2 * DEPTH]);                                                                      \
        GK_SHARED_ARR(Half, columns, [TILE]);                                                                         \
        convolve<OVER_PLACES, T, Compute<T>>(p, dst, a, b, bias, work, as, bs, steps, columns);                       \
    }

#define CONV(T)                                                                                                       \
    CONV_PRODUCT(conv, false, T)                                                                                      \
    CONV_PRODUCT(conv_weight, true, T)                                                                                \
    KERNEL conv_direct_##T(Conv p, Div rows, T* dst, const T* a, const T* b, const T* bias) {                         \
        conv_direct(p, rows, dst, a, b, bias);                                                                        \
    }                                                                                                                 \
    KERNEL conv_direct_weight_##T(Conv p, T* dst, const T* a, const T* b, Compute<T>* work) {                         \
        GK_SHARED_ARR(Compute<T>, sh, [THREADS]);                                                                     \
        conv_direct_weight(p, dst, a, b, work, (Compute<T>*)sh);                                                      \
    }                                                                                                                 \
    KERNEL conv_join_##T(Conv p, T* dst, const T* bias, const Compute<T>* work) {                                     \
        conv_join<false>(p, dst, bias, work);                                                                         \
    }                                                                                                                 \
    KERNEL conv_weight_join_##T(Conv p, T* dst, const T* bias, const Compute<T>* work) {                              \
        conv_join<true>(p, dst, bias, work);                                                                          \
    }

CONV(f32)
CONV(f64)
CONV(f16)
CONV(bf16)
