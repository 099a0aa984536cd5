// The gradient of a convolution's kernel on tensor cores, for half types whose rows and channels are multiples of 8: the product
//
//   dst[row, (tap, channel)] = sum over places of a[place, row] * b[place moved by tap, channel]
//
// of which a block computes 64 or 128 rows of 128 columns, and a warp 64 by 64. There are two ways to the operands, both with asynchronous
// copies of 16 bytes. Last is for a and b with their channels last, as conv_last.cu writes them to the workspace: a piece is eight rows, or
// eight channels, of one place, and is transposed on its way out of shared memory. Its columns lie within one tap, so that a thread, which
// always copies the same ones, has one offset from any place. Lines is for kernels of one tap over images whose places are a line: a piece
// is eight of these, of one row or channel, and the operands are read where they are.
//
// Shared memory has three stages; a step has one barrier, behind which its stage is there and the one before is free. Sums go to the
// workspace, one set for each split; conv_weight_sum adds them up in order, and turns them to the layout of the kernel.
#include "conv.h"

constexpr u32 DEEP = 32, STAGES = 3, COLUMNS = 128;

// What a block of 64 or 128 rows has: 2 or 4 warps.
template <u32 ROWS_> struct Cut { static constexpr u32 ROWS = ROWS_, BLOCK = ROWS, WARPS = BLOCK / 32; };

// ---- Channels last ------------------------------------------------------------------------------------------------------

// A step of the sum: which piece of b its place without a tap begins with, and which taps are inside.
struct alignas(8) Spot { i32 piece; u32 taps; };

// The spots of all places, up to whole steps. Distances in b are counted in pieces.
KERNEL conv_weight_spots(Conv p, Spot* spots) {
    u32 k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= (p.k + DEEP - 1) / DEEP * DEEP) return;
    Spot spot = {0, 0};
    if (k < p.k) {
        Half place = half_of_place(p, k);
        spot = {(i32)place.at, taps_of(p, place)};
    }
    spots[k] = spot;
}

// Shared memory has the spots of four steps, which are copied two steps before they are needed. a has p.a0 elements for each place, and b
// p.b_column pieces.
template <class C, class T> struct Last {
    static constexpr u32 A_PITCH = C::ROWS + 8, B_PITCH = COLUMNS + 8; // 8 rows lie in different banks
    static constexpr u32 A = DEEP * A_PITCH, STAGE = A + DEEP * B_PITCH;
    static constexpr u32 A_NEXT = C::BLOCK / (C::ROWS / 8), B_NEXT = C::BLOCK / (COLUMNS / 8); // rows of a pass of copies
    static constexpr u32 AT_ONCE = DEEP * sizeof(Spot) / 16; // threads that copy the spots of a step
    u64 a;               // address of the thread's piece of its next place
    const char* b;       // and of b's piece 0
    i64 a_next;
    i32 left;            // places from a on
    u32 a_bytes, b_bytes, turn, to_a, to_b, b_row;
    const Spot *from, *end; // the thread's spots
    Spot* spots;

    // Begins the copy of the spots of a step.
    FN void find(u32 step) {
        if (threadIdx.x < AT_ONCE && from < end) gk_cp_async<16>(spots + step % 4 * DEEP + threadIdx.x * 2, from);
        from += DEEP;
    }

    FN Last(const Conv& p, const Part& part, const T* a_, const T* b_, const Spot* all, u32 row0, u32 column0, Spot* spots_) : spots(spots_) {
        u32 piece = threadIdx.x % (C::ROWS / 8) * 8, place = threadIdx.x / (C::ROWS / 8);
        a = (u64)(a_ + part.group * p.a_group + (i64)(part.k + place) * p.a0 + row0 + piece);
        a_next = A_NEXT * p.a0 * 2;
        a_bytes = row0 + piece < p.m ? 16 : 0;
        left = (i32)(part.end - part.k) - (i32)place;
        to_a = (place * A_PITCH + piece) * 2;
        piece = threadIdx.x % (COLUMNS / 8) * 8;
        b_row = threadIdx.x / (COLUMNS / 8);
        u32 column = column0 + piece, channels = p.n / (p.taps1.size * p.taps0.size), tap = column / channels;
        i64 off = (i64)(tap / p.taps1.size) * p.h_tap * p.b_row + (i64)(tap % p.taps1.size) * p.w_tap * p.b_column;
        b = (const char*)(b_ + part.group * p.b_group + column % channels) + off * 16;
        turn = (4 - tap) % 32; // moves the bit of the tap to that of 16
        b_bytes = column < p.n ? 16 : 0;
        to_b = (A + b_row * B_PITCH + piece) * 2;
        from = all + part.k + threadIdx.x * 2;
        end = all + (part.end + DEEP - 1) / DEEP * DEEP; // the table goes on to there: places behind the last one have no taps
#pragma unroll
        for (u32 s = 0; s < 4; s++) find(s);
        gk_cp_async_commit();
        gk_cp_async_wait<0>();
    }

    // Begins the copies of a step to a stage.
    FN void copy(u32 step, gk_place stage) {
#pragma unroll
        for (u32 e = 0; e < DEEP / A_NEXT; e++, a += a_next)
            gk_cp_async_to(stage + to_a, e * A_NEXT * A_PITCH * 2, (const void*)a, left > (i32)(e * A_NEXT) ? (int)a_bytes : 0);
        left -= DEEP;
        const Spot* at = spots + step % 4 * DEEP + b_row;
#pragma unroll
        for (u32 e = 0; e < DEEP / B_NEXT; e++) {
            Spot spot = at[e * B_NEXT];
            u32 bytes = (spot.taps << turn | spot.taps >> (32 - turn) % 32) & b_bytes;
            gk_cp_async_to(stage + to_b, e * B_NEXT * B_PITCH * 2, b + (i64)spot.piece * 16, (int)bytes);
        }
    }

    // Lanes 8 to 15 have the address of the second matrix of ldmatrix, the upper rows of a, or the upper places of b.
    static FN u32 lane_a(u32 row) { return ((threadIdx.x / 16 % 2 * 8 + threadIdx.x % 8) * A_PITCH + row + threadIdx.x / 8 % 2 * 8) * 2; }
    static FN u32 lane_b(u32 column) { return (A + (threadIdx.x % 16) * B_PITCH + column + threadIdx.x / 16 % 2 * 8) * 2; }
    static FN void fragment_a(u32 (&r)[4], gk_place lane, u32 i, u32 k) { gk_ldmatrix_x4_trans_in(r, lane, (int)((k * 16 * A_PITCH + i * 16) * 2)); }
    static FN void fragment_b(u32 (&r)[4], gk_place lane, u32 j, u32 k) { gk_ldmatrix_x4_trans_in(r, lane, (int)((k * 16 * B_PITCH + j * 16) * 2)); }
};

// ---- Places in a line ---------------------------------------------------------------------------------------------------

// Images have p.rows * p.columns places, a multiple of 8, of which p.k and p.part count as many as are whole steps.
template <class C, class T> struct Lines {
    static constexpr u32 PITCH = DEEP + 8, A = C::ROWS * PITCH, STAGE = A + COLUMNS * PITCH;
    static constexpr u32 NEXT = C::BLOCK / 4; // rows of a pass of copies
    const T *a, *b; // the thread's first pieces
    i64 a_next, b_next, a_image, b_image;
    i32 places, left, end; // of an image, in whole steps; those from the pieces on, and where those of all threads have come to an end
    i32 a_rows, b_rows;    // from the first one on
    u32 to;

    FN Lines(const Conv& p, const Part& part, const T* a_, const T* b_, const Spot*, u32 row0, u32 column0, Spot*) {
        u32 row = threadIdx.x / 32 * 8 + threadIdx.x / 4 % 2 * 4 + threadIdx.x / 8 % 4, piece = threadIdx.x % 4 * 8; // 8 threads: different banks
        const i32 all = p.rows * p.columns;
        u32 steps = (u32)(all + DEEP - 1) / DEEP, image = part.k / DEEP / steps, place = part.k - image * steps * DEEP;
        places = (i32)(steps * DEEP);
        left = all - (i32)(place + piece);
        end = -(i32)piece;
        a_rows = (i32)p.m - (i32)(row0 + row);
        b_rows = (i32)p.n - (i32)(column0 + row);
        a = a_ + part.group * p.a_group + (row0 + row) * p.a_row + image * p.a0 + place + piece;
        b = b_ + part.group * p.b_group + (column0 + row) * p.b_channel + image * p.b_image + place + piece;
        a_next = NEXT * p.a_row;
        b_next = NEXT * p.b_channel;
        a_image = p.a0 - places; // from behind the steps of an image to the next image
        b_image = p.b_image - places;
        to = (row * PITCH + piece) * 2;
    }

    // Begins the copies of a step to a stage.
    FN void copy(u32, gk_place stage) {
        int bytes = left > 0 ? 16 : 0;
        const T *from_a = a, *from_b = b;
#pragma unroll
        for (u32 e = 0; e < C::ROWS / NEXT; e++, from_a += a_next)
            gk_cp_async_to(stage + to, e * NEXT * PITCH * 2, from_a, a_rows > (i32)(e * NEXT) ? bytes : 0);
#pragma unroll
        for (u32 e = 0; e < COLUMNS / NEXT; e++, from_b += b_next)
            gk_cp_async_to(stage + to, (A + e * NEXT * PITCH) * 2, from_b, b_rows > (i32)(e * NEXT) ? bytes : 0);
        a += DEEP;
        b += DEEP;
        left -= DEEP;
        if (left > end) return;
        a += a_image;
        b += b_image;
        left += places;
    }

    FN void find(u32) {}

    static FN u32 lane_a(u32 row) { return ((row + threadIdx.x % 16) * PITCH + threadIdx.x / 16 % 2 * 8) * 2; }
    static FN u32 lane_b(u32 column) { return (A + (column + threadIdx.x / 16 % 2 * 8 + threadIdx.x % 8) * PITCH + threadIdx.x / 8 % 2 * 8) * 2; }
    static FN void fragment_a(u32 (&r)[4], gk_place lane, u32 i, u32 k) { gk_ldmatrix_x4_in(r, lane, (int)((i * 16 * PITCH + k * 16) * 2)); }
    static FN void fragment_b(u32 (&r)[4], gk_place lane, u32 j, u32 k) { gk_ldmatrix_x4_in(r, lane, (int)((j * 16 * PITCH + k * 16) * 2)); }
};

// ---- The product --------------------------------------------------------------------------------------------------------

using Sums = f32[4][8][4]; // of a lane: rows lane/4 and lane/4+8 and columns lane%4*2 and the next of each 16 by 8

// Takes a stage into the sums of a warp, from the lane's first addresses of both tiles.
template <class F, class T> FN void multiply(Sums& sum, gk_place a_lane, gk_place b_lane) {
#pragma unroll
    for (u32 k = 0; k < DEEP / 16; k++) {
        u32 a[4][4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) F::fragment_a(a[i], a_lane, i, k);
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 b[4];
            F::fragment_b(b, b_lane, j, k);
            u32 pair[2][2] = {{b[0], b[1]}, {b[2], b[3]}};
#pragma unroll
            for (u32 i = 0; i < 4; i++)
#pragma unroll
                for (u32 h = 0; h < 2; h++) gk_mma(T(), sum[i][2 * j + h], a[i], pair[h]);
        }
    }
}

// The sums of a split and a group are whole warps' 64 by 64, so that their writing asks for no edge.
FN u32 whole(u32 n) { return (n + 63) / 64 * 64; }

FN i64 sums_at(const Conv& p, u32 split, u32 group) { return (i64)(split * p.groups + group) * whole(p.m) * whole(p.n); }

// Writes the sums of a lane, of which the first is that of a row and a column.
FN void write(const Conv& p, f32* work, const Sums& sum, u32 row, u32 column) {
    const i64 step = 8 * (i64)whole(p.n);
    f32* at = work + (i64)row * whole(p.n) + column;
#pragma unroll
    for (u32 i = 0; i < 8; i++, at += step)
#pragma unroll
        for (u32 j = 0; j < 8; j++) store<f32, 2>(at + j * 8, {{sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]}});
}

template <class C, class F, class T> FN void weigh(const Conv& p, const T* a, const T* b, const Spot* all, f32* work, T* sh) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row0 = blockIdx.y * C::ROWS, column0 = blockIdx.x * COLUMNS;
    u32 row = warp / 2 * 64, column = warp % 2 * 64;
    bool used = row0 + row < p.m && column0 + column < p.n; // the last tiles' warps may have nothing to multiply
    Part part = part_of(p);
    Sums sum = {};
    F feed(p, part, a, b, all, row0, column0, (Spot*)(sh + STAGES * F::STAGE)); // behind the stages
    __syncthreads();
    const u32 steps = (part.end - part.k + DEEP - 1) / DEEP, a_lane = F::lane_a(row), b_lane = F::lane_b(column);
    const gk_place begin = gk_place_of(sh), last = begin + (STAGES - 1) * F::STAGE * 2;
    gk_place now = begin, next = last;
#pragma unroll 1
    for (u32 s = 0; s < STAGES - 1; s++) {
        if (s < steps) feed.copy(s, begin + s * F::STAGE * 2);
        gk_cp_async_commit();
    }
    u32 s = 0; // a split has a step
#pragma unroll 1
    do {
        gk_cp_async_wait<STAGES - 2>();
        __syncthreads(); // the stage is there for all, and nobody uses the one before
        if (s + STAGES - 1 < steps) feed.copy(s + STAGES - 1, next);
        feed.find(s + STAGES + 1);
        gk_cp_async_commit(); // perhaps of nothing: the wait counts groups
        if (used) multiply<F, T>(sum, now + a_lane, now + b_lane);
        next = now;
        now = now == last ? begin : now + F::STAGE * 2;
    } while (++s < steps);
    if (used) write(p, work + sums_at(p, part.split, part.group), sum, row0 + row + lane / 4, column0 + column + lane % 4 * 2);
}

// ---- Sums of splits -----------------------------------------------------------------------------------------------------

// Fours of columns in a row of the sums, and channels.
struct Widths { Div fours, channels; };

// A thread adds up the splits of four channels of a row and a tap, in their order.
template <class T> FN void add_splits(const Conv& p, const Widths& w, T* dst, const f32* work) {
    u32 n = blockIdx.x * THREADS + threadIdx.x, row = quotient(w.fours, n), column = (n - row * w.fours.size) * 4;
    if (row >= p.m || column >= p.n) return;
    const f32* at = work + sums_at(p, 0, blockIdx.y) + (i64)n * 4;
    const i64 step = sums_at(p, 1, 0);
    vec<f32, 4> sum = load<f32, 4>(at);
    for (u32 s = 1; s < p.splits; s++) {
        vec<f32, 4> more = load<f32, 4>(at += step);
#pragma unroll
        for (u32 e = 0; e < 4; e++) sum.v[e] += more.v[e];
    }
    u32 tap = quotient(w.channels, column), y = quotient(p.taps1, tap);
    T* to = dst + blockIdx.y * p.d_group + row * p.d_row + (column - tap * w.channels.size) * p.d0 + y * p.d1 + (tap - y * p.taps1.size) * p.d2;
    if (p.d0 == 1 && (u64)to % 8 == 0) {
        store<T, 4>(to, {{put<T>(sum.v[0]), put<T>(sum.v[1]), put<T>(sum.v[2]), put<T>(sum.v[3])}});
        return;
    }
#pragma unroll
    for (u32 e = 0; e < 4; e++, to += p.d0) *to = put<T>(sum.v[e]);
}

#define WEIGHT(WAY, NAME, ROWS, T)                                                                                    \
    GK_KERNEL(ROWS, 256 / ROWS) void conv_weight_##NAME##_##ROWS##_##T(Conv p, const T* a, const T* b, const Spot* all, f32* work) { \
        GK_DYN_SHARED(T, sh);                                                                                         \
        weigh<Cut<ROWS>, WAY<Cut<ROWS>, T>, T>(p, a, b, all, work, sh);                                               \
    }

#define WEIGHTS(T)                                                                                                    \
    KERNEL conv_weight_sum_##T(Conv p, Widths w, T* dst, const f32* work) {                                           \
        add_splits(p, w, dst, work);                                                                                  \
    }                                                                                                                 \
    WEIGHT(Last, last, 64, T)                                                                                         \
    WEIGHT(Last, last, 128, T)                                                                                        \
    WEIGHT(Lines, lines, 64, T)                                                                                       \
    WEIGHT(Lines, lines, 128, T)

WEIGHTS(f16)
WEIGHTS(bf16)
