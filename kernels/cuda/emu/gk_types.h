// Types of both sides: 16-bit floats that only store and convert, and vectors for wide loads.
//
// f16 and bf16 have no arithmetic: kernels compute in float and round once, with (f16)x. That is what PyTorch's kernels do,
// and it keeps results equal on both sides. Conversion rounds to nearest, ties to even; a NaN becomes 0x7FFF, as cvt does it.
#pragma once

template <class To, class From>
GK_FN To gk_bits(From x) {
    return __builtin_bit_cast(To, x);
}

#if defined(__CUDA__)

GK_FN uint16_t gk_f16_bits(float x) { return gk_bits<uint16_t>((_Float16)x); }
GK_FN float gk_f16_value(uint16_t b) { return (float)gk_bits<_Float16>(b); }
GK_FN uint16_t gk_bf16_bits(float x) {
    uint16_t r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}

#else

// The magic of adding: the sum's last bit is that of a half, so the addition rounds where the conversion must.
GK_FN uint16_t gk_f16_bits(float x) {
    const uint32_t b = gk_bits<uint32_t>(x), sign = b >> 16 & 0x8000, mag = b & 0x7fffffff;
    if (mag > 0x7f800000) return 0x7fff;
    if (mag >= 0x477ff000) return sign | 0x7c00;  // 65520 and more
    if (mag < 0x38800000) {                       // subnormal: units of 2^-24
        const float units = gk_bits<float>(mag) + 0.5f;
        return sign | (gk_bits<uint32_t>(units) - 0x3f000000);
    }
    return sign | ((mag - 0x38000000 + 0xfff + (mag >> 13 & 1)) >> 13);
}
GK_FN float gk_f16_value(uint16_t b) {
    const uint32_t sign = (uint32_t)(b & 0x8000) << 16, mag = b & 0x7fff;
    if (mag >= 0x7c00) return gk_bits<float>(sign | 0x7f800000 | (mag & 0x3ff) << 13);
    if (mag < 0x400) {
        const float v = mag * 0x1p-24f;
        return gk_bits<float>(sign | gk_bits<uint32_t>(v));
    }
    return gk_bits<float>(sign | ((mag << 13) + 0x38000000));
}
GK_FN uint16_t gk_bf16_bits(float x) {
    const uint32_t b = gk_bits<uint32_t>(x);
    if ((b & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

#endif

GK_FN float gk_bf16_value(uint16_t b) { return gk_bits<float>((uint32_t)b << 16); }

namespace gk {

struct f16 {
    uint16_t bits;
    f16() = default;
    GK_METHOD explicit f16(float x) : bits(gk_f16_bits(x)) {}
    GK_METHOD explicit operator float() const { return gk_f16_value(bits); }
};

struct bf16 {
    uint16_t bits;
    bf16() = default;
    GK_METHOD explicit bf16(float x) : bits(gk_bf16_bits(x)) {}
    GK_METHOD explicit operator float() const { return gk_bf16_value(bits); }
};

// vec is N values that are loaded and stored at once: 16 bytes unless N says otherwise. Its address must be a multiple of
// its size.
template <class T, int N = 16 / sizeof(T)>
struct alignas(sizeof(T) * N) vec {
    T v[N];
    GK_METHOD T& operator[](int i) { return v[i]; }
    GK_METHOD const T& operator[](int i) const { return v[i]; }
};

}  // namespace gk

// gk_pack2 puts two halves into one register, the first in the low half, as mma wants them.
template <class T>
GK_FN uint32_t gk_pack2(T lo, T hi) {
    return (uint32_t)lo.bits | (uint32_t)hi.bits << 16;
}

// gk_round2 rounds two floats to halves in one register, the first in the low half.
#if defined(__CUDA__)
GK_FN uint32_t gk_round2(gk::f16, float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
GK_FN uint32_t gk_round2(gk::bf16, float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
#else
template <class T>
GK_FN uint32_t gk_round2(T, float lo, float hi) {
    return gk_pack2(T(lo), T(hi));
}
#endif
