// The gradients of attention on tensor cores; attention_tile.h says for which operands.
//
// One kernel gives the gradient of queries: its rows are queries, and it goes through the keys, with three products for each tile:
// scores, g @ vᵀ and ds @ k. One gives those of keys and of values: its rows are keys, it goes through the queries of each head that
// uses them, and makes four products: the same two, turned, pᵀ @ g and dsᵀ @ q. So weights are made twice, and each sum has one order:
// nothing is atomic. A third kernel, before them, prepares for each query what both read.
//
// Tiles come as they do in attention_forward.cu: shared memory has two stages, and a step has one barrier. Probabilities are
// 2^(s*c - lse*log2(e)), and tiles without an edge or a mask run without a comparison. Where columns are queries, those beyond the last are
// 0 in all operands: their probability is 1, and what it is multiplied by 0.
#include "attention_scores.h"

// What is read of queries lies in two arrays: less, -lse in the unit of exponents, and behind it delta.
FN u64 rows_of(const Attention<f32>& p) { return (u64)p.batches * p.heads * p.queries; }

constexpr u32 SHARES = 8; // lanes that have a query's row

// The sum of the products of 8 elements of which so many exist.
template <class T> FN f32 dot8(const T* g, const T* r, u32 there) {
    f32 sum = 0;
    if (there >= 8) {
        vec<T, 8> a = load<T, 8>(g), b = load<T, 8>(r);
#pragma unroll
        for (int e = 0; e < 8; e++) sum = fma((f32)get(a[e]), (f32)get(b[e]), sum);
        return sum;
    }
    for (u32 e = 0; e < there; e++) sum = fma((f32)get(g[e]), (f32)get(r[e]), sum);
    return sum;
}

template <class T> FN void prepare(const Attention<f32>& p, const T* grad, const T* out, const f32* lse, f32* dst) {
    u64 rows = rows_of(p), row = (u64)blockIdx.x * (THREADS / SHARES) + threadIdx.x / SHARES;
    f32 sum = 0;
    if (row < rows) {
        u32 t = (u32)(row % p.queries), head = (u32)(row / p.queries % p.heads), batch = (u32)(row / p.queries / p.heads);
        const T* g = head_of(grad, p.grad, batch, head) + (i64)t * p.grad.row;
        const T* r = head_of(out, p.out, batch, head) + (i64)t * p.out.row;
        for (u32 e = threadIdx.x % SHARES * 8; e < p.width; e += SHARES * 8) sum += dot8(g + e, r + e, p.width - e);
    }
#pragma unroll
    for (int n = SHARES / 2; n > 0; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
    if (threadIdx.x % SHARES || row >= rows) return;
    f32 l = lse[row], unit = p.mask_kind ? 1.0f : LOG2_E;
    dst[row] = l == LOW<f32> ? LOW<f32> : -l * unit; // of a row that sees nothing all weights are 0
    dst[rows + row] = sum;
}

// How blocks of rows of queries cut a call.
template <int SIZE_> struct OfQueries {
    static constexpr int SIZE = SIZE_;
    static constexpr u32 M = SIZE == 128 ? 1 : 2, N = 32, ROWS = 16 * M * WARPS;
    static constexpr u32 TILE = N * PITCH<SIZE>, STAGE = 2 * TILE, STAGES = 2 * ROWS * PITCH<SIZE>; // where the stages begin
    static constexpr bool HELD = SIZE != 96; // the rows of q in registers; those of g stay in shared memory
    template <class T> using Rows = typename Either<HELD, Held<SIZE, M, T>, Shared<SIZE, M, T>>::type;
};

// How blocks of rows of keys do: the rows of k and v stay in shared memory, since sums of two results take the registers.
template <int SIZE_> struct OfKeys {
    static constexpr int SIZE = SIZE_;
    static constexpr u32 M = SIZE == 64 ? 2 : 1, N = 32, ROWS = 16 * M * WARPS;
    static constexpr u32 TILE = N * PITCH<SIZE>, OF = 2 * TILE, STAGE = OF + N * 4, STAGES = 2 * ROWS * PITCH<SIZE>; // OF: less and delta of each column
};

// Dropout of the gradients of probabilities.
template <u32 M, u32 N, class T> FN void drop(f32 (&dp)[M][N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 j = 0; j < N / 8; j++) {
            u32 words[4];
            words_by_query(words, p, h, row + i * 16, column + j * 8);
#pragma unroll
            for (u32 e = 0; e < 4; e++) dp[i][j][e] *= kept(p, words[e]);
        }
}

// Writes the gradients of scores that exist: those of a mask.
template <u32 M, u32 N, class T> FN void write_mask(const f32 (&s)[M][N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 j = 0; j < N / 8; j++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                u32 t = row + i * 16 + e / 2 * 8, k = column + j * 8 + e % 2;
                if (t < p.queries && k < p.keys) h.dmask[(i64)t * p.dmask.row + (i64)k * p.dmask.step] = put<T>(s[i][j][e]);
            }
}

// One tile of keys for rows of queries: its keys and values lie at sh.
template <bool EDGE, class P, class T, class R, class G>
FN void step(const Attention<f32>& p, const Head<T, f32>& h, const Exponents& x, const R& q, const G& g, const f32 (&less)[P::M][2], const f32 (&delta)[P::M][2], const T* sh,
             u32 row, u32 column, f32 (&sum)[P::M][P::SIZE / 8][4]) {
    f32 s[P::M][P::N / 8][4], dp[P::M][P::N / 8][4];
    dots<P::M, P::N, P::SIZE>(s, q, sh + lane_across<P::SIZE>());
    if (EDGE) hide<QUERIES, P::M, P::N>(s, p, h, x.c, row, column);
    dots<P::M, P::N, P::SIZE>(dp, g, sh + P::TILE + lane_across<P::SIZE>());
    if (p.drops) drop<P::M, P::N>(dp, p, h, row, column);
#pragma unroll
    for (u32 i = 0; i < P::M; i++)
#pragma unroll
        for (u32 j = 0; j < P::N / 8; j++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                f32 v = s[i][j][e], l = less[i][e / 2], weight = exp2_fast(EDGE ? (v + l) * x.unit : fma(v, x.c, l));
                s[i][j][e] = weight * (dp[i][j][e] - delta[i][e / 2]);
            }
    if (EDGE && h.dmask) write_mask<P::M, P::N>(s, p, h, row, column);
    Weights<P::M, P::N> w;
    pack<T>(w, s);
    weigh<P::SIZE>(sum, w, sh + lane_along<P::SIZE>());
}

// Begins the copy of the next tile of two operands, of which left rows exist.
template <class P, class T> FN void fetch(Lines<P::SIZE, T>& one, Lines<P::SIZE, T>& two, T* sh, u32 left) {
    if (P::N <= left) {
        one.template copy<P::N, true>(sh);
        two.template copy<P::N, true>(sh + P::TILE);
    } else {
        one.template copy<P::N, false>(sh);
        two.template copy<P::N, false>(sh + P::TILE);
    }
}

// Copies the rows of the block, of two operands, to shared memory; the caller waits for them.
template <class P, class T> FN void fetch_rows(Lines<P::SIZE, T> one, Lines<P::SIZE, T> two, T* sh) {
    one.template copy<P::ROWS, false>(sh);
    two.template copy<P::ROWS, false>(sh + P::ROWS * PITCH<P::SIZE>);
    gk_cp_async_commit();
}

template <class P, class T>
FN void queries(const Attention<f32>& p, const Operands<T, f32>& o, const Spot& at, T* sh, f32 (&sum)[P::M][P::SIZE / 8][4]) {
    constexpr int SIZE = P::SIZE;
    u32 key_head = at.head / p.group, from, to;
    columns_of<QUERIES>(p, at.row0, P::ROWS, P::N, from, to);
    if (to == 0) return;
    fetch_rows<P>(Lines<SIZE, T>(head_of(o.q, p.q, at.batch, at.head), p.q.row, at.row0, p.queries, p.depth),
                  Lines<SIZE, T>(head_of(o.grad, p.grad, at.batch, at.head), p.grad.row, at.row0, p.queries, p.width), sh);
    if (P::HELD) { // else the first tile's wait and barrier will do
        gk_cp_async_wait<0>();
        __syncthreads();
    }
    u32 mine = warp_row<P::M>() * PITCH<SIZE> + lane_along<SIZE>();
    typename P::template Rows<T> q(sh + mine);
    Shared<SIZE, P::M, T> g(sh + P::ROWS * PITCH<SIZE> + mine);
    Lines<SIZE, T> k(head_of(o.k, p.k, at.batch, key_head), p.k.row, 0, p.keys, p.depth);
    Lines<SIZE, T> v(head_of(o.v, p.v, at.batch, key_head), p.v.row, 0, p.keys, p.width);
    T *now = sh + P::STAGES, *next = now + P::STAGE;
    fetch<P>(k, v, now, p.keys);
    gk_cp_async_commit();
    Head<T, f32> h = head_at(p, o, at.batch, at.head);
    Exponents x = exponents_of(p);
    u32 first = at.row0 + warp_row<P::M>(), plain = plain_keys<P::N>(p, first);
    u32 sees = first >= p.queries ? 0 : p.causal ? first + 16 * P::M : p.keys; // columns from here on are none of this warp's
    u32 row = first + threadIdx.x % 32 / 4, lane_column = threadIdx.x % 4 * 2;
    f32 less[P::M][2], delta[P::M][2];
#pragma unroll
    for (u32 i = 0; i < P::M; i++)
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 t = row + i * 16 + half * 8;
            less[i][half] = t < p.queries ? h.delta[t] : 0;
            delta[i][half] = t < p.queries ? (h.delta + rows_of(p))[t] : 0;
        }
#pragma unroll 1
    for (u32 c = 0; c < to; c += P::N) {
        gk_cp_async_wait<0>();
        __syncthreads(); // the tile is there for all, and nobody uses the one before
        if (c + P::N < to) fetch<P>(k, v, next, p.keys - (c + P::N));
        gk_cp_async_commit();
        if (c < sees) {
            if (c < plain) step<false, P>(p, h, x, q, g, less, delta, now, row, c + lane_column, sum);
            else step<true, P>(p, h, x, q, g, less, delta, now, row, c + lane_column, sum);
        }
        T* used = now;
        now = next;
        next = used;
    }
}

// Dropout of probabilities: those that are dropped become negative, so that their gradients know.
template <u32 M, u32 N, class T> FN void mark(f32 (&s)[M][N / 8][4], const Attention<f32>& p, const Head<T, f32>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 i = 0; i < M; i++)
#pragma unroll
        for (u32 j = 0; j < N / 8; j++) {
            u32 words[4];
            words_by_key(words, p, h, row + i * 16, column + j * 8);
#pragma unroll
            for (u32 e = 0; e < 4; e++) s[i][j][e] = (words[e] >> 8) < p.limit ? s[i][j][e] : -s[i][j][e];
        }
}

// Gradients of scores from probabilities, of which DROPS says that some are marked.
template <bool DROPS, u32 M, u32 N> FN void score_gradients(f32 (&s)[M][N / 8][4], const f32 (&dp)[M][N / 8][4], const f32* delta, f32 factor) {
#pragma unroll
    for (u32 j = 0; j < N / 8; j++) {
        vec<f32, 2> u = load<f32, 2>(delta + j * 8);
#pragma unroll
        for (u32 i = 0; i < M; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                f32& v = s[i][j][e];
                if (DROPS) v = abs(v) * ((v < 0 ? 0.0f : dp[i][j][e] * factor) - u[e % 2]);
                else v *= dp[i][j][e] - u[e % 2];
            }
    }
}

// One tile of queries for rows of keys: its queries and their gradients lie at sh.
template <bool EDGE, class P, class T>
FN void step(const Attention<f32>& p, const Head<T, f32>& h, const Exponents& x, const T* rows, const T* sh, u32 row, u32 column,
             f32 (&dk)[P::M][P::SIZE / 8][4], f32 (&dv)[P::M][P::SIZE / 8][4]) {
    constexpr int SIZE = P::SIZE;
    f32 s[P::M][P::N / 8][4], dp[P::M][P::N / 8][4];
    const f32* less = (const f32*)(sh + P::OF) + threadIdx.x % 4 * 2; // of this lane's first two columns
    dots<P::M, P::N, SIZE>(s, Shared<SIZE, P::M, T>(rows), sh + lane_across<SIZE>());
    if (EDGE) hide<KEYS, P::M, P::N>(s, p, h, x.c, row, column);
#pragma unroll
    for (u32 j = 0; j < P::N / 8; j++) {
        vec<f32, 2> u = load<f32, 2>(less + j * 8);
#pragma unroll
        for (u32 i = 0; i < P::M; i++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                f32 v = s[i][j][e];
                s[i][j][e] = exp2_fast(EDGE ? (v + u[e % 2]) * x.unit : fma(v, x.c, u[e % 2]));
            }
    }
    Weights<P::M, P::N> w;
    if (p.drops) {
        mark<P::M, P::N>(s, p, h, row, column);
        f32 left[P::M][P::N / 8][4];
#pragma unroll
        for (u32 i = 0; i < P::M; i++)
#pragma unroll
            for (u32 j = 0; j < P::N / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 4; e++) left[i][j][e] = larger_of(s[i][j][e], 0.0f) * p.factor;
        pack<T>(w, left);
    } else {
        pack<T>(w, s);
    }
    weigh<SIZE>(dv, w, sh + P::TILE + lane_along<SIZE>());
    dots<P::M, P::N, SIZE>(dp, Shared<SIZE, P::M, T>(rows + P::ROWS * PITCH<SIZE>), sh + P::TILE + lane_across<SIZE>());
    if (p.drops) score_gradients<true, P::M, P::N>(s, dp, less + P::N, p.factor);
    else score_gradients<false, P::M, P::N>(s, dp, less + P::N, p.factor);
    pack<T>(w, s);
    weigh<SIZE>(dk, w, sh + lane_along<SIZE>());
}

// Begins the copy of less and delta of N queries from first on, of which this thread has one; at is that of the first query of all.
template <class P, class T> FN void fetch_queries(T* sh, const f32* at, const f32* any, u32 first, u32 count) {
    if (threadIdx.x >= 2 * P::N) return;
    bool there = first + threadIdx.x % P::N < count;
    gk_cp_async<4>((f32*)(sh + P::OF) + threadIdx.x, there ? at + first : any, there ? 4 : 0);
}

// The queries of one head.
template <class P, class T>
FN void keys(const Attention<f32>& p, const Operands<T, f32>& o, const Spot& at, u32 head, T* sh, f32 (&dk)[P::M][P::SIZE / 8][4],
             f32 (&dv)[P::M][P::SIZE / 8][4]) {
    constexpr int SIZE = P::SIZE;
    u32 from, to;
    columns_of<KEYS>(p, at.row0, P::ROWS, P::N, from, to);
    if (from >= to) return;
    Head<T, f32> h = head_at(p, o, at.batch, head);
    const f32* of = h.delta + threadIdx.x % P::N + (threadIdx.x < P::N ? 0 : rows_of(p));
    Lines<SIZE, T> q(head_of(o.q, p.q, at.batch, head), p.q.row, from, p.queries, p.depth);
    Lines<SIZE, T> g(head_of(o.grad, p.grad, at.batch, head), p.grad.row, from, p.queries, p.width);
    T *now = sh + P::STAGES, *next = now + P::STAGE;
    fetch<P>(q, g, now, p.queries - from);
    fetch_queries<P>(now, of, o.delta, from, p.queries);
    gk_cp_async_commit();
    Exponents x = exponents_of(p);
    const T* rows = sh + warp_row<P::M>() * PITCH<SIZE> + lane_along<SIZE>();
#pragma unroll 1
    for (u32 c = from; c < to; c += P::N) {
        gk_cp_async_wait<0>();
        __syncthreads(); // the tile is there for all, and nobody uses the one before
        if (c + P::N < to) {
            fetch<P>(q, g, next, p.queries - (c + P::N));
            fetch_queries<P>(next, of, o.delta, c + P::N, p.queries);
        }
        gk_cp_async_commit();
        u32 first = again(at.row0) + warp_row<P::M>(); // not kept between tiles: registers are few
        bool sees = first < p.keys && (!p.causal || first < c + P::N); // else no query of the tile sees a key of this warp
        if (sees) {
            u32 row = first + threadIdx.x % 32 / 4, column = c + threadIdx.x % 4 * 2;
            if (!p.mask_kind && (!p.causal || first + 16 * P::M <= c + 1)) step<false, P>(p, h, x, rows, now, row, column, dk, dv);
            else step<true, P>(p, h, x, rows, now, row, column, dk, dv);
        }
        T* used = now;
        now = next;
        next = used;
    }
    __syncthreads(); // the next head's tiles come where the last one's are
}

template <u32 M> FN void all(f32 (&factor)[M][2], f32 v) {
#pragma unroll
    for (u32 i = 0; i < M; i++) factor[i][0] = factor[i][1] = v;
}

template <class P, class T> FN void gradient_of_queries(const Attention<f32>& p, const Operands<T, f32>& o, T* sh) {
    Spot at = spot_of<QUERIES>(p, P::ROWS);
    f32 sum[P::M][P::SIZE / 8][4] = {}, factor[P::M][2];
    queries<P>(p, o, at, sh, sum);
    all(factor, p.scale);
    write<P::SIZE>(o.result, p.result, at, sum, factor, p.queries, p.depth);
}

template <class P, class T> FN void gradients_of_keys(const Attention<f32>& p, const Operands<T, f32>& o, T* sh) {
    Spot at = spot_of<KEYS>(p, P::ROWS);
    f32 dk[P::M][P::SIZE / 8][4] = {}, dv[P::M][P::SIZE / 8][4] = {}, factor[P::M][2];
    fetch_rows<P>(Lines<P::SIZE, T>(head_of(o.k, p.k, at.batch, at.head), p.k.row, at.row0, p.keys, p.depth),
                  Lines<P::SIZE, T>(head_of(o.v, p.v, at.batch, at.head), p.v.row, at.row0, p.keys, p.width), sh);
#pragma unroll 1
    for (u32 i = 0; i < p.group; i++) keys<P>(p, o, at, at.head * p.group + i, sh, dk, dv);
    all(factor, p.scale);
    write<P::SIZE>(o.result, p.result, at, dk, factor, p.keys, p.depth);
    all(factor, 1.0f);
    write<P::SIZE>(o.second, p.second, at, dv, factor, p.keys, p.width);
}

#define GRADIENTS(SIZE, T)                                                                                            \
    GK_KERNEL(BLOCK, 2) void attention_queries_##SIZE##_##T(Attention<f32> p, Operands<T, f32> o) {                   \
        gradient_of_queries<OfQueries<SIZE>>(p, o, behind_seed<T>(p));                                                \
    }                                                                                                                 \
    GK_KERNEL(BLOCK, 2) void attention_keys_##SIZE##_##T(Attention<f32> p, Operands<T, f32> o) {                      \
        gradients_of_keys<OfKeys<SIZE>>(p, o, behind_seed<T>(p));                                                     \
    }

#define PREPARE(T)                                                                                                    \
    KERNEL attention_rows_##T(Attention<f32> p, const T* grad, const T* out, const f32* lse, f32* dst) { prepare(p, grad, out, lse, dst); }

GRADIENTS(64, f16)
GRADIENTS(64, bf16)
GRADIENTS(96, f16)
GRADIENTS(96, bf16)
GRADIENTS(128, f16)
GRADIENTS(128, bf16)
PREPARE(f16)
PREPARE(bf16)
