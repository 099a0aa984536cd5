// Matrix products without tensor cores, for every float type and any strides. A block of 256 threads computes a tile of
// 64 by 64; each thread has 4 by 4 of it. Tiles of a and b, 16 deep, go through shared memory; the next ones are loaded into
// registers while the present ones are used. Neighbouring threads load along whichever direction of an operand is
// contiguous, so transposed operands cost the same.
#include "matmul.h"

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

template <class T, class C> FN void product(const Product<C>& p, T* dst, const T* a, const T* b, const T* c, C* as, C* bs) {
    u32 tid = threadIdx.x, x = tid % 16, y = tid / 16, i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
    Loader la = {tid, p.a.column == 1}, lb = {tid, p.b.column != 1};
    C sum[4][4] = {}, ra[LOADS], rb[LOADS];
    fetch<T>(ra, la, a, p.a.row, p.a.column, i0, p.m, 0, p.k);
    fetch<T>(rb, lb, b, p.b.column, p.b.row, j0, p.n, 0, p.k);
    for (u32 k0 = 0; k0 < p.k; k0 += DEPTH) {
        place(as, ra, la);
        place(bs, rb, lb);
        __syncthreads();
        if (k0 + DEPTH < p.k) {
            fetch<T>(ra, la, a, p.a.row, p.a.column, i0, p.m, k0 + DEPTH, p.k);
            fetch<T>(rb, lb, b, p.b.column, p.b.row, j0, p.n, k0 + DEPTH, p.k);
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
#pragma unroll
    for (u32 e = 0; e < 4; e++)
#pragma unroll
        for (u32 f = 0; f < 4; f++) finish(p, dst, c, i0 + y * 4 + e, j0 + x * 4 + f, sum[e][f]);
}

template <class T, class C> FN void products(const Product<C>& p, T* dst, const T* a, const T* b, const T* c, C* as, C* bs) {
    i64 at[4];
    seek<4>(p.batch, p.first + blockIdx.z, at);
    product<T>(p, dst + at[0], a + at[1], b + at[2], c + at[3], as, bs);
}

#define MATMUL(T, C, BLOCKS)                                                                                              \
    GK_KERNEL(THREADS, BLOCKS) void matmul_##T(Product<C> p, T* dst, const T* a, const T* b, const T* c) {                     \
        GK_SHARED_ARR(C, as, [DEPTH * PITCH]);                                                                        \
        GK_SHARED_ARR(C, bs, [DEPTH * PITCH]);                                                                        \
        products<T, C>(p, dst, a, b, c, as, bs);                                                                      \
    }

MATMUL(f32, f32, 2)
MATMUL(f64, f64, 2)
MATMUL(f16, f32, 2)
MATMUL(bf16, f32, 2)
