// Convolutions of half types on tensor cores, for any strides and sizes: mma.sync of 16 by 8 by 16, accumulated in float. A block
// of 8 warps computes 128 by 128 results, a warp 64 by 32 of them, as in matmul_tensor.cu; or 64 by 128, a warp 32 by 32, where
// there are few rows. Elements are loaded one by one,
// since padding and taps leave nothing aligned, with neighbouring threads at neighbouring places; while one tile is used
// the next is loaded into registers, half of it at a time, and put into the other stage of shared memory. Rows there are 16
// bytes longer than needed, so that the 8 rows that ldmatrix reads at a time lie in different banks.
#include "conv.h"

constexpr u32 SIDE = 128, DEEP = 32, LOADS = SIDE * DEEP / THREADS; // SIDE is that of columns; ROWS tiles of 32 are that of rows
constexpr u32 ALONG = DEEP + 8, ACROSS = SIDE + 8;                                     // pitches of tiles, in elements
constexpr u32 TILE_SIZE = SIDE * ALONG > DEEP * ACROSS ? SIDE * ALONG : DEEP * ACROSS; // elements of a tile in shared memory
constexpr u32 STAGE = 2 * TILE_SIZE;                                                   // a tile of a, a tile of b

// A tile is loaded in two halves, of so many elements a thread, so that few registers wait for memory at a time.
constexpr u32 HALF = LOADS / 2;

// a is loaded and kept along the steps: a warp has 32 steps of a row.
template <u32 ROWS, class T>
FN void fetch_a(u16 (&r)[HALF], u32 half, const Conv& p, const T* a, const Step* steps, u32 row) {
    const Step& s = steps[threadIdx.x % DEEP];
    u32 i = row + threadIdx.x / DEEP + half * (ROWS * 16);
    const T* from = a + s.a + i * p.a_row;
    bool in = s.b.y != OUTSIDE;
#pragma unroll
    for (u32 e = 0; e < 2 * ROWS; e++, i += THREADS / DEEP, from += THREADS / DEEP * p.a_row)
        r[e] = in && i < p.m ? from->bits : (u16)0;
}

template <u32 ROWS> FN void put_a(u16* sh, const u16 (&r)[HALF], u32 half) {
    sh += (threadIdx.x / DEEP + half * (ROWS * 16)) * ALONG + threadIdx.x % DEEP;
#pragma unroll
    for (u32 e = 0; e < 2 * ROWS; e++) sh[e * (THREADS / DEEP) * ALONG] = r[e];
}

// b is loaded and kept along places: these are the steps, or the columns.
template <bool OVER_PLACES, class T>
FN void fetch_b(u16 (&r)[HALF], u32 half, const Conv& p, const T* b, const Step* steps, const Half* columns) {
    constexpr u32 SIZE = OVER_PLACES ? DEEP : SIDE, NEXT = THREADS / SIZE; // of the direction of places, and from one load to the next
    const u32 fixed = threadIdx.x % SIZE, moving = threadIdx.x / SIZE + half * HALF * NEXT;
    const Half one = OVER_PLACES ? steps[fixed].b : columns[fixed];
#pragma unroll
    for (u32 e = 0; e < HALF; e++) {
        const Half& other = OVER_PLACES ? columns[moving + e * NEXT] : steps[moving + e * NEXT].b;
        r[e] = inside(p, one, other) ? b[one.at + other.at].bits : (u16)0;
    }
}

template <bool OVER_PLACES> FN void put_b(u16* sh, const u16 (&r)[HALF], u32 half) {
    constexpr u32 SIZE = OVER_PLACES ? DEEP : SIDE, NEXT = THREADS / SIZE, PITCH = OVER_PLACES ? ALONG : ACROSS;
    sh += (threadIdx.x / SIZE + half * HALF * NEXT) * PITCH + threadIdx.x % SIZE;
#pragma unroll
    for (u32 e = 0; e < HALF; e++) sh[e * NEXT * PITCH] = r[e];
}

// Takes 16 steps, from k on, of one stage into the sums of 16 columns of a warp.
template <bool OVER_PLACES, u32 ROWS, class T>
FN void multiply(f32 (&sum)[ROWS][4], f32 (&more)[ROWS][4], const u16* as, const u16* bs, u32 row, u32 column, u32 k) {
    u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8, b[4];
    if (OVER_PLACES) gk_ldmatrix_x4(b, bs + (column + third + low) * ALONG + k + second);
    else gk_ldmatrix_x4_trans(b, bs + (k + second + low) * ACROSS + column + third);
    u32 left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
        u32 a[4];
        gk_ldmatrix_x4(a, as + (row + 16 * i + second + low) * ALONG + k + third);
        gk_mma(T(), sum[i], a, left);
        gk_mma(T(), more[i], a, right);
    }
}

template <bool OVER_PLACES, u32 ROWS, class T>
FN void convolve(const Conv& p, T* dst, const T* a, const T* b, const T* bias, f32* work, u16* sh, Step* steps, Half* columns) {
    u32 tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    u32 i0 = blockIdx.y * ROWS * 32, j0 = blockIdx.x * SIDE, row = warp / 4 * ROWS * 16, column = warp % 4 * 32;
    Part part = part_of(p);
    a += part.group * p.a_group;
    b += part.group * p.b_group;
    f32 sum[4][ROWS][4] = {}; // by 8 columns, then 16 rows
    u16 r[HALF];
    if (tid < SIDE) columns[tid] = column_of<OVER_PLACES>(p, j0 + tid);
    if (tid < 2 * DEEP) steps[tid] = step_of<OVER_PLACES>(p, part.k + tid, part.end);
    __syncthreads();
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        fetch_a<ROWS>(r, half, p, a, steps, i0);
        put_a<ROWS>(sh, r, half);
        fetch_b<OVER_PLACES>(r, half, p, b, steps, columns);
        put_b<OVER_PLACES>(sh + TILE_SIZE, r, half);
    }
    __syncthreads();
    u32 stage = 0;
    for (u32 k0 = part.k; k0 < part.end; k0 += DEEP, stage ^= 1) {
        const u16* now = sh + stage * STAGE;
        u16* next = sh + (stage ^ 1) * STAGE;
        const Step* ahead = steps + (stage ^ 1) * DEEP;
        bool more = k0 + DEEP < part.end;
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            if (more) fetch_a<ROWS>(r, half, p, a, ahead, i0);
            multiply<OVER_PLACES, ROWS, T>(sum[0], sum[1], now, now + TILE_SIZE, row, column, half * 16);
            if (more) {
                put_a<ROWS>(next, r, half);
                fetch_b<OVER_PLACES>(r, half, p, b, ahead, columns);
            }
            multiply<OVER_PLACES, ROWS, T>(sum[2], sum[3], now, now + TILE_SIZE, row, column + 16, half * 16);
            if (more) put_b<OVER_PLACES>(next + TILE_SIZE, r, half);
        }
        if (tid < DEEP) steps[stage * DEEP + tid] = step_of<OVER_PLACES>(p, k0 + 2 * DEEP + tid, part.end);
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < ROWS; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
#pragma unroll
            for (u32 e = 0; e < 4; e++)
                finish<OVER_PLACES>(p, part, dst, bias, work, i0 + row + 16 * i + lane / 4 + e / 2 * 8,
                                    j0 + column + 8 * j + lane % 4 * 2 + e % 2, sum[j][i][e]);
}

#define CONV_TENSOR(NAME, OVER_PLACES, ROWS, T)                                                                       \
    GK_KERNEL(THREADS, 2) void NAME##_##T(Conv p, T* dst, const T* a, const T* b, const T* bias, f32* work) {         \
        GK_SHARED_ARR(u16, sh, [2 * STAGE]);                                                                          \
        GK_SHARED_ARR(Step, steps, [2 * DEEP]);                                                                       \
        GK_SHARED_ARR(Half, columns, [SIDE]);                                                                         \
        convolve<OVER_PLACES, ROWS, T>(p, dst, a, b, bias, work, (u16*)sh, steps, columns);                           \
    }

#define CONVS_TENSOR(T)                                                                                               \
    CONV_TENSOR(conv_tensor, false, 4, T)                                                                             \
    CONV_TENSOR(conv_tensor_low, false, 2, T)                                                                         \
    CONV_TENSOR(conv_tensor_weight, true, 4, T)                                                                       \
    CONV_TENSOR(conv_tensor_weight_low, true, 2, T)

CONVS_TENSOR(f16)
CONVS_TENSOR(bf16)
