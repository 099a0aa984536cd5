// Products of float32 of large sizes, for any strides. A block of 256 threads computes a tile of 128 by 128; a warp has 32 by 64
// of it, and a thread 8 by 8, as two times two squares of 4. Elements of a and b are copied one by one into shared memory, where
// they lie along the sides, 8 of k in a stage, by asynchronous copies; neighbouring threads copy along whichever direction of an
// operand is contiguous, so transposed operands cost the same. There are four stages and one barrier for each: behind it the next
// stage is there and the one before is free.
//
// Each element is the sum of its products in the order of k, as in matmul.cu: the results are the same bits.
#include "matmul_corner.h"
#include "matmul_row.h"

constexpr u32 SIDE = 128, DEPTH = 8, PITCH = SIDE + 4, STAGES = 4;
constexpr u32 PANEL = DEPTH * PITCH, STAGE = 2 * PANEL; // elements of shared memory: a, then b
constexpr u32 PASSES = SIDE * DEPTH / THREADS;          // that copy an operand's part of a stage
static_assert(DEPTH % PASSES == 0, "a pass goes with so many of k");

// One thread's elements of the tiles of an operand, which follow each other along k. ALONG says that neighbouring threads copy
// along k, which should be the direction that is contiguous; a pass goes on along the other one.
template <bool ALONG> struct Source {
    static constexpr u32 NEXT = ALONG ? THREADS / DEPTH : THREADS / SIDE, NEXT_PLACE = ALONG ? NEXT : NEXT * PITCH;

    const f32* at;    // the element of the pass to come
    i64 pass, rewind; // from pass to pass, and from behind the last to the first of the next tile
    u32 to;           // the place in a stage
    u32 inside;       // passes whose sides are in the operand, a bit for each
    u32 k, ks;        // of the first pass, and where the operand ends

    FN Source(const f32* p, i64 side_step, i64 k_step, u32 side0, u32 sides, u32 k0, u32 ks_) : inside(0), ks(ks_) {
        u32 s = ALONG ? threadIdx.x / DEPTH : threadIdx.x % SIDE, d = ALONG ? threadIdx.x % DEPTH : threadIdx.x / SIDE;
        k = k0 + d;
        at = p + (side0 + s) * side_step + k * k_step;
        pass = (ALONG ? side_step : k_step) * NEXT;
        rewind = k_step * DEPTH - pass * PASSES;
        to = d * PITCH + s;
#pragma unroll
        for (u32 e = 0; e < PASSES; e++) inside |= (u32)(side0 + s + (ALONG ? e * NEXT : 0) < sides) << e;
    }

    // Begins the copy of a pass. INSIDE says that all of it lies in the operand; else what lies outside becomes zero.
    template <bool INSIDE> FN void copy(f32* sh, u32 e) {
        bool in = INSIDE || (inside >> e & 1 && k + (ALONG ? 0 : e * NEXT) < ks);
        gk_cp_async<4>(sh + to + e * NEXT_PLACE, at, in ? 4 : 0);
        at += pass;
    }

    FN void advance() {
        at += rewind;
        k += DEPTH;
    }
};

// What a thread needs of one k: two times four neighbours of each side.
struct Operands { f32 a[8], b[8]; };

// The place of a thread's squares in the tile. A warp has 4 rows of 8 threads, and its squares are 16 rows and 32 columns apart.
struct Place {
    u32 row, column;
    FN Place() {
        u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        row = warp / 2 * 32 + lane / 8 * 4;
        column = warp % 2 * 64 + lane % 8 * 4;
    }
};

FN void load_operands(Operands& r, const f32* sh, const Place& at) {
#pragma unroll
    for (u32 h = 0; h < 2; h++) {
        vec<f32, 4> a = load<f32, 4>(sh + at.row + 16 * h), b = load<f32, 4>(sh + PANEL + at.column + 32 * h);
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            r.a[4 * h + e] = a.v[e];
            r.b[4 * h + e] = b.v[e];
        }
    }
}

// The walk of a block along k.
template <bool AK, bool BK> struct Pipeline {
    Source<AK> a;
    Source<BK> b;
    u32 read = 0, write = 0; // the stage that is used, and the one that is filled, in elements

    FN void arrive() {
        gk_cp_async_commit();
        gk_cp_async_wait<STAGES - 2>();
        __syncthreads();
    }

    FN static u32 behind(u32 stage) { return stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE; }

    template <bool INSIDE> FN void copy(f32* sh, u32 pass) {
        a.template copy<INSIDE>(sh + write, pass);
        b.template copy<INSIDE>(sh + write + PANEL, pass);
    }

    FN void copied() {
        a.advance();
        b.advance();
        write = behind(write);
    }

    // Uses a stage, and fills another one if there is more to copy. There are no registers for looking further ahead than two of k;
    // other warps are busy meanwhile.
    template <bool INSIDE> FN void use(f32 (&sum)[8][8], f32* sh, const Place& at, bool more) {
#pragma unroll 1
        for (u32 e = 0; e < PASSES; e++) {
            if (INSIDE || more) copy<INSIDE>(sh, e);
#pragma unroll
            for (u32 d = 0; d < DEPTH / PASSES; d++) {
                Operands o;
                load_operands(o, sh + read + (e * (DEPTH / PASSES) + d) * PITCH, at);
#pragma unroll
                for (u32 i = 0; i < 8; i++)
#pragma unroll
                    for (u32 j = 0; j < 8; j++) sum[i][j] = fma(o.a[i], o.b[j], sum[i][j]);
            }
        }
        if (INSIDE || more) copied();
        arrive();
        read = behind(read);
    }

    FN void run(f32 (&sum)[8][8], f32* sh, u32 depth, bool inside) {
        u32 count = (depth + DEPTH - 1) / DEPTH, whole = inside ? depth / DEPTH : 0, t = 0;
        Place at;
#pragma unroll 1
        for (u32 s = 0; s < STAGES - 1; s++) {
            if (s) gk_cp_async_commit();
#pragma unroll
            for (u32 e = 0; e < PASSES; e++) copy<false>(sh, e);
            copied();
        }
        arrive();
#pragma unroll 1
        for (; t + STAGES - 1 < whole; t++) use<true>(sum, sh, at, true);
#pragma unroll 1
        for (; t < count; t++) use<false>(sum, sh, at, t + STAGES - 1 < count);
    }
};

// Writes what a thread has of the tile, four neighbours at a time: the code for them is large, and not worth having often. An
// index that is not known would put the sums into memory, so they are chosen.
FN void write_tile(const Product<f32>& p, const Part<f32, f32>& q, const Corner& at, const f32 (&sum)[8][8]) {
    Place place;
#pragma unroll 1
    for (u32 e = 0; e < 16; e++) {
        f32 row[4];
#pragma unroll
        for (u32 i = 0; i < 8; i++)
#pragma unroll
            for (u32 h = 0; h < 2; h++)
                if (e == 2 * i + h) {
#pragma unroll
                    for (u32 f = 0; f < 4; f++) row[f] = sum[i][4 * h + f];
                }
        u32 i = at.row + place.row + e / 8 * 16 + e / 2 % 4, j = at.column + place.column + e % 2 * 32;
        if (i >= at.own_row && j >= at.own_column) write_row(p, q, i, j, row);
    }
}

// Tiles may begin early at any row, and at columns whose neighbours are written at once.
FN Corner corner(const Product<f32>& p, u32 block) { return corner_of<SIDE, SIDE>(p, block, true, p.n % 4 == 0); }

template <bool AK, bool BK>
FN void add_products(f32 (&sum)[8][8], const Product<f32>& p, const Part<f32, f32>& q, const Corner& at, f32* sh) {
    if (q.from >= q.to) return;
    Pipeline<AK, BK> l = {{q.a, p.a.row, p.a.column, at.row, p.m, q.from, q.to}, {q.b, p.b.column, p.b.row, at.column, p.n, q.from, q.to}};
    l.run(sum, sh, q.to - q.from, at.row + SIDE <= p.m && at.column + SIDE <= p.n);
}

template <bool AK, bool BK>
FN void multiply_tile(const Product<f32>& p, f32* dst, const f32* a, const f32* b, const f32* c, f32* pre, f32* parts, f32* sh) {
    f32 sum[8][8] = {};
    add_products<AK, BK>(sum, p, part_of(p, blockIdx.z, dst, a, b, c, pre, parts), corner(p, blockIdx.x), sh);
    write_tile(p, part_of(p, again(blockIdx.z), dst, a, b, c, pre, parts), corner(p, again(blockIdx.x)), sum);
}

// The letters say whether a, and b, are contiguous along k, as in matmul_write.h.
#define MATMUL_FLOAT(NAME, AK, BK)                                                                                   \
    GK_KERNEL(THREADS, 2)                                                                                            \
    void NAME##_f32(Product<f32> p, f32* dst, const f32* a, const f32* b, const f32* c, f32* pre, f32* parts) {      \
        GK_SHARED_ARR(f32, sh, [STAGES * STAGE]);                                                                    \
        multiply_tile<AK, BK>(p, dst, a, b, c, pre, parts, (f32*)sh);                                                \
    }

MATMUL_FLOAT(matmul_float_nn, true, false)
MATMUL_FLOAT(matmul_float_nt, true, true)
MATMUL_FLOAT(matmul_float_tn, false, false)
MATMUL_FLOAT(matmul_float_tt, false, true)
