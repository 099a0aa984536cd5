// What the kernels of attention share: sizes and strides, scores and what rows see of them, and dropout. The Go kernels in
// kernels/cpu (attentionforward.go, attentionbackward.go) are the specification.
//
// There are four results, and all are sums of weights times rows of another operand, where the weights are made from tiles of
// scores that no memory ever holds:
//
//	RESULT    rows are queries   weights p*keep                   of rows of v
//	QUERIES   rows are queries   weights ds = p*(keep*dp - delta) of rows of k
//	VALUES    rows are keys      weights p*keep                   of rows of g
//	KEYS      rows are keys      weights ds                       of rows of q
//
// p is the probability, exp(score - lse), g the gradient of the result, dp = g @ vᵀ, delta the sum of g times the result in a
// row. A block owns some rows and goes through the others, the columns. So every sum has one order, and nothing is atomic.
#pragma once

#include "math.h"

enum Mode { RESULT, QUERIES, VALUES, KEYS };
constexpr bool of_queries(int mode) { return mode == RESULT || mode == QUERIES; }
constexpr bool of_scores(int mode) { return mode == QUERIES || mode == KEYS; }

enum : u32 { NO_MASK, TRUTH_MASK, ADDED_MASK };
enum : u32 { SEEDED = 2 };

// The strides of an operand.
struct Strip { i64 batch, head, row, step; };

// group heads of queries share one of keys. A window is a range of elements of the rows of the result, and tiles the
// number of tiles of rows of a head.
template <class C> struct Attention {
    u32 batches, heads, group, queries, keys, depth, width;
    u32 causal, mask_kind, drops, limit, row_blocks, tiles, windows; // drops: SEEDED if key is an address
    Strip q, k, v, out, grad, result, second, mask, dmask;
    u64 key, first; // of Philox; at the address there are the key, and what is added to first
    C scale, factor;
};

// The operands of a call. Those that a mode does not use are not looked at.
template <class T, class C> struct Operands {
    const T *q, *k, *v, *grad;
    const void* mask;
    C* lse; // RESULT writes it
    const C* delta;
    T *result, *second, *dmask; // second: the gradient of values, of a kernel that gives that of keys too
};

// Where a block is: its batch, its head of the rows' operand, the first of its rows and its window.
struct Spot { u32 batch, head, row0, window; };

template <int MODE, class C> FN Spot spot_of(const Attention<C>& p, u32 rows) {
    u32 at = blockIdx.x, heads = of_queries(MODE) ? p.heads : p.heads / p.group;
    Spot s;
    s.window = at % p.windows;
    at /= p.windows;
    s.row0 = at % p.tiles * rows;
    at /= p.tiles;
    s.head = at % heads;
    s.batch = at / heads;
    return s;
}

template <class T> FN const T* head_of(const T* p, const Strip& s, u32 batch, u32 head) { return p + batch * s.batch + head * s.head; }

// A head of q with its head of k, and what is read at its scores.
template <class T, class C> struct Head {
    const void* mask;
    C* lse;
    const C* delta;
    T* dmask;
    u64 row; // of its first query, among all
};

template <class T, class C> FN Head<T, C> head_at(const Attention<C>& p, const Operands<T, C>& o, u32 batch, u32 head) {
    Head<T, C> h = {};
    h.row = ((u64)batch * p.heads + head) * p.queries;
    h.lse = o.lse + h.row;
    h.delta = o.delta + h.row;
    i64 at = batch * p.mask.batch + head * p.mask.head;
    if (p.mask_kind == TRUTH_MASK) h.mask = (const u8*)o.mask + at;
    if (p.mask_kind == ADDED_MASK) h.mask = (const T*)o.mask + at;
    if (o.dmask) h.dmask = o.dmask + batch * p.dmask.batch + head * p.dmask.head;
    return h;
}

template <class C> constexpr C LOW = (C)-__builtin_inff();
constexpr f32 LOG2_E = 1.44269504f, LN_2 = 0.693147182f;

// What a mask makes of the score of query t and key s.
template <class T, class C> FN C masked(const Attention<C>& p, const Head<T, C>& h, u32 t, u32 s, C v) {
    i64 at = (i64)t * p.mask.row + (i64)s * p.mask.step;
    if (p.mask_kind == TRUTH_MASK && !((const u8*)h.mask)[at]) v = LOW<C>;
    if (p.mask_kind == ADDED_MASK) v += (C)get(((const T*)h.mask)[at]);
    return v;
}

// The score of query t and key s, whose product is v: -infinity where the row does not see the key.
template <class T, class C> FN C score(const Attention<C>& p, const Head<T, C>& h, u32 t, u32 s, C v) {
    if (t >= p.queries || s >= p.keys || (p.causal && s > t)) return LOW<C>;
    return masked(p, h, t, s, v * p.scale);
}

// exp(score - lse), and 0 for what no row has: rows that see nothing have an lse of -infinity.
template <class C> FN C probability(C score, C lse) { return score == LOW<C> || lse == LOW<C> ? (C)0 : exp(score - lse); }

struct Words { u32 w[4]; };

// The upper half of a product. Of a product of 64 bits the compiler would take both halves apart, with more instructions.
FN u32 high_half(u32 a, u32 b) {
#if defined(__CUDA_ARCH__)
    return __nvvm_mulhi_ui(a, b);
#else
    return mul_high(a, b);
#endif
}

// Philox4x32-10 of Salmon, Moraes, Dror and Shaw (SC 2011), with the third word of the counter 0, as in random.cu.
FN Words philox(u64 key, u64 n) {
    u32 c0 = (u32)n, c1 = (u32)(n >> 32), c2 = 0, c3 = 0, k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
    for (int i = 0; i < 10; i++) {
        u32 p0 = high_half(0xD2511F53, c0), p1 = high_half(0xCD9E8D57, c2);
        u32 low0 = 0xD2511F53 * c0, low1 = 0xCD9E8D57 * c2;
        c0 = p1 ^ c1 ^ k0;
        c1 = low1;
        c2 = p0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return Words{{c0, c1, c2, c3}};
}

// What random words are made with.
struct Seed { u64 key, first; };

template <class C> FN Seed seed_of(const Attention<C>& p) {
    Seed s = {p.key, p.first};
    if (p.drops == SEEDED) {
        const u64* at = (const u64*)p.key;
        s.key = at[0];
        s.first += at[1];
    }
    return s;
}

// The words of keys s/4*4 to s/4*4+3 for query t of a head.
template <class T, class C> FN Words words_at(const Seed& seed, const Attention<C>& p, const Head<T, C>& h, u32 t, u32 s) {
    return philox(seed.key, seed.first + (h.row + t) * p.row_blocks + s / 4);
}

// What dropout makes of a probability with this word.
template <class C> FN C kept(const Attention<C>& p, u32 word) { return (word >> 8) < p.limit ? p.factor : (C)0; }

// The same number, but the compiler does not know that: what is made from it in a loop is made anew each time, and needs no registers
// between.
FN u32 again(u32 v) {
    asm volatile("" : "+r"(v));
    return v;
}

// The range of columns that the rows row0..row0+rows-1 need, in whole tiles.
template <int MODE, class C> FN void columns_of(const Attention<C>& p, u32 row0, u32 rows, u32 tile, u32& from, u32& to) {
    from = 0;
    to = of_queries(MODE) ? p.keys : p.queries;
    if (!p.causal) return;
    if (of_queries(MODE)) to = to < row0 + rows ? to : row0 + rows;
    else from = row0 / tile * tile;
}
