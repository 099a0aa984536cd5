// Attention for all float types, any strides and any sizes: sums in the type of computation, by fused multiply-add. Half types
// go to attention_forward.cu and attention_backward.cu where these can take them.
//
// A block of 256 threads has 64 rows and a window of 128 or 64 elements of the result. It goes through tiles of 64
// columns. A thread has 4 by 4 of the scores of a tile, and 4 by 4 of each 64 elements of the window; the 16 threads of a row of
// scores are neighbours, so that maxima and sums of rows are shuffles. Operands pass through shared memory 16 (or 8) elements
// deep, as in matmul.cu; weights pass through it once, turned.
#include "attention.h"

constexpr u32 TILE = 64, PITCH = TILE + 4, WEIGHT_PITCH = TILE + 1;
template <class C> constexpr u32 DEPTH = 64 / sizeof(C); // elements deep: 16 of float, 8 of double

// The panels of 64 elements in a window: what registers have room for.
template <int MODE, class C> constexpr u32 PANELS = sizeof(C) == 8 || MODE == KEYS ? 1 : 2;

// The sums of a thread.
template <class C, u32 P> struct Sums { C v[P][4][4]; };

// Rows first..first+63 of an operand, of which count exist, with elements up to size.
template <class T> struct Tile {
    const T* p;
    i64 row, step;
    u32 first, count, size;
};

// Places elements k0.. of the rows of a tile in shared memory, DEPTH deep: sh[element][row].
template <class T, class C> FN void place(C* sh, const Tile<T>& t, u32 k0) {
    bool deep = t.step == 1;
#pragma unroll
    for (u32 e = 0; e < TILE * DEPTH<C> / THREADS; e++) {
        u32 i = threadIdx.x + e * THREADS;
        u32 d = deep ? i % DEPTH<C> : i / TILE, r = deep ? i / DEPTH<C> : i % TILE;
        u32 row = t.first + r, k = k0 + d;
        sh[d * PITCH + r] = row < t.count && k < t.size ? (C)get(t.p[(i64)row * t.row + (i64)k * t.step]) : (C)0;
    }
}

// sum = a bᵀ, for the rows of two tiles. There are barriers also where these have no elements: what shared memory had before has been
// read then.
template <class T, class C> FN void dots(C (&sum)[4][4], const Tile<T>& a, const Tile<T>& b, C* as, C* bs) {
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (u32 e = 0; e < 4; e++)
#pragma unroll
        for (u32 f = 0; f < 4; f++) sum[e][f] = 0;
    for (u32 k0 = 0; k0 == 0 || k0 < a.size; k0 += DEPTH<C>) {
        __syncthreads();
        place(as, a, k0);
        place(bs, b, k0);
        __syncthreads();
#pragma unroll 4
        for (u32 d = 0; d < DEPTH<C>; d++)
#pragma unroll
            for (u32 e = 0; e < 4; e++)
#pragma unroll
                for (u32 f = 0; f < 4; f++) sum[e][f] = fma(as[d * PITCH + y * 4 + e], bs[d * PITCH + x * 4 + f], sum[e][f]);
    }
}

// sum += weights @ (the elements of a tile's rows in the window); ws is [column][row].
template <class T, class C, u32 P> FN void weigh(Sums<C, P>& sum, const C (&weight)[4][4], const Tile<T>& z, u32 window, C* as, C* bs, C* ws) {
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (u32 e = 0; e < 4; e++)
#pragma unroll
        for (u32 f = 0; f < 4; f++) ws[(x * 4 + f) * WEIGHT_PITCH + y * 4 + e] = weight[e][f];
    // A tile of z turned: its rows are the depth of the product.
    Tile<T> turned = {z.p, z.step, z.row, window * P * TILE, z.size, z.count}, next = turned;
    next.first += TILE;
    bool second = P > 1 && next.first < z.size;
    for (u32 c = 0; c < TILE; c += DEPTH<C>) {
        __syncthreads();
        place(as, turned, z.first + c);
        if (second) place(bs, next, z.first + c);
        __syncthreads();
#pragma unroll 4
        for (u32 d = 0; d < DEPTH<C>; d++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                C w = ws[(c + d) * WEIGHT_PITCH + y * 4 + e];
#pragma unroll
                for (u32 f = 0; f < 4; f++) sum.v[0][e][f] = fma(w, as[d * PITCH + x * 4 + f], sum.v[0][e][f]);
                if constexpr (P > 1) {
                    if (!second) continue;
#pragma unroll
                    for (u32 f = 0; f < 4; f++) sum.v[1][e][f] = fma(w, bs[d * PITCH + x * 4 + f], sum.v[1][e][f]);
                }
            }
    }
}

// Multiplies the 4 by 4 of this thread by what dropout makes of each probability: four neighbouring keys share a block of random
// words.
template <int MODE, class T, class C> FN void drop(C (&v)[4][4], const Attention<C>& p, const Head<T, C>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        Words w = of_queries(MODE) ? words_at(seed_of(p), p, h, row + e, column) : words_at(seed_of(p), p, h, column + e, row);
#pragma unroll
        for (u32 k = 0; k < 4; k++) (of_queries(MODE) ? v[e][k] : v[k][e]) *= kept(p, w.w[k]);
    }
}

// What the 16 threads of a row have together.
template <class C> FN C row_sum(C v) {
#pragma unroll
    for (int n = 8; n > 0; n /= 2) v += __shfl_xor_sync(~0u, v, n);
    return v;
}
template <class C> FN C row_max(C v) {
#pragma unroll
    for (int n = 8; n > 0; n /= 2) {
        C other = __shfl_xor_sync(~0u, v, n);
        v = other > v ? other : v;
    }
    return v;
}

// The maxima and sums of the rows of a thread so far.
template <class C> struct Running {
    C most[4], sum[4];
};

// Turns scores into probabilities relative to the maxima so far, and corrects what was summed before.
template <class C, u32 P> FN void soften(C (&s)[4][4], Running<C>& r, Sums<C, P>& sum) {
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        C most = r.most[e];
#pragma unroll
        for (u32 f = 0; f < 4; f++) most = s[e][f] > most ? s[e][f] : most;
        most = row_max(most);
        C safe = most == LOW<C> ? (C)0 : most, factor = exp(r.most[e] - safe);
        r.most[e] = most;
        r.sum[e] *= factor;
#pragma unroll
        for (u32 f = 0; f < 4; f++) {
            s[e][f] = exp(s[e][f] - safe);
            r.sum[e] += s[e][f];
#pragma unroll
            for (u32 n = 0; n < P; n++) sum.v[n][e][f] *= factor;
        }
    }
}

// Turns scores into weights, from what the forward pass left for each query.
template <int MODE, class T, class C>
FN void weights(C (&s)[4][4], const C (&dp)[4][4], const Attention<C>& p, const Head<T, C>& h, u32 row, u32 column) {
#pragma unroll
    for (u32 e = 0; e < 4; e++)
#pragma unroll
        for (u32 f = 0; f < 4; f++) {
            u32 t = of_queries(MODE) ? row + e : column + f, k = of_queries(MODE) ? column + f : row + e;
            bool there = t < p.queries && k < p.keys;
            C v = there ? probability(s[e][f], h.lse[t]) : (C)0;
            if (of_scores(MODE)) v = there ? v * (dp[e][f] - h.delta[t]) : (C)0;
            s[e][f] = v;
            if (MODE == QUERIES && h.dmask && there) h.dmask[(i64)t * p.dmask.row + (i64)k * p.dmask.step] = put<T>(v);
        }
}

// One pair of a head of queries and a head of keys, for the rows of the block.
template <int MODE, class T, class C, u32 P>
FN void pass(const Attention<C>& p, const Operands<T, C>& o, const Spot& at, u32 head, Running<C>& r, Sums<C, P>& sum, C* as, C* bs, C* ws) {
    u32 key_head = head / p.group, x = threadIdx.x % 16, y = threadIdx.x / 16, from, to;
    Tile<T> q = {head_of(o.q, p.q, at.batch, head), p.q.row, p.q.step, 0, p.queries, p.depth};
    Tile<T> k = {head_of(o.k, p.k, at.batch, key_head), p.k.row, p.k.step, 0, p.keys, p.depth};
    Tile<T> v = {head_of(o.v, p.v, at.batch, key_head), p.v.row, p.v.step, 0, p.keys, p.width};
    Tile<T> g = q;
    if (MODE != RESULT) g = {head_of(o.grad, p.grad, at.batch, head), p.grad.row, p.grad.step, 0, p.queries, p.width};
    columns_of<MODE>(p, at.row0, TILE, TILE, from, to);
    for (u32 c = from; c < to; c += TILE) {
        q.first = g.first = of_queries(MODE) ? at.row0 : c;
        k.first = v.first = of_queries(MODE) ? c : at.row0;
        Head<T, C> h = head_at(p, o, at.batch, again(head)); // not kept between tiles: registers are few
        if (at.window > 0) h.dmask = nullptr;
        u32 row = at.row0 + y * 4, column = c + x * 4;
        C s[4][4], dp[4][4];
        if constexpr (of_scores(MODE)) {
            if (of_queries(MODE)) dots(dp, g, v, as, bs);
            else dots(dp, v, g, as, bs);
            if (p.drops) drop<MODE>(dp, p, h, row, column);
        }
        if (of_queries(MODE)) dots(s, q, k, as, bs);
        else dots(s, k, q, as, bs);
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                s[i][j] = of_queries(MODE) ? score(p, h, row + i, column + j, s[i][j]) : score(p, h, column + j, row + i, s[i][j]);
        if constexpr (MODE == RESULT) soften(s, r, sum);
        else weights<MODE>(s, dp, p, h, row, column);
        if (!of_scores(MODE) && p.drops) drop<MODE>(s, p, h, row, column);
        weigh(sum, s, MODE == RESULT ? v : MODE == QUERIES ? k : MODE == VALUES ? g : q, at.window, as, bs, ws);
    }
}

template <int MODE, class T, class C> FN void attend(const Attention<C>& p, const Operands<T, C>& o, C* as, C* bs, C* ws) {
    Spot at = spot_of<MODE>(p, TILE);
    u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
    constexpr u32 P = PANELS<MODE, C>;
    Sums<C, P> sum = {};
    Running<C> r = {{LOW<C>, LOW<C>, LOW<C>, LOW<C>}, {}};
    if (of_queries(MODE)) pass<MODE>(p, o, at, at.head, r, sum, as, bs, ws);
    else
        for (u32 i = 0; i < p.group; i++) pass<MODE>(p, o, at, at.head * p.group + i, r, sum, as, bs, ws);
    u32 rows = of_queries(MODE) ? p.queries : p.keys, size = of_scores(MODE) ? p.depth : p.width;
    T* to = o.result + at.batch * p.result.batch + at.head * p.result.head;
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        u32 row = at.row0 + y * 4 + e;
        C factor = of_scores(MODE) ? p.scale : (C)1;
        if constexpr (MODE == RESULT) {
            C total = row_sum(r.sum[e]);
            factor = total == 0 ? (C)0 : 1 / total;
            if (x == 0 && at.window == 0 && row < rows) head_at(p, o, at.batch, at.head).lse[row] = r.most[e] + log(total);
        }
#pragma unroll
        for (u32 f = 0; f < 4 * P; f++) {
            u32 column = (at.window * P + f / 4) * TILE + x * 4 + f % 4;
            if (row < rows && column < size) to[(i64)row * p.result.row + (i64)column * p.result.step] = put<T>(sum.v[f / 4][e][f % 4] * factor);
        }
    }
}

// delta: the sum of g times the result for each query. A warp has a row.
template <class T, class C> FN void delta(const Attention<C>& p, const T* grad, const T* out, C* dst) {
    u64 row = (u64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, rows = (u64)p.batches * p.heads * p.queries;
    if (row >= rows) return;
    u32 t = (u32)(row % p.queries), head = (u32)(row / p.queries % p.heads), batch = (u32)(row / p.queries / p.heads);
    const T* g = head_of(grad, p.grad, batch, head) + (i64)t * p.grad.row;
    const T* r = head_of(out, p.out, batch, head) + (i64)t * p.out.row;
    C sum = 0;
    for (u32 e = threadIdx.x % 32; e < p.width; e += 32) sum = fma((C)get(g[(i64)e * p.grad.step]), (C)get(r[(i64)e * p.out.step]), sum);
#pragma unroll
    for (int n = 16; n > 0; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
    if (threadIdx.x % 32 == 0) dst[row] = sum;
}

#define ATTEND(NAME, MODE, T, C)                                                                                      \
    KERNEL NAME##_##T(Attention<C> p, Operands<T, C> o) {                                                             \
        GK_SHARED_ARR(C, as, [DEPTH<C> * PITCH]);                                                                     \
        GK_SHARED_ARR(C, bs, [DEPTH<C> * PITCH]);                                                                     \
        GK_SHARED_ARR(C, ws, [TILE * WEIGHT_PITCH]);                                                                  \
        attend<MODE, T, C>(p, o, as, bs, ws);                                                                         \
    }

#define ATTENTION(T, C)                                                                                               \
    ATTEND(attention, RESULT, T, C)                                                                                   \
    ATTEND(attention_queries, QUERIES, T, C)                                                                          \
    ATTEND(attention_values, VALUES, T, C)                                                                            \
    ATTEND(attention_keys, KEYS, T, C)                                                                                \
    KERNEL attention_delta_##T(Attention<C> p, const T* grad, const T* out, C* dst) { delta(p, grad, out, dst); }

ATTENTION(f32, f32)
ATTENTION(f64, f64)
ATTENTION(f16, f32)
ATTENTION(bf16, f32)
