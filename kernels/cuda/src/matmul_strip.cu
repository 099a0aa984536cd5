// Tensor-core products with 64 results, or sums of 64, along one side: few operations for each byte, so that what a tile costs besides
// its mma is most of it where a block computes a single tile (matmul_tensor.h).
//
// Here a block keeps 64 columns of b (or 64 rows of a) in shared memory, all of k. Each of its warps then goes over strips of the other
// operand by itself: 64 rows of a (or columns of b), 64 of k at a time, of which it copies one while it multiplies another. Warps wait
// for no one but their own lanes. The results of a strip are 64 by 64. They are rounded in registers and turned where the strip was,
// so that each row is written as 128 bytes.
//
// Sums go 16 by 16 in the order of k, as in all tiles: the results are the same bits. k is a multiple of 64, as is the side that is kept,
// and results are PLAIN and not of slices; a bias is along the side that is kept, without gaps.
#include "matmul_panel.h"
#include "matmul_tensor.h"

constexpr u32 SIDE = 64, PIECES = SIDE / PIECE, SQUARE = SIDE * SIDE * 2; // a side, its pieces in a row, bytes of a square
constexpr u32 WARPS = 4, LANES = 32;
constexpr u32 KEPT = WARPS * 2 * SQUARE; // where what is kept begins, in bytes: behind two squares of each warp

using Warp = Tile<SIDE, SIDE, SIDE, 1, 1>;
template <bool ALONG> using Square = Panel<ALONG, SIDE, SIDE, WARPS * LANES>; // the same places for any number of threads

// What a thread copies of squares whose rows have 64 neighbours: a piece of every NEXT-th row.
template <u32 THREADS> struct Pieces {
    static constexpr u32 NEXT = THREADS / PIECES, PASSES = SIDE / NEXT;
    static_assert(NEXT == 4 || NEXT % 8 == 0, "pieces of a pass lie as those of the first, or every second time change halves of a row");
    u32 row, piece, to; // its first place: row and piece, and bytes

    FN Pieces() {
        row = (THREADS == WARPS * LANES ? threadIdx.x : threadIdx.x % THREADS) / PIECES;
        piece = threadIdx.x % PIECES;
        to = Square<true>::place(row, piece);
    }

    // The place of a pass, as one that there is a register for, and a constant.
    FN u32 place(u32 pass) const { return NEXT == 4 && pass % 2 ? to ^ 64 : to; }
    static constexpr u32 constant(u32 pass) { return pass * NEXT * SIDE * 2; }

    // Begins the copies of a square to a place.
    template <class T> FN void copy(gk_place square, const T* at, i64 next) const {
#pragma unroll
        for (u32 e = 0; e < PASSES; e++, at = here(at + next)) gk_cp_async_to(square + place(e), (int)constant(e), at, 16);
    }

    // The same, but only the first passes have anything to read; the others make zeros.
    template <class T> FN void copy_first(gk_place square, const T* at, i64 next, u32 passes) const {
#pragma unroll 1
        for (u32 e = 0; e < PASSES; e++, at = here(at + next)) gk_cp_async_to(square + place(e) + constant(e), 0, at, e < passes ? 16 : 0);
    }
};

// A warp's walk over squares of its strips. DOWN says that strips are rows of a; else they are columns of b, which lie across k.
template <bool DOWN, class T> struct Stream {
    Pieces<LANES> pieces;
    const T* at;     // of the square to come
    i64 step;        // from row to row of memory
    u32 size, next;  // of the side that strips cut, and from strip to strip
    u32 side, k;     // where the square to come begins
    u32 depth;

    FN Stream(const T* p, i64 step_, u32 side0, u32 size_, u32 next_, u32 depth_) : step(step_), size(size_), next(next_), side(side0), k(0), depth(depth_) {
        at = p + (i64)(pieces.row + (DOWN ? side : 0)) * step + pieces.piece * PIECE + (DOWN ? 0 : side);
    }

    // How many passes of a strip the lane has anything in.
    FN u32 passes(u32 from) const {
        constexpr u32 NEXT = Pieces<LANES>::NEXT;
        if (!DOWN) return from + pieces.piece * PIECE < size ? SIDE / NEXT : 0;
        u32 first = from + pieces.row;
        return first < size ? (size - first + NEXT - 1) / NEXT : 0;
    }

    // Begins the copies of the square to come, if there is one.
    FN void fetch(gk_place to) {
        if (side < size) {
            i64 pass = step * Pieces<LANES>::NEXT;
            if (side + SIDE <= size) pieces.copy(to, at, pass);
            else pieces.copy_first(to, at, pass, passes(side));
            k += SIDE;
            if (k == depth) {
                k = 0;
                side += next;
                at += DOWN ? (next * step - depth) : (next - depth * step);
            }
            at += DOWN ? SIDE : step * SIDE;
        }
        gk_cp_async_commit();
    }
};

// Adds the products of a square of a and one of b. The first ones of a strip have sums of zero that no register holds.
template <bool AK, bool BK, class T> FN void use(Sums<Warp>& sum, bool first, gk_place a, gk_place b, u32 from_a, u32 from_b) {
    Fragments<Warp> f[2];
    auto load = [&](Fragments<Warp>& g, u32 step) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) Square<AK>::fragment(g.a[i], a, from_a, i, step);
#pragma unroll
        for (u32 j = 0; j < 4; j++) Square<BK>::fragment(g.b[j], b, from_b, j, step);
    };
    load(f[0], 0);
#pragma unroll
    for (u32 s = 0; s < Warp::STEPS; s++) {
        if (s + 1 < Warp::STEPS) load(f[(s + 1) % 2], s + 1);
        if (s == 0 && first) multiply<T, Warp, true>(sum, f[0]);
        else multiply<T, Warp>(sum, f[s % 2]);
    }
}

// What is added to the sums of a lane: to those of each mma tile's two columns where strips go down, else to those of its two rows.
template <bool DOWN> struct Bias {
    static constexpr u32 TILES = DOWN ? Warp::MMA_COLUMNS : Warp::MMA_ROWS;
    f32 v[TILES][2];

    // c is the first of those of the 64 columns, or rows.
    template <class T> FN void read(const T* c) {
        u32 lane = threadIdx.x % LANES;
        c += DOWN ? lane % 4 * 2 : lane / 4;
#pragma unroll
        for (u32 t = 0; t < TILES; t++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) v[t][e] = get(c[DOWN ? t * 8 + e : t * 16 + e * 8]);
    }

    FN void add(Sums<Warp>& sum) const {
#pragma unroll
        for (u32 i = 0; i < Warp::MMA_ROWS; i++)
#pragma unroll
            for (u32 j = 0; j < Warp::MMA_COLUMNS; j++)
#pragma unroll
                for (u32 e = 0; e < 4; e++) sum[i][j][e] += DOWN ? v[j][e % 2] : v[i][e / 2];
    }
};

// Rounds the sums of a lane into a square. The 8 rows of a matrix and the 4 lanes of each have 32 banks.
template <class T> FN void put_square(const Sums<Warp>& sum, gk_place square) {
    u32 lane = threadIdx.x % LANES, first = Square<true>::place(lane / 4, 0) + lane % 4 * 4;
#pragma unroll
    for (u32 j = 0; j < Warp::MMA_COLUMNS; j++) {
        gk_place to = square + (first ^ j * 16);
#pragma unroll
        for (u32 e = 0; e < 2 * Warp::MMA_ROWS; e++)
            gk_store_in(to, (int)(e * 8 * SIDE * 2), gk_round2(T(), sum[e / 2][j][e % 2 * 2], sum[e / 2][j][e % 2 * 2 + 1]));
    }
}

// Writes a pass of a square of results, all of them, or the first ones.
template <class T> FN void write_pass(const Pieces<LANES>& pieces, const char* square, T* to, u32 pass) {
    vec<u32, 4> r = load<u32, 4>((const u32*)(square + pieces.place(pass) + Pieces<LANES>::constant(pass)));
    store_words(to, r.v[0], r.v[1], r.v[2], r.v[3]);
}

template <class T> FN void write_square(const Pieces<LANES>& pieces, const char* square, T* to, i64 next) {
#pragma unroll
    for (u32 e = 0; e < Pieces<LANES>::PASSES; e++, to += next) write_pass(pieces, square, to, e);
}

template <class T> FN void write_first(const Pieces<LANES>& pieces, const char* square, T* to, i64 next, u32 passes) {
#pragma unroll 1
    for (u32 e = 0; e < passes; e++, to += next) write_pass(pieces, square, to, e);
}

// Blocks that keep different parts of the one operand, and read the same strips of the other, are neighbours along x.
template <bool DOWN, bool AK, bool BK, class T>
FN void multiply_strips(const Product<f32>& p, T* dst, const T* a, const T* b, const T* c, T* sh) {
    constexpr bool ALONG = DOWN ? BK : AK; // what is kept
    i64 at[4];
    seek<4>(p.batch, p.first + blockIdx.z, at);
    u32 own = blockIdx.x * SIDE, side = (blockIdx.y * WARPS + threadIdx.x / LANES) * SIDE, next = gridDim.y * (WARPS * SIDE);
    gk_place begin = gk_place_of(sh);

    Pieces<WARPS * LANES> mine;
    const T* kept = DOWN ? b + at[2] : a + at[1];
    i64 step = DOWN ? (BK ? p.b.column : p.b.row) : (AK ? p.a.row : p.a.column);
    kept += (i64)(mine.row + (ALONG ? own : 0)) * step + mine.piece * PIECE + (ALONG ? 0 : own);
    gk_place square = begin + KEPT;
    u32 k = 0;
#pragma unroll 1
    do {
        mine.copy(square, kept, step * mine.NEXT);
        square += SQUARE;
        kept = here(kept + (ALONG ? SIDE : step * SIDE));
    } while ((k += SIDE) < p.k);

    Stream<DOWN, T> stream(DOWN ? a + at[1] : b + at[2], DOWN ? p.a.row : p.b.row, side, DOWN ? p.m : p.n, next, p.k);
    u32 now = threadIdx.x / LANES * (2 * SQUARE);
    stream.fetch(begin + now);
    stream.fetch(begin + now + SQUARE);
    Bias<DOWN> bias;
    bool biased = p.beta != 0;
    if (biased) bias.read(c + at[3] + own);
    T* to = dst + at[0] + (i64)((DOWN ? side : own) + stream.pieces.row) * p.dst.row + (DOWN ? own : side) + stream.pieces.piece * PIECE;
    u32 from_a = Square<AK>::lane_place(0, true), from_b = Square<BK>::lane_place(0, false);
    gk_cp_async_wait<1>();
    __syncthreads();
    if (side >= stream.size) return;

    Sums<Warp> sum;
#pragma unroll 1
    for (k = 0;;) {
        gk_place of_a = begin + (DOWN ? now : KEPT + k * (SIDE * 2)), of_b = begin + (DOWN ? KEPT + k * (SIDE * 2) : now);
        use<AK, BK, T>(sum, k == 0, of_a, of_b, from_a, from_b);
        gk_ldmatrix_sync();
        k += SIDE;
        if (k == p.k) {
            if (biased) bias.add(sum);
            put_square<T>(sum, begin + now);
            __syncwarp();
            const char* square = (const char*)sh + now;
            i64 pass = p.dst.row * Pieces<LANES>::NEXT;
            if (side + SIDE <= stream.size) write_square(stream.pieces, square, to, pass);
            else write_first(stream.pieces, square, to, pass, stream.passes(side));
            side += next;
            if (side >= stream.size) break;
            to += DOWN ? next * p.dst.row : next;
            k = 0;
        }
        stream.fetch(begin + now); // where a lane writes what it alone has read
        now ^= SQUARE;
        gk_cp_async_wait_warp<1>();
    }
}

// The letters are those of matmul_write.h.
#define MATMUL_STRIP(NAME, DOWN, AK, BK, T)                                                             \
    GK_KERNEL(WARPS* LANES, 2)                                                                          \
    void NAME##_##T(Product<f32> p, T* dst, const T* a, const T* b, const T* c, T* pre, f32* parts) {   \
        GK_DYN_SHARED(T, sh);                                                                           \
        multiply_strips<DOWN, AK, BK>(p, dst, a, b, c, sh);                                             \
    }

#define MATMUL_STRIPS(T)                                  \
    MATMUL_STRIP(matmul_down_nn, true, true, false, T)    \
    MATMUL_STRIP(matmul_down_nt, true, true, true, T)     \
    MATMUL_STRIP(matmul_across_nn, false, true, false, T) \
    MATMUL_STRIP(matmul_across_tn, false, false, false, T)

MATMUL_STRIPS(f16)
MATMUL_STRIPS(bf16)
