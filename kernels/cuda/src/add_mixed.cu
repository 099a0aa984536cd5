// The sum of a tensor in half precision and one in float32, in float32: what a layer adds to the residual stream.
#include "math.h"

// Eight elements at a time where all lie at multiples of 16 bytes; else one by one. dst may be b.
template <class T> FN void add_mixed(f32* dst, const T* a, const f32* b, u64 n) {
    constexpr u32 V = 8;
    u64 first = (u64)blockIdx.x * THREADS + threadIdx.x, step = (u64)gridDim.x * THREADS, from = 0;
    if (((u64)dst | (u64)a | (u64)b) % 16 == 0) {
        from = n / V * V;
        for (u64 k = first * V; k < from; k += step * V) {
            vec<T, V> x = load<T, V>(a + k);
            vec<f32, 4> y = load<f32, 4>(b + k), z = load<f32, 4>(b + k + 4);
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                y[e] += get(x[e]);
                z[e] += get(x[e + 4]);
            }
            store<f32, 4>(dst + k, y);
            store<f32, 4>(dst + k + 4, z);
        }
    }
    for (u64 k = from + first; k < n; k += step) dst[k] = b[k] + get(a[k]);
}

KERNEL add_mixed_f16(f32* dst, const f16* a, const f32* b, u64 n) { add_mixed<f16>(dst, a, b, n); }
KERNEL add_mixed_bf16(f32* dst, const bf16* a, const f32* b, u64 n) { add_mixed<bf16>(dst, a, b, n); }
