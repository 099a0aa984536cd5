// The result of attention on tensor cores; attention_tile.h says for which operands.
//
// A block goes through tiles of keys and values, of which shared memory has two: while one is used the next is on its way. A step
// waits for its tile, passes the one barrier behind which the tile before is free, and begins the next copy.
//
// Exponentials are powers of 2, by the instruction that there is: with c = scale*log2(e) a weight is 2^(s*c - m), one
// multiplication and addition on the product s itself. m is a maximum of the row's s*c, but not the last: as long as no score of the warp's
// rows is more than 8 above it, weights are at most 2^8, and nothing that was summed has to be corrected. What of the tile no row may
// see is taken out only in tiles that the diagonal or the end of the keys goes through, and where there is a mask; the others run
// without a comparison. Sums of rows stay with each lane until the end.
#include "attention_scores.h"

template <int SIZE_> struct Plan {
    static constexpr int SIZE = SIZE_;
    static constexpr u32 M = 2, N = SIZE == 64 ? 64 : 32, ROWS = 16 * M * WARPS; // sums of longer heads leave registers for fewer scores
    static constexpr bool HELD = SIZE == 64;                                      // the rows of q in registers
    static constexpr u32 TILE = N * PITCH<SIZE>, STAGE = 2 * TILE, STAGES = HELD ? 0 : ROWS * PITCH<SIZE>; // where the stages begin
    template <class T> using Rows = typename Either<HELD, Held<SIZE, M, T>, Shared<SIZE, M, T>>::type;
    static_assert(!HELD || ROWS * PITCH<SIZE> == STAGE, "the rows lie in the second stage before they are in registers");
};

// The maxima and sums so far of a lane's rows.
template <u32 M> struct Running {
    f32 most[M][2], sum[M][2];
};

// The largest of a row, which four lanes share.
FN f32 row_max(f32 v) {
    v = larger_of(v, __shfl_xor_sync(~0u, v, 1));
    return larger_of(v, __shfl_xor_sync(~0u, v, 2));
}
FN f32 row_sum(f32 v) {
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

// What is subtracted from scores: any number will do for a row that has seen nothing.
FN f32 finite_most(f32 most) { return most == LOW<f32> ? 0.0f : most; }

// New maxima, and what was summed before relative to them.
template <u32 M, int SIZE> FN void correct(Running<M>& r, f32 (&sum)[M][SIZE / 8][4], const f32 (&most)[M][2], f32 unit) {
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            f32 now = larger_of(r.most[i][half], most[i][half]), factor = exp2_fast((r.most[i][half] - finite_most(now)) * unit);
            r.most[i][half] = now;
            r.sum[i][half] *= factor;
#pragma unroll
            for (u32 j = 0; j < SIZE / 8; j++) {
                sum[i][j][half * 2] *= factor;
                sum[i][j][half * 2 + 1] *= factor;
            }
        }
}

// Turns products, or in a tile with an EDGE what hide made of them, into weights.
template <bool EDGE, u32 M, u32 N, int SIZE>
FN void soften(f32 (&s)[M][N / 8][4], Running<M>& r, f32 (&sum)[M][SIZE / 8][4], const Exponents& x) {
    f32 most[M][2];
    bool larger = false;
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            f32 m = larger_of(s[i][0][half * 2], s[i][0][half * 2 + 1]);
#pragma unroll
            for (u32 j = 1; j < N / 8; j++) m = larger_of(larger_of(m, s[i][j][half * 2]), s[i][j][half * 2 + 1]);
            m = row_max(m);
            most[i][half] = EDGE ? m : m * x.c;
            larger |= most[i][half] > r.most[i][half] + 8.0f;
        }
    if (__any_sync(~0u, larger)) correct<M, SIZE>(r, sum, most, x.unit);
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            f32 base = -finite_most(r.most[i][half]);
#pragma unroll
            for (u32 j = 0; j < N / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 2; e++) {
                    f32& v = s[i][j][half * 2 + e];
                    v = exp2_fast(EDGE ? (v + base) * x.unit : fma(v, x.c, base));
                    r.sum[i][half] += v;
                }
        }
}

// Dropout of weights.
template <u32 M, u32 N, class T> FN void drop(f32 (&s)[M][N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 j = 0; j < N / 8; j++) {
            u32 words[4];
            words_by_query(words, p, h, row + i * 16, column + j * 8);
#pragma unroll
            for (u32 e = 0; e < 4; e++) s[i][j][e] *= kept(p, words[e]);
        }
}

// One tile: its keys and values lie at sh.
template <bool EDGE, class P, class T>
FN void step(const Attention<f32>& p, const Head<T, f32>& h, const Exponents& x, const typename P::template Rows<T>& q, const T* sh, u32 row,
             u32 column, Running<P::M>& run, f32 (&sum)[P::M][P::SIZE / 8][4]) {
    f32 s[P::M][P::N / 8][4];
    dots<P::M, P::N, P::SIZE>(s, q, sh + lane_across<P::SIZE>());
    if (EDGE) hide<RESULT, P::M, P::N>(s, p, h, x.c, row, column);
    soften<EDGE, P::M, P::N, P::SIZE>(s, run, sum, x);
    if (p.drops) drop<P::M, P::N>(s, p, h, row, column);
    Weights<P::M, P::N> w;
    pack<T>(w, s);
    weigh<P::SIZE>(sum, w, sh + P::TILE + lane_along<P::SIZE>());
}

// Begins the copy of the tile from column c on.
template <class P, class T> FN void fetch(Lines<P::SIZE, T>& k, Lines<P::SIZE, T>& v, T* sh, u32 c, u32 keys) {
    if (c + P::N <= keys) {
        k.template copy<P::N, true>(sh);
        v.template copy<P::N, true>(sh + P::TILE);
    } else {
        k.template copy<P::N, false>(sh);
        v.template copy<P::N, false>(sh + P::TILE);
    }
}

template <class P, class T>
FN void attend(const Attention<f32>& p, const Operands<T, f32>& o, const Spot& at, Running<P::M>& run, f32 (&sum)[P::M][P::SIZE / 8][4], T* sh) {
    u32 key_head = at.head / p.group, from, to;
    columns_of<RESULT>(p, at.row0, P::ROWS, P::N, from, to);
    if (to == 0) return;
    Lines<P::SIZE, T> k(head_of(o.k, p.k, at.batch, key_head), p.k.row, 0, p.keys, p.depth);
    Lines<P::SIZE, T> v(head_of(o.v, p.v, at.batch, key_head), p.v.row, 0, p.keys, p.width);
    Lines<P::SIZE, T> rows(head_of(o.q, p.q, at.batch, at.head), p.q.row, at.row0, p.queries, p.depth);
    T *now = sh + P::STAGES, *next = now + P::STAGE, *rows_at = P::HELD ? next : sh;
    rows.template copy<P::ROWS, false>(rows_at);
    fetch<P>(k, v, now, 0, p.keys);
    gk_cp_async_commit();
    if (P::HELD) {
        gk_cp_async_wait<0>();
        __syncthreads();
    }
    typename P::template Rows<T> q(rows_at + warp_row<P::M>() * PITCH<P::SIZE> + lane_along<P::SIZE>());
    Head<T, f32> h = head_at(p, o, at.batch, at.head);
    Exponents x = exponents_of(p);
    // Of a factor that is not positive the largest product would not be the largest score.
    u32 first = at.row0 + warp_row<P::M>(), plain = x.c > 0 ? plain_keys<P::N>(p, first) : 0;
    u32 sees = first >= p.queries ? 0 : p.causal ? first + 16 * P::M : p.keys; // columns from here on are none of this warp's
    u32 row = first + threadIdx.x % 32 / 4, lane_column = threadIdx.x % 4 * 2;
#pragma unroll 1
    for (u32 c = 0; c < to; c += P::N) {
        gk_cp_async_wait<0>();
        __syncthreads(); // the tile is there for all, and nobody uses the one before
        if (c + P::N < to) fetch<P>(k, v, next, c + P::N, p.keys);
        gk_cp_async_commit();
        if (c < sees) {
            if (c < plain) step<false, P>(p, h, x, q, now, row, c + lane_column, run, sum);
            else step<true, P>(p, h, x, q, now, row, c + lane_column, run, sum);
        }
        T* used = now;
        now = next;
        next = used;
    }
}

template <class P, class T> FN void result(const Attention<f32>& p, const Operands<T, f32>& o, T* sh) {
    Spot at = spot_of<RESULT>(p, P::ROWS);
    f32 sum[P::M][P::SIZE / 8][4] = {}, factor[P::M][2];
    Running<P::M> run = {};
#pragma unroll
    for (u32 i = 0; i < P::M; i++) run.most[i][0] = run.most[i][1] = LOW<f32>;
    attend<P>(p, o, at, run, sum, sh);
    f32* lse = head_at(p, o, at.batch, at.head).lse;
#pragma unroll
    for (u32 i = 0; i < P::M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            f32 total = row_sum(run.sum[i][half]);
            u32 row = at.row0 + warp_row<P::M>() + i * 16 + half * 8 + threadIdx.x % 32 / 4;
            factor[i][half] = total == 0 ? 0.0f : 1 / total;
            if (threadIdx.x % 4 == 0 && row < p.queries) lse[row] = fma(run.most[i][half], p.mask_kind ? 1.0f : LN_2, log(total));
        }
    write<P::SIZE>(o.result, p.result, at, sum, factor, p.queries, p.width);
}

#define RESULTS(SIZE, T)                                                                                              \
    GK_KERNEL(BLOCK, 2) void attention_##SIZE##_##T(Attention<f32> p, Operands<T, f32> o) {                           \
        result<Plan<SIZE>>(p, o, behind_seed<T>(p));                                                                  \
    }

RESULTS(64, f16)
RESULTS(64, bf16)
RESULTS(96, f16)
RESULTS(96, bf16)
RESULTS(128, f16)
RESULTS(128, bf16)
