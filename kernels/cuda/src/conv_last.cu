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

constexpr u32 SIDE = 64, PLACES = 256; // channels and places of a block

// A tensor of places, each of three indices, and channels.
struct Places {
    u32 count, channels, pitch, width; // a place of the copy has a pitch of elements, of which those behind the channels are zeros
    Div inner, middle;                 // with a width of more than 1, places that are copied at a time, inner is the places of a line, and there is no middle
    i64 outer_step, middle_step, inner_step, channel_step;
};

// In shared memory each channel has its places in pieces of 8, whose numbers are changed by an exclusive or with this: so the eight rows that
// ldmatrix reads at a time lie in different banks.
FN u32 order_of(u32 channel) { return channel / 8 % 4 * 2 + channel % 2; }

// What a thread reads, WIDTH places at a time; a block reads NEXT channels at once.
template <u32 WIDTH> struct Reader {
    static constexpr u32 ACROSS = PLACES / WIDTH, NEXT = THREADS / ACROSS;
    static_assert(NEXT <= 8 && 8 % NEXT == 0, "the order of a channel is that of the thread's first one, changed by that of the step to it");
    u32 mine = threadIdx.x % ACROSS * WIDTH, c = threadIdx.x / ACROSS;
    u32 to = (c * PLACES + (mine / 8 ^ order_of(c)) * 8 + mine % 8) * 2;

    // Where the e-th channel from the first one goes, but for e * PLACES * 2, which is a constant.
    FN u32 turned(u32 e) const { return to ^ order_of(e) * 16; }
};

// Places that are neighbours in memory, in one line, which is the inner index: asynchronous copies, of nothing behind the last channel.
template <u32 WIDTH, class T> FN void read_lines(const Places& p, const T* src, u32 place0, u32 channel0, i32 channels, T* sh) {
    using R = Reader<WIDTH>;
    R r;
    u32 place = place0 + r.mine, outer = quotient(p.inner, place);
    if (place >= p.count) return;
    u64 at = (u64)(src + (outer * p.outer_step + (channel0 + r.c) * p.channel_step + (place - outer * p.inner.size)));
    const i64 step = p.channel_step * R::NEXT * 2;
    const gk_place begin = gk_place_of(sh);
    channels -= (i32)r.c;
#pragma unroll
    for (u32 e = 0; e < SIDE; e += R::NEXT, at += step)
        gk_cp_async_to<WIDTH * 2>(begin + r.turned(e), e * PLACES * 2, (const void*)at, (i32)e < channels ? WIDTH * 2 : 0);
}

// Any places, one by one; zeros behind the last channel, as far as they are written.
template <class T> FN void read_places(const Places& p, const T* src, u32 place0, u32 channel0, i32 channels, T* sh) {
    using R = Reader<1>;
    R r;
    u32 place = place0 + r.mine;
    if (place >= p.count) return;
    Triple t = triple(p.inner, p.middle, place);
    const T* at = src + (t.i * p.outer_step + t.j * p.middle_step + t.k * p.inner_step + (channel0 + r.c) * p.channel_step);
    const i64 step = p.channel_step * R::NEXT;
#pragma unroll
    for (u32 piece = 0; piece < SIDE; piece += 8) {
        if ((i32)piece >= channels) break;
#pragma unroll
        for (u32 e = piece; e < piece + 8; e += R::NEXT, at += step) *(T*)((char*)sh + r.turned(e) + e * PLACES * 2) = *at;
    }
#pragma unroll 1
    for (u32 e = channels > 0 ? channels : 0; e < SIDE && channel0 + e < p.pitch; e += R::NEXT) *(T*)((char*)sh + r.turned(e) + e * PLACES * 2) = T{0};
}

// A block writes 64 channels of 256 places; it reads along the places and writes along the channels, of which there are a multiple of 8, as there
// are of the pitch. Four matrices of 8 channels by 8 places are turned at a time. Each has two channels of each of four pieces, so that a lane
// gets the 8 channels of a piece.
template <class T> FN void channels_last(const Places& p, T* dst, const T* src, T* sh) {
    u32 place0 = blockIdx.x * PLACES, channel0 = blockIdx.y * SIDE;
    i32 channels = (i32)p.channels - (i32)channel0; // from the first one on
    if (p.width == 8) read_lines<8>(p, src, place0, channel0, channels, sh);
    else if (p.width == 4) read_lines<4>(p, src, place0, channel0, channels, sh);
    else read_places(p, src, place0, channel0, channels, sh);
    gk_cp_async_commit();
    gk_cp_async_wait<0>();
    __syncthreads();
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp % 2 * 32, group = warp / 2;
    u32 row = half + lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2, from = (row * PLACES + (group ^ order_of(row)) * 8) * 2;
    u32 place = place0 + group * 8 + lane / 4, channel = channel0 + half + lane % 4 * 8;
    i32 left = channel < p.pitch ? (i32)p.count - (i32)place : 0;
    T* to = dst + (u64)place * p.pitch + channel;
    const i64 step = 32 * (i64)p.pitch;
    const gk_place begin = gk_place_of(sh);
#pragma unroll
    for (i32 e = 0; e < (i32)PLACES; e += 32, to += step) { // four pieces on: a bit of the order, and then what is behind its bits
        u32 r[4];
        gk_ldmatrix_x4_trans_in(r, begin + (from ^ e % 64 * 2), e / 64 * 128);
        if (e < left) store_words(to, r[0], r[1], r[2], r[3]);
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

// Bits of Conv's biased in these kernels: whether there is a bias, and whether each two columns of the product, from an even one on, are one word of
// the result, and sums are not split.
constexpr u32 BIASED = 1, PAIRED = 2;

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

// Writes two columns' sums of a lane, which are neighbours in memory, to dst.
template <class C, class T>
FN void write_pair(const Conv& p, T* at, const f32 (&sum)[C::M][8][4], const f32 (&bias)[C::M][2], u32 row, u32 j) {
    const i64 step = 8 * p.d_row;
#pragma unroll
    for (u32 i = 0; i < C::M * 2; i++, at += step) {
        f32 b = bias[i / 2][i % 2];
        if (row + i * 8 < p.m) *(u32*)at = gk_round2(T(), sum[i / 2][j][i % 2 * 2] + b, sum[i / 2][j][i % 2 * 2 + 1] + b);
    }
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
    if (p.biased & BIASED)
#pragma unroll
        for (u32 i = 0; i < C::M * 2; i++)
            if (row + i * 8 < p.m) bias[i / 2][i % 2] = get(biases[(row + i * 8) * p.bias]);
    if (p.biased & PAIRED) {
        dst += row * p.d_row;
#pragma unroll
        for (u32 j = 0; j < 8; j++)
            if (column0 + column + j * 8 < p.n) write_pair<C>(p, dst + columns[column + j * 8].to, sum, bias, row, j);
        return;
    }
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
        GK_SHARED_ARR(T, sh, [PLACES * SIDE]);                                                                          \
        channels_last(p, dst, src, (T*)sh);                                                                           \
    }                                                                                                                 \
    CONV_LAST(64, T)                                                                                                  \
    CONV_LAST(128, T)

CHANNELS_LAST(f16)
CHANNELS_LAST(bf16)
