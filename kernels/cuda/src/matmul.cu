// Matrix products without tensor cores, for every float type and any strides. A block of 256 threads computes a tile of
// 64 by 64; each thread has 4 by 4 of it. Tiles of a and b, 16 deep, go through shared memory; the next ones are loaded into
// registers while the present ones are used. Neighbouring threads load along whichever direction of an operand is
// contiguous, so transposed operands cost the same.
#include "matmul_row.h"

constexpr u32 TILE = 64, DEPTH = 16, PITCH = TILE + 4;

// The elements of a tile that a thread loads: TILE*DEPTH of them are shared by THREADS threads. deep says that the direction
// of k is the contiguous one.
struct Loader {
    u32 tid;
    bool deep;
    FN u32 depth(u32 e) const { return deep ? (tid + e * THREADS) % DEPTH : (tid + e * THREADS) / TILE; }
    FN u32 side(u32 e) const { return deep ? (tid + e * THREADS) / DEPTH : (tid + e * THREADS) % TILE; }
};

constexpr u32 LOADS = TILE * DEPTH / THREADS;

// Loads from the tile that begins at k0 and side0; places outside of the matrix count as 0.
template <class T, class C>
FN void fetch(C (&r)[LOADS], const Loader& l, const T* p, i64 side_step, i64 k_step, u32 side0, u32 sides, u32 k0, u32 k) {
#pragma unroll
    for (u32 e = 0; e < LOADS; e++) {
        u32 s = side0 + l.side(e), d = k0 + l.depth(e);
        r[e] = s < sides && d < k ? (C)get(p[s * side_step + d * k_step]) : (C)0;
    }
}

template <class C> FN void place(C* sh, const C (&r)[LOADS], const Loader& l) {
#pragma unroll
    for (u32 e = 0; e < LOADS; e++) sh[l.depth(e) * PITCH + l.side(e)] = r[e];
}

// Writes what a thread has of the tile, a row at a time: the code for a row is large, and not worth having four times. An index
// that is not known would put the sums into memory, so they are selected.
template <class T, class C> FN void write_tile(const Product<C>& p, const Part<T, C>& q, const C (&sum)[4][4]) {
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll 1
    for (u32 e = 0; e < 4; e++) {
        C row[4];
#pragma unroll
        for (u32 f = 0; f < 4; f++) {
            C low = e & 1 ? sum[1][f] : sum[0][f], high = e & 1 ? sum[3][f] : sum[2][f];
            row[f] = e & 2 ? high : low;
        }
        write_row(p, q, blockIdx.y * TILE + y * 4 + e, blockIdx.x * TILE + x * 4, row);
    }
}

template <class T, class C> FN void sums(const Product<C>& p, const Part<T, C>& q, C (&sum)[4][4], C* as, C* bs) {
    u32 tid = threadIdx.x, x = tid % 16, y = tid / 16, i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
    Loader la = {tid, p.a.column == 1}, lb = {tid, p.b.column != 1};
    C ra[LOADS], rb[LOADS];
    fetch<T>(ra, la, q.a, p.a.row, p.a.column, i0, p.m, q.from, q.to);
    fetch<T>(rb, lb, q.b, p.b.column, p.b.row, j0, p.n, q.from, q.to);
    for (u32 k0 = q.from; k0 < q.to; k0 += DEPTH) {
        place(as, ra, la);
        place(bs, rb, lb);
        __syncthreads();
        if (k0 + DEPTH < q.to) {
            fetch<T>(ra, la, q.a, p.a.row, p.a.column, i0, p.m, k0 + DEPTH, q.to);
            fetch<T>(rb, lb, q.b, p.b.column, p.b.row, j0, p.n, k0 + DEPTH, q.to);
        }
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
        __syncthreads();
    }
}

// ---- Slices -------------------------------------------------------------------------------------------------------------

constexpr u32 EACH = 8; // elements of a thread, joinEach in matmul.go

// Four elements of a row, whose results and addends lie in whole pieces.
template <class T> FN void load_four(f32 (&v)[4], const T* p) {
    vec<T, 4> r = load<T, 4>(p);
#pragma unroll
    for (u32 f = 0; f < 4; f++) v[f] = get(r.v[f]);
}
FN void store_four(f32* p, const f32 (&v)[4]) { store_words(p, bits_of(v[0]), bits_of(v[1]), bits_of(v[2]), bits_of(v[3])); }
template <class T> FN void store_four(T* p, const f32 (&v)[4]) {
    store_pair((f32*)p, float_of(gk_round2(T(), v[0], v[1])), float_of(gk_round2(T(), v[2], v[3])));
}

// From the sum of four elements to the results. GELU takes too much code for that.
template <class T> FN void finish_four(const Product<f32>& p, const Part<T, f32>& q, u32 at, f32 (&v)[4]) {
    u32 i = at / p.n, j = at - i * p.n;
    if (p.alpha != 1)
#pragma unroll
        for (u32 f = 0; f < 4; f++) v[f] *= p.alpha;
    if (p.beta != 0) {
        f32 c[4];
        load_four(c, q.c + i * p.c.row + j);
#pragma unroll
        for (u32 f = 0; f < 4; f++) v[f] = fma(p.beta, c[f], v[f]);
    }
    if (q.pre) store_four(q.pre + i * p.pre.row + j, v);
    if (p.activation == RELU)
#pragma unroll
        for (u32 f = 0; f < 4; f++) v[f] = activate(RELU, v[f]);
    store_four(q.dst + i * p.dst.row + j, v);
}

// Adds up the slices of twice four elements, so that the threads of a warp are neighbours each time.
template <class T> FN void join_fours(const Product<f32>& p, const Part<T, f32>& q, u32 at, u32 size, const f32* parts) {
    constexpr u32 NEXT = THREADS * 4;
    f32 v[2][4] = {}, more[2][4];
    u32 second = at + NEXT < size ? NEXT : 0; // or the same again
    parts += at;
#pragma unroll 1
    for (u32 s = 0; s < p.slices; s++, parts += size) {
        load_four(more[0], parts);
        load_four(more[1], parts + second);
#pragma unroll
        for (u32 e = 0; e < 8; e++) v[e / 4][e % 4] += more[e / 4][e % 4];
    }
    finish_four(p, q, at, v[0]);
    if (second) finish_four(p, q, at + NEXT, v[1]);
}

// Adds up the slices of one element.
template <class T, class C> FN void join_one(const Product<C>& p, const Part<T, C>& q, u32 at, u32 size, const C* parts) {
    C sum = 0;
#pragma unroll 1
    for (u32 s = 0; s < p.slices; s++) sum += parts[(u64)s * size + at];
    finish(p, q, at / p.n, at % p.n, sum);
}

// Adds up the slices of a split product.
template <class T, class C> FN void join(const Product<C>& p, const Part<T, C>& q, const C* parts) {
    u32 size = p.m * p.n, first = blockIdx.x * THREADS * EACH;
    if constexpr (Same<C, f32>::value)
        if (p.wide && (p.beta == 0 || p.wide_c) && p.n % 4 == 0 && p.activation <= RELU) {
            u32 at = first + threadIdx.x * 4;
            if (at < size) join_fours(p, q, at, size, parts);
            return;
        }
#pragma unroll 1
    for (u32 at = first + threadIdx.x; at < first + THREADS * EACH && at < size; at += THREADS) join_one(p, q, at, size, parts);
}

#define MATMUL(T, C, BLOCKS)                                                                                          \
    GK_KERNEL(THREADS, BLOCKS) void matmul_##T(Product<C> p, T* dst, const T* a, const T* b, const T* c, T* pre, C* parts) { \
        GK_SHARED_ARR(C, as, [DEPTH * PITCH]);                                                                        \
        GK_SHARED_ARR(C, bs, [DEPTH * PITCH]);                                                                        \
        C sum[4][4] = {};                                                                                             \
        sums(p, part_of(p, blockIdx.z, dst, a, b, c, pre, parts), sum, (C*)as, (C*)bs);                               \
        write_tile(p, part_of(p, again(blockIdx.z), dst, a, b, c, pre, parts), sum);                                  \
    }                                                                                                                 \
    KERNEL matmul_join_##T(Product<C> p, T* dst, const T* c, T* pre, const C* parts) {                                \
        u32 z = p.first + blockIdx.z;                                                                                 \
        i64 at[4];                                                                                                    \
        seek<4>(p.batch, z, at);                                                                                      \
        Part<T, C> q = {dst + at[0], nullptr, nullptr, c + at[3], pre, nullptr, 0, 0};                                \
        join(p, q, parts + (u64)z * p.slices * p.m * p.n);                                                            \
    }

MATMUL(f32, f32, 2)
MATMUL(f64, f64, 2)
MATMUL(f16, f32, 2)
MATMUL(bf16, f32, 2)
