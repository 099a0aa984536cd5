// Many tensors of float32 to one half type in one launch: the weights of a model, once for each step of mixed precision. A table of tensors goes
// into the kernel's parameters; each block finds the tensor and the piece of it that is its own.
#include "math.h"

constexpr u32 TENSORS = 128; // in a launch: with 4 KiB of parameters there is no room for many more
constexpr u32 PIECE = 4096;  // elements of a tensor for one block

// first[i] is the first block of tensor i; first[count] is the number of blocks.
struct Casts {
    u32 count, rest;
    u32 first[TENSORS + 2];
    u64 length[TENSORS], to[TENSORS], from[TENSORS];
};

FN u32 tensor_of(const Casts& t, u32 block) {
    u32 lo = 0, hi = t.count; // first[lo] <= block < first[hi]
    while (hi - lo > 1) {
        u32 mid = (lo + hi) / 2;
        if (t.first[mid] <= block) lo = mid;
        else hi = mid;
    }
    return lo;
}

// Eight elements at a time where both lie at multiples of 16 bytes, as whole tensors do; else one by one.
template <class D> FN void cast_many(const Casts& t) {
    constexpr u32 V = 8;
    u32 i = tensor_of(t, blockIdx.x);
    u64 n = t.length[i], lo = (u64)(blockIdx.x - t.first[i]) * PIECE, hi = n < lo + PIECE ? n : lo + PIECE;
    D* to = (D*)t.to[i];
    const f32* from = (const f32*)t.from[i];
    if ((t.to[i] | t.from[i]) % 16 == 0) {
        u64 whole = lo + (hi - lo) / V * V;
        for (u64 k = lo + threadIdx.x * V; k < whole; k += THREADS * V) {
            vec<f32, 4> a = load<f32, 4>(from + k), b = load<f32, 4>(from + k + 4);
            vec<D, V> r;
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                r.v[e] = put<D>(a.v[e]);
                r.v[e + 4] = put<D>(b.v[e]);
            }
            store<D, V>(to + k, r);
        }
        lo = whole;
    }
    for (u64 k = lo + threadIdx.x; k < hi; k += THREADS) to[k] = put<D>(from[k]);
}

KERNEL cast_many_f16(Casts t) { cast_many<f16>(t); }
KERNEL cast_many_bf16(Casts t) { cast_many<bf16>(t); }
