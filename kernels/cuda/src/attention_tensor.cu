// Attention of half types on tensor cores, for heads of up to 128 elements whose rows are contiguous and begin at multiples of
// 16 bytes; attention.cu serves all others. Sizes need not be multiples of anything.
//
// A block of 4 warps has 64 rows, 16 for each warp, whose elements stay in registers as fragments of mma, or in shared memory where
// there are two operands of rows. It goes through tiles of 64 columns (32, where registers are few) of two operands, copied
// asynchronously: while one of them is used, the other is on its way. Weights never leave the registers: sums of mma lie as the left operand of the next wants it.
#include "attention.h"

constexpr u32 WARPS = 4, LANES = 32, BLOCK = WARPS * LANES, ROWS = 16 * WARPS;

template <int MODE> constexpr u32 COLUMNS = MODE == RESULT ? 64 : 32;
template <int SIZE> constexpr u32 PITCH = SIZE + 8; // of a row in shared memory: the 8 rows of ldmatrix lie in different banks

// Rows of an operand, of which count exist, with size elements.
template <class T> struct Lines {
    const T* p;
    i64 row;
    u32 count, size;
};

// Begins the copy of N rows from first on. What does not exist is 0.
template <u32 N, int SIZE, class T> FN void copy_rows(T* sh, const Lines<T>& l, u32 first) {
    constexpr u32 PIECES = SIZE / 8;
#pragma unroll
    for (u32 e = 0; e < N * PIECES / BLOCK; e++) {
        u32 piece = threadIdx.x + e * BLOCK, r = piece / PIECES, at = piece % PIECES * 8, row = first + r;
        u32 left = row < l.count && at < l.size ? l.size - at : 0;
        gk_cp_async<16>(sh + r * PITCH<SIZE> + at, left ? l.p + (i64)row * l.row + at : l.p, (int)(left < 8 ? left * 2 : 16));
    }
}

// The fragment of the 16 rows of a warp, at elements k on, as left operand.
template <int SIZE, class T> FN void left_of(u32 (&r)[4], const T* sh, u32 k) {
    u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8, row = threadIdx.x / 32 * 16;
    gk_ldmatrix_x4(r, sh + (row + second + low) * PITCH<SIZE> + k + third);
}

// Rows of the block: all fragments of a warp in registers, or the rows in shared memory.
template <int SIZE> struct Held {
    u32 r[SIZE / 16][4];
    FN void at(u32 (&a)[4], u32 k) const {
#pragma unroll
        for (u32 e = 0; e < 4; e++) a[e] = r[k][e];
    }
};
template <int SIZE, class T> struct Shared {
    const T* sh;
    FN void at(u32 (&a)[4], u32 k) const { left_of<SIZE>(a, sh, k * 16); }
};

// sum = rows @ (a tile)ᵀ.
template <u32 N, int SIZE, class T, class R> FN void dots(f32 (&sum)[N / 8][4], const R& rows, const T* sh) {
    u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
#pragma unroll
    for (u32 j = 0; j < N / 8; j++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) sum[j][e] = 0;
#pragma unroll
    for (u32 k = 0; k < SIZE / 16; k++) {
        u32 a[4];
        rows.at(a, k);
#pragma unroll
        for (u32 j = 0; j < N / 16; j++) {
            u32 b[4];
            gk_ldmatrix_x4(b, sh + (j * 16 + third + low) * PITCH<SIZE> + k * 16 + second);
            u32 b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
            gk_mma(T(), sum[2 * j], a, b0);
            gk_mma(T(), sum[2 * j + 1], a, b1);
        }
    }
}

// sum += weights @ a tile.
template <u32 N, int SIZE, class T> FN void weigh(f32 (&sum)[SIZE / 8][4], const f32 (&weight)[N / 8][4], const T* sh) {
    u32 lane = threadIdx.x % 32, low = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
#pragma unroll
    for (u32 k = 0; k < N / 16; k++) {
        u32 a[4];
#pragma unroll
        for (u32 e = 0; e < 4; e++) a[e] = gk_pack2(put<T>(weight[2 * k + e / 2][e % 2 * 2]), put<T>(weight[2 * k + e / 2][e % 2 * 2 + 1]));
#pragma unroll
        for (u32 j = 0; j < SIZE / 16; j++) {
            u32 b[4];
            gk_ldmatrix_x4_trans(b, sh + (k * 16 + second + low) * PITCH<SIZE> + j * 16 + third);
            u32 b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
            gk_mma(T(), sum[2 * j], a, b0);
            gk_mma(T(), sum[2 * j + 1], a, b1);
        }
    }
}

// By its bits: of a chain of comparisons the compiler would make branches, one of which it believes to be never taken.
FN u32 pick(const u32 (&w)[4], u32 i) {
    u32 odd = 0 - (i & 1), upper = 0 - (i >> 1 & 1);
    u32 low = (w[0] & ~odd) | (w[1] & odd), high = (w[2] & ~odd) | (w[3] & odd);
    return (low & ~upper) | (high & upper);
}

// The random words of a fragment of 16 by 8 scores, in the order of its elements, where rows are queries. Two neighbouring lanes
// share the words of four keys in their two rows: each makes those of one row.
template <class T> FN void words_by_query(u32 (&r)[4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
    bool odd = threadIdx.x % 2;
    Words w = words_at(p, h, odd ? row + 8 : row, column);
    u32 a = __shfl_xor_sync(~0u, odd ? w.w[0] : w.w[2], 1), b = __shfl_xor_sync(~0u, odd ? w.w[1] : w.w[3], 1);
    r[0] = odd ? a : w.w[0];
    r[1] = odd ? b : w.w[1];
    r[2] = odd ? w.w[2] : a;
    r[3] = odd ? w.w[3] : b;
}

// The same where rows are keys. The four lanes of four neighbouring keys share the words of two queries in both halves of the
// fragment: each makes those of one of these, and hands three of them on.
template <class T> FN void words_by_key(u32 (&r)[4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
    u32 mine = threadIdx.x / 4 % 4;
    Words w = words_at(p, h, column + mine % 2, row + mine / 2 * 8);
    u32 got[4];
#pragma unroll
    for (u32 x = 0; x < 4; x++) got[x] = __shfl_xor_sync(~0u, pick(w.w, mine ^ x), (int)(x * 4));
#pragma unroll
    for (u32 e = 0; e < 4; e++) r[e] = pick(got, mine ^ e);
}

// The maxima and sums so far of the two rows that a thread has elements of.
struct Running {
    f32 most[2], sum[2];
};

// What the four threads of a row have together.
FN f32 row_sum(f32 v) {
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}
FN f32 row_max(f32 v) {
    f32 other = __shfl_xor_sync(~0u, v, 1);
    v = other > v ? other : v;
    other = __shfl_xor_sync(~0u, v, 2);
    return other > v ? other : v;
}

// Turns scores into probabilities relative to the maxima so far, and corrects what was summed before.
template <u32 N, int SIZE> FN void soften(f32 (&s)[N / 8][4], Running& r, f32 (&sum)[SIZE / 8][4]) {
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        f32 most = r.most[half];
#pragma unroll
        for (u32 j = 0; j < N / 8; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) most = s[j][half * 2 + e] > most ? s[j][half * 2 + e] : most;
        most = row_max(most);
        f32 safe = most == LOW<f32> ? 0.0f : most, factor = exp(r.most[half] - safe);
        r.most[half] = most;
        r.sum[half] *= factor;
#pragma unroll
        for (u32 j = 0; j < N / 8; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                f32& v = s[j][half * 2 + e];
                v = exp(v - safe);
                r.sum[half] += v;
            }
#pragma unroll
        for (u32 j = 0; j < SIZE / 8; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) sum[j][half * 2 + e] *= factor;
    }
}

// Turns products into scores and, but for RESULT, into weights. row and column are those of this thread's first element.
template <int MODE, u32 N, class T>
FN void weights(f32 (&s)[N / 8][4], const f32 (&dp)[N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 j = 0; j < N / 8; j++) {
        u32 words[4] = {};
        if (MODE != RESULT && p.drops) {
            if (of_queries(MODE)) words_by_query(words, p, h, row, column + 8 * j);
            else words_by_key(words, p, h, row, column + 8 * j);
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            u32 r = row + e / 2 * 8, c = column + 8 * j + e % 2;
            u32 t = of_queries(MODE) ? r : c, k = of_queries(MODE) ? c : r;
            f32 v = score(p, h, t, k, s[j][e]);
            if constexpr (MODE != RESULT) {
                bool there = t < p.queries && k < p.keys;
                f32 keep = p.drops ? kept(p, words[e]) : 1.0f;
                v = there ? probability(v, h.lse[t]) : 0.0f;
                if (of_scores(MODE)) v = there ? v * (dp[j][e] * keep - h.delta[t]) : 0.0f;
                else v *= keep;
                if (MODE == QUERIES && h.dmask && there) h.dmask[(i64)t * p.dmask.row + (i64)k * p.dmask.step] = put<T>(v);
            }
            s[j][e] = v;
        }
    }
}

// Dropout of probabilities.
template <u32 N, class T> FN void drop(f32 (&s)[N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 j = 0; j < N / 8; j++) {
        u32 words[4];
        words_by_query(words, p, h, row, column + 8 * j);
#pragma unroll
        for (u32 e = 0; e < 4; e++) s[j][e] *= kept(p, words[e]);
    }
}

// One pair of a head of queries and a head of keys, for the rows of the block. The tile first is used before the tile last in each
// step: the next of each is on its way while the other is used.
template <int MODE, int SIZE, class T>
FN void pass(const Attention<f32>& p, const Operands<T, f32>& o, const Spot& at, u32 head, Running& run, f32 (&sum)[SIZE / 8][4], T* sh) {
    constexpr u32 N = COLUMNS<MODE>;
    u32 key_head = head / p.group, lane = threadIdx.x % 32, from, to;
    columns_of<MODE>(p, at.row0, ROWS, N, from, to);
    if (from >= to) return; // before any copy, since what is left open here would meet the copies of the next pair
    Head<T, f32> h = head_at(p, o, at.batch, head);
    Lines<T> q = {head_of(o.q, p.q, at.batch, head), p.q.row, p.queries, p.depth};
    Lines<T> k = {head_of(o.k, p.k, at.batch, key_head), p.k.row, p.keys, p.depth};
    Lines<T> v = {head_of(o.v, p.v, at.batch, key_head), p.v.row, p.keys, p.width}, g = q;
    if (MODE != RESULT) g = {head_of(o.grad, p.grad, at.batch, head), p.grad.row, p.queries, p.width};
    Held<SIZE> rows;
    Shared<SIZE, T> others = {sh + 2 * N * PITCH<SIZE>}; // room for them behind the tiles
    static_assert(2 * N >= ROWS, "what is taken into registers lies where the tiles will");
    copy_rows<ROWS, SIZE>(sh, of_queries(MODE) ? q : k, at.row0);
    if constexpr (of_scores(MODE)) copy_rows<ROWS, SIZE>(sh + 2 * N * PITCH<SIZE>, of_queries(MODE) ? g : v, at.row0);
    gk_cp_async_commit();
    gk_cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (u32 k = 0; k < SIZE / 16; k++) left_of<SIZE>(rows.r[k], sh, k * 16);
    const Lines<T>& first = MODE == RESULT ? k : MODE == QUERIES ? v : MODE == VALUES ? q : g;
    const Lines<T>& last = MODE == RESULT ? v : MODE == QUERIES ? k : MODE == VALUES ? g : q;
    T* one = sh;
    T* two = sh + N * PITCH<SIZE>;
    __syncthreads();
    copy_rows<N, SIZE>(one, first, from);
    gk_cp_async_commit();
    copy_rows<N, SIZE>(two, last, from);
    gk_cp_async_commit();
    for (u32 c = from; c < to; c += N) {
        u32 row = at.row0 + threadIdx.x / 32 * 16 + lane / 4, column = c + lane % 4 * 2;
        f32 s[N / 8][4], dp[N / 8][4];
        gk_cp_async_wait<1>();
        __syncthreads();
        if constexpr (of_scores(MODE)) dots<N, SIZE>(dp, others, one);
        else dots<N, SIZE>(s, rows, one);
        __syncthreads();
        if (c + N < to) copy_rows<N, SIZE>(one, first, c + N);
        gk_cp_async_commit(); // perhaps of nothing: so one group may always stay open
        if constexpr (!of_scores(MODE)) weights<MODE, N>(s, s, p, h, row, column);
        if constexpr (MODE == RESULT) {
            soften<N, SIZE>(s, run, sum);
            if (p.drops) drop<N>(s, p, h, row, column);
        }
        gk_cp_async_wait<1>();
        __syncthreads();
        if constexpr (of_scores(MODE)) {
            dots<N, SIZE>(s, rows, two);
            weights<MODE, N>(s, dp, p, h, row, column);
        }
        weigh<N, SIZE>(sum, s, two);
        __syncthreads();
        if (c + N < to) copy_rows<N, SIZE>(two, last, c + N);
        gk_cp_async_commit();
    } // what is still open is empty
}

template <int MODE, int SIZE, class T> FN void attend(const Attention<f32>& p, const Operands<T, f32>& o, T* sh) {
    Spot at = spot_of<MODE>(p, ROWS);
    u32 lane = threadIdx.x % 32;
    f32 sum[SIZE / 8][4] = {};
    Running run = {{LOW<f32>, LOW<f32>}, {}};
    if (of_queries(MODE)) pass<MODE, SIZE>(p, o, at, at.head, run, sum, sh);
    else
        for (u32 i = 0; i < p.group; i++) pass<MODE, SIZE>(p, o, at, at.head * p.group + i, run, sum, sh);
    u32 rows = of_queries(MODE) ? p.queries : p.keys, size = of_scores(MODE) ? p.depth : p.width;
    T* to = o.result + at.batch * p.result.batch + at.head * p.result.head;
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        u32 row = at.row0 + threadIdx.x / 32 * 16 + lane / 4 + half * 8;
        f32 factor = of_scores(MODE) ? p.scale : 1.0f;
        if constexpr (MODE == RESULT) {
            f32 total = row_sum(run.sum[half]);
            factor = total == 0 ? 0.0f : 1 / total;
            if (lane % 4 == 0 && row < rows) head_at(p, o, at.batch, at.head).lse[row] = run.most[half] + log(total);
        }
#pragma unroll
        for (u32 j = 0; j < SIZE / 8; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                u32 column = j * 8 + lane % 4 * 2 + e;
                if (row < rows && column < size) to[(i64)row * p.result.row + (i64)column * p.result.step] = put<T>(sum[j][half * 2 + e] * factor);
            }
    }
}

#define ATTEND(NAME, MODE, SIZE, T)                                                                                   \
    GK_KERNEL(BLOCK, 2) void NAME##_##SIZE##_##T(Attention<f32> p, Operands<T, f32> o) {                              \
        GK_SHARED_ARR(T, sh, [(MODE == VALUES ? 1 : 2) * ROWS * PITCH<SIZE>]);                                         \
        attend<MODE, SIZE, T>(p, o, (T*)sh);                                                                          \
    }

#define ATTENTION(SIZE, T)                                                                                            \
    ATTEND(attention, RESULT, SIZE, T)                                                                                \
    ATTEND(attention_queries, QUERIES, SIZE, T)                                                                       \
    ATTEND(attention_values, VALUES, SIZE, T)                                                                         \
    ATTEND(attention_keys, KEYS, SIZE, T)

ATTENTION(64, f16)
ATTENTION(64, bf16)
ATTENTION(128, f16)
ATTENTION(128, bf16)
