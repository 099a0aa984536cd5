// Convolutions of half types on tensor cores with at most 32 taps. Image and kernel are first written to the workspace with the channels
// last, a multiple of 32 in each group, of which the last may be zeros; then 16 bytes are eight channels of one place, and a step of 32 of the sum lies
// within one tap. So both operands are copied asynchronously, 16 bytes at a time, and what a row of the tile is costs once for each
// block: a place's address, and a bit for each tap that is inside of the image. conv_tensor.cu serves others.
//
// A block of 4 warps computes 128 by 128 or 64 by 256 results, a warp 64 by 64 of them. Shared memory has three stages; a step has
// one barrier, behind which its stage is there and the one before is free.
#include "conv.h"

constexpr u32 BLOCK = 128, DEEP = 32, PITCH = DEEP + 8, STAGES = 3; // a pitch of 80 bytes: 8 rows lie in different banks

// ---- Channels last ------------------------------------------------------------------------------------------------------

constexpr u32 SIDE = 64, PLACES = 128; // channels and places of a block
constexpr u32 PAD = SIDE + 2;          // an odd number of words: neighbouring places lie in different banks

// A tensor of places, each of three indices, and channels.
struct Places {
    u32 count, channels, pitch, unused; // a place of the copy has a pitch of elements, of which those behind the channels are zeros
    Div inner, middle;
    i64 outer_step, middle_step, inner_step, channel_step;
};

// A block writes 64 channels of 128 places; it reads along the places, which are neighbours in memory, and writes along the channels, of which
// there are a multiple of 8, as there are of the pitch.
template <class T> FN void channels_last(const Places& p, T* dst, const T* src, T* sh) {
    constexpr u32 NEXT = THREADS / PLACES, ROWS = THREADS / (SIDE / 8);
    u32 place0 = blockIdx.x * PLACES, channel0 = blockIdx.y * SIDE, mine = threadIdx.x % PLACES, place = place0 + mine;
    u32 channels = channel0 < p.channels ? p.channels - channel0 : 0, pitch = p.pitch - channel0; // from the first one on
    if (place < p.count) {
        Triple t = triple(p.inner, p.middle, place);
        u32 c = threadIdx.x / PLACES;
        const T* at = src + t.i * p.outer_step + t.j * p.middle_step + t.k * p.inner_step + (channel0 + c) * p.channel_step;
        T* to = sh + mine * PAD + c;
        i64 step = p.channel_step * NEXT;
#pragma unroll
        for (u32 piece = 0; piece < SIDE; piece += 8) {
            if (piece >= channels) break;
#pragma unroll
            for (u32 e = 0; e < 8; e += NEXT, at += step) to[piece + e] = *at;
        }
#pragma unroll 1
        for (u32 e = channels; e < pitch && e < SIDE; e += NEXT) to[e] = T{0};
    }
    __syncthreads();
    u32 row = threadIdx.x / (SIDE / 8), c = threadIdx.x % (SIDE / 8) * 8;
    if (c >= pitch) return;
    T* to = dst + (u64)(place0 + row) * p.pitch + channel0 + c;
    const u32* from = (const u32*)(sh + row * PAD + c);
    i64 step = ROWS * (i64)p.pitch;
#pragma unroll
    for (u32 e = 0; e < PLACES; e += ROWS, to += step, from += ROWS * PAD / 2) {
        if (place0 + row + e >= p.count) break;
        store_words(to, from[0], from[1], from[2], from[3]);
    }
}

// ---- The product --------------------------------------------------------------------------------------------------------

// A warp computes 64 by 64.
template <u32 ROWS_, u32 COLUMNS_> struct Cut {
    static constexpr u32 ROWS = ROWS_, COLUMNS = COLUMNS_, ACROSS = COLUMNS / 64;  // warps beside each other
    static constexpr u32 M = 4, A_PIECES = ROWS / 32, B_PIECES = COLUMNS / 32;     // mma of a warp, down; pieces of a thread
    static constexpr u32 A = ROWS * PITCH, STAGE = A + COLUMNS * PITCH;            // elements of shared memory
    static_assert(ROWS / 64 * ACROSS * 32 == BLOCK, "4 warps");
};

// What a column of the product is: where its place is in the image without a tap, which taps are inside, and where its results go.
struct Column {
    i64 from, to;
    u32 taps;
};

FN Column column_at(const Conv& p, u32 n) {
    if (n >= p.n) return {0, 0, 0};
    Triple t = triple(p.size1, p.size0, n);
    Half place = half_of_place(p, n);
    return {place.at, t.i * p.d0 + t.j * p.d1 + t.k * p.d2, taps_of(p, place)};
}

// What a thread copies: a piece of every 32nd row of both tiles.
template <class C, class T> struct Feed {
    const T *a, *b;                        // the operands: for copies of nothing
    const T *of_a, *of_b[C::B_PIECES];     // its pieces of a's first row, and of b's rows
    i64 a_step;
    u32 a_bytes[C::A_PIECES], b_bytes[C::B_PIECES];
    const Column* columns; // its first one
    u32 channels, channel, tap, tap_x, to;

    FN void turn(const Conv& p) { // to the present tap
        i64 off = (i64)(tap / p.taps1.size) * p.h_tap * p.b_row + (i64)tap_x * p.w_tap * p.b_column;
#pragma unroll
        for (u32 e = 0; e < C::B_PIECES; e++) {
            const Column& column = columns[e * 32];
            b_bytes[e] = column.taps >> tap & 1 ? 16 : 0;
            of_b[e] = b + (b_bytes[e] ? column.from + off : 0) + channel + threadIdx.x % 4 * 8;
        }
    }

    FN Feed(const Conv& p, const T* a_, const T* b_, const Column* all, u32 row0, u32 k) : a(a_), b(b_) {
        u32 row = threadIdx.x / 32 * 8 + threadIdx.x / 4 % 2 * 4 + threadIdx.x / 8 % 4, piece = threadIdx.x % 4 * 8; // 8 threads: different banks
        channels = p.k / (p.taps1.size * p.taps0.size);
        tap = k / channels;
        tap_x = tap % p.taps1.size;
        channel = k % channels;
        to = row * PITCH + piece;
        a_step = p.a_row * 32;
        of_a = a + (i64)(row0 + row) * p.a_row + k + piece;
#pragma unroll
        for (u32 e = 0; e < C::A_PIECES; e++) a_bytes[e] = row0 + row + e * 32 < p.m ? 16 : 0;
        columns = all + row;
        turn(p);
    }

    // Begins the copies of the next step.
    FN void copy(const Conv& p, T* sh) {
        const T* from = of_a;
#pragma unroll
        for (u32 e = 0; e < C::A_PIECES; e++, from += a_step) gk_cp_async_at(sh + to, e * 32 * PITCH * 2, a_bytes[e] ? from : a, 0, (int)a_bytes[e]);
#pragma unroll
        for (u32 e = 0; e < C::B_PIECES; e++) {
            gk_cp_async_at(sh + to, (C::A + e * 32 * PITCH) * 2, of_b[e], 0, (int)b_bytes[e]);
            of_b[e] += DEEP;
        }
        of_a += DEEP;
        channel += DEEP;
        if (channel < channels) return;
        channel = 0;
        tap++;
        tap_x = tap_x + 1 == p.taps1.size ? 0 : tap_x + 1;
        turn(p);
    }
};

// Takes a stage into the sums of a warp, from the lane's first addresses of both tiles.
template <class C, class T> FN void multiply(f32 (&sum)[C::M][8][4], const T* a_lane, const T* b_lane) {
#pragma unroll
    for (u32 k = 0; k < DEEP / 16; k++) {
        u32 a[C::M][4];
#pragma unroll
        for (u32 i = 0; i < C::M; i++) gk_ldmatrix_x4_at(a[i], a_lane, (i * 16 * PITCH + k * 16) * 2);
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            u32 b[4];
            gk_ldmatrix_x4_at(b, b_lane, (j * 16 * PITCH + k * 16) * 2);
            u32 pair[2][2] = {{b[0], b[1]}, {b[2], b[3]}};
#pragma unroll
            for (u32 i = 0; i < C::M; i++)
#pragma unroll
                for (u32 h = 0; h < 2; h++) gk_mma(T(), sum[i][2 * j + h], a[i], pair[h]);
        }
    }
}

// Writes a column's sums of a lane to dst, or to the workspace; row is the first.
template <class C, class T>
FN void write_column(const Conv& p, const Part& part, T* dst, i64 to, f32* work, const f32 (&sum)[C::M][8][4], const f32 (&bias)[C::M][2], u32 row,
                     u32 column, u32 j, u32 e) {
    if (p.splits > 1) {
        f32* at = work + ((i64)(part.split * p.groups + part.group) * p.m + row) * p.n + column;
#pragma unroll
        for (u32 i = 0; i < C::M * 2; i++)
            if (row + i * 8 < p.m) at[(i64)i * 8 * p.n] = sum[i / 2][j][i % 2 * 2 + e];
        return;
    }
    T* at = dst + to + row * p.d_row;
#pragma unroll
    for (u32 i = 0; i < C::M * 2; i++, at += 8 * p.d_row)
        if (row + i * 8 < p.m) *at = put<T>(sum[i / 2][j][i % 2 * 2 + e] + bias[i / 2][i % 2]);
}

template <class C, class T> FN void convolve(const Conv& p, T* dst, const T* a, const T* b, const T* biases, f32* work, T* sh) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row0 = blockIdx.y * C::ROWS, column0 = blockIdx.x * C::COLUMNS;
    u32 row = warp / C::ACROSS * 64, column = warp % C::ACROSS * 64;
    Part part = part_of(p);
    a += part.group * p.a_group;
    b += part.group * p.b_group;
    dst += part.group * p.d_group;
    biases += part.group * p.m * p.bias;
    f32 sum[C::M][8][4] = {};
    Column* columns = (Column*)(sh + STAGES * C::STAGE); // behind the stages
#pragma unroll
    for (u32 n = threadIdx.x; n < C::COLUMNS; n += BLOCK) columns[n] = column_at(p, column0 + n);
    __syncthreads();
    Feed<C, T> feed(p, a, b, columns, row0, part.k);
    const u32 a_lane = (row + lane % 16) * PITCH + lane / 16 * 8, b_lane = C::A + (column + lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 8;
    u32 steps = (part.end - part.k) / DEEP;
    T *now = sh, *next = sh + (STAGES - 1) * C::STAGE;
#pragma unroll 1
    for (u32 s = 0; s < STAGES - 1; s++) {
        if (s < steps) feed.copy(p, sh + s * C::STAGE);
        gk_cp_async_commit();
    }
#pragma unroll 1
    for (u32 s = 0; s < steps; s++) {
        gk_cp_async_wait<STAGES - 2>();
        __syncthreads(); // the stage is there for all, and nobody uses the one before
        if (s + STAGES - 1 < steps) feed.copy(p, next);
        gk_cp_async_commit(); // perhaps of nothing: the wait counts groups
        multiply<C>(sum, now + a_lane, now + b_lane);
        next = now;
        now = now == sh + (STAGES - 1) * C::STAGE ? sh : now + C::STAGE;
    }
    row += row0 + lane / 4;
    column += lane % 4 * 2; // in the block
    f32 bias[C::M][2] = {};
    if (p.biased)
#pragma unroll
        for (u32 i = 0; i < C::M * 2; i++)
            if (row + i * 8 < p.m) bias[i / 2][i % 2] = get(biases[(row + i * 8) * p.bias]);
#pragma unroll
    for (u32 j = 0; j < 8; j++)
#pragma unroll
        for (u32 e = 0; e < 2; e++)
            if (column0 + column + j * 8 + e < p.n)
                write_column<C>(p, part, dst, columns[column + j * 8 + e].to, work, sum, bias, row, column0 + column + j * 8 + e, j, e);
}

#define CONV_LAST(ROWS, T)                                                                                            \
    GK_KERNEL(BLOCK, 2) void conv_last_##ROWS##_##T(Conv p, T* dst, const T* a, const T* b, const T* bias, f32* work) { \
        GK_DYN_SHARED(T, sh);                                                                                         \
        convolve<Cut<ROWS, 16384 / ROWS>>(p, dst, a, b, bias, work, sh);                                                 \
    }

#define CHANNELS_LAST(T)                                                                                              \
    KERNEL channels_last_##T(Places p, T* dst, const T* src) {                                                        \
        GK_SHARED_ARR(T, sh, [PLACES * PAD]);                                                                           \
        channels_last(p, dst, src, (T*)sh);                                                                           \
    }                                                                                                                 \
    CONV_LAST(64, T)                                                                                                  \
    CONV_LAST(128, T)

CHANNELS_LAST(f16)
CHANNELS_LAST(bf16)
