// Warp operations and atomics for PTX: thin names over clang's builtins.
#pragma once

// __syncthreads is a builtin of clang; it must not be defined.
GK_FN int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
GK_FN int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
GK_FN int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
GK_FN void __syncwarp(unsigned mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
GK_FN void __threadfence() { __nvvm_membar_gl(); }
GK_FN void __threadfence_block() { __nvvm_membar_cta(); }

#define GK_TRAP() __builtin_trap()

GK_FN int __popc(unsigned x) { return __builtin_popcount(x); }
GK_FN int __ffs(int x) { return __builtin_ffs(x); }
GK_FN int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

// gk_words applies f to each 32-bit word of x: 2-byte types travel in one word, 8-byte types in two.
template <class T, class F>
GK_FN T gk_words(T x, F f) {
    if constexpr (sizeof(T) == 4) {
        return gk_bits<T>(f(gk_bits<int>(x)));
    } else if constexpr (sizeof(T) == 8) {
        const uint64_t b = gk_bits<uint64_t>(x);
        const uint32_t lo = (uint32_t)f((int)b), hi = (uint32_t)f((int)(b >> 32));
        return gk_bits<T>((uint64_t)hi << 32 | lo);
    } else {
        static_assert(sizeof(T) == 2, "shuffles are for types of 2, 4 and 8 bytes");
        return gk_bits<T>((uint16_t)f((int)gk_bits<uint16_t>(x)));
    }
}

// The last operand holds the segment mask and the clamp: see shfl.sync in the PTX manual.
template <class T>
GK_FN T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
    return gk_words(x, [=](int w) { return __nvvm_shfl_sync_idx_i32(mask, w, lane, (32 - width) << 8 | 0x1f); });
}
template <class T>
GK_FN T __shfl_up_sync(unsigned mask, T x, unsigned delta, int width = 32) {
    return gk_words(x, [=](int w) { return __nvvm_shfl_sync_up_i32(mask, w, (int)delta, (32 - width) << 8); });
}
template <class T>
GK_FN T __shfl_down_sync(unsigned mask, T x, unsigned delta, int width = 32) {
    return gk_words(x, [=](int w) { return __nvvm_shfl_sync_down_i32(mask, w, (int)delta, (32 - width) << 8 | 0x1f); });
}
template <class T>
GK_FN T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32) {
    return gk_words(x, [=](int w) { return __nvvm_shfl_sync_bfly_i32(mask, w, lanes, (32 - width) << 8 | 0x1f); });
}

GK_FN unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
GK_FN int __any_sync(unsigned mask, int p) { return __nvvm_vote_any_sync(mask, p); }
GK_FN int __all_sync(unsigned mask, int p) { return __nvvm_vote_all_sync(mask, p); }
GK_FN unsigned __match_any_sync(unsigned mask, unsigned x) { return __nvvm_match_any_sync_i32(mask, x); }

GK_FN int __reduce_add_sync(unsigned mask, int x) { return __nvvm_redux_sync_add(x, mask); }
GK_FN unsigned __reduce_add_sync(unsigned mask, unsigned x) { return (unsigned)__nvvm_redux_sync_add((int)x, mask); }
GK_FN int __reduce_min_sync(unsigned mask, int x) { return __nvvm_redux_sync_min(x, mask); }
GK_FN unsigned __reduce_min_sync(unsigned mask, unsigned x) { return __nvvm_redux_sync_umin(x, mask); }
GK_FN int __reduce_max_sync(unsigned mask, int x) { return __nvvm_redux_sync_max(x, mask); }
GK_FN unsigned __reduce_max_sync(unsigned mask, unsigned x) { return __nvvm_redux_sync_umax(x, mask); }
GK_FN unsigned __reduce_and_sync(unsigned mask, unsigned x) { return (unsigned)__nvvm_redux_sync_and((int)x, mask); }
GK_FN unsigned __reduce_or_sync(unsigned mask, unsigned x) { return (unsigned)__nvvm_redux_sync_or((int)x, mask); }
GK_FN unsigned __reduce_xor_sync(unsigned mask, unsigned x) { return (unsigned)__nvvm_redux_sync_xor((int)x, mask); }

// Atomics return the value before. They are relaxed.
typedef unsigned long long gk_ull;

GK_FN int atomicAdd(int* p, int v) { return __nvvm_atom_add_gen_i(p, v); }
GK_FN unsigned atomicAdd(unsigned* p, unsigned v) { return (unsigned)__nvvm_atom_add_gen_i((int*)p, (int)v); }
GK_FN gk_ull atomicAdd(gk_ull* p, gk_ull v) { return (gk_ull)__nvvm_atom_add_gen_ll((long long*)p, (long long)v); }
GK_FN long atomicAdd(long* p, long v) { return (long)__nvvm_atom_add_gen_ll((long long*)p, v); }
GK_FN float atomicAdd(float* p, float v) { return __nvvm_atom_add_gen_f(p, v); }
GK_FN double atomicAdd(double* p, double v) { return __nvvm_atom_add_gen_d(p, v); }

GK_FN int atomicMin(int* p, int v) { return __nvvm_atom_min_gen_i(p, v); }
GK_FN unsigned atomicMin(unsigned* p, unsigned v) { return __nvvm_atom_min_gen_ui(p, v); }
GK_FN long atomicMin(long* p, long v) { return (long)__nvvm_atom_min_gen_ll((long long*)p, v); }
GK_FN int atomicMax(int* p, int v) { return __nvvm_atom_max_gen_i(p, v); }
GK_FN unsigned atomicMax(unsigned* p, unsigned v) { return __nvvm_atom_max_gen_ui(p, v); }
GK_FN long atomicMax(long* p, long v) { return (long)__nvvm_atom_max_gen_ll((long long*)p, v); }

GK_FN unsigned atomicAnd(unsigned* p, unsigned v) { return (unsigned)__nvvm_atom_and_gen_i((int*)p, (int)v); }
GK_FN unsigned atomicOr(unsigned* p, unsigned v) { return (unsigned)__nvvm_atom_or_gen_i((int*)p, (int)v); }
GK_FN unsigned atomicXor(unsigned* p, unsigned v) { return (unsigned)__nvvm_atom_xor_gen_i((int*)p, (int)v); }
GK_FN int atomicExch(int* p, int v) { return __nvvm_atom_xchg_gen_i(p, v); }
GK_FN unsigned atomicExch(unsigned* p, unsigned v) { return (unsigned)__nvvm_atom_xchg_gen_i((int*)p, (int)v); }
GK_FN float atomicExch(float* p, float v) { return gk_bits<float>(__nvvm_atom_xchg_gen_i((int*)p, gk_bits<int>(v))); }
GK_FN int atomicCAS(int* p, int want, int v) { return __nvvm_atom_cas_gen_i(p, want, v); }
GK_FN unsigned atomicCAS(unsigned* p, unsigned want, unsigned v) {
    return (unsigned)__nvvm_atom_cas_gen_i((int*)p, (int)want, (int)v);
}
GK_FN gk_ull atomicCAS(gk_ull* p, gk_ull want, gk_ull v) {
    return (gk_ull)__nvvm_atom_cas_gen_ll((long long*)p, (long long)want, (long long)v);
}
GK_FN uint16_t atomicCAS(uint16_t* p, uint16_t want, uint16_t v) {
    uint16_t before;
    asm volatile("atom.cas.b16 %0, [%1], %2, %3;" : "=h"(before) : "l"(p), "h"(want), "h"(v) : "memory");
    return before;
}

GK_FN gk::f16 atomicAdd(gk::f16* p, gk::f16 v) {
    gk::f16 before;
    asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(before.bits) : "l"(p), "h"(v.bits) : "memory");
    return before;
}

// atom.add of bf16 is for sm_90: a loop serves all.
GK_FN gk::bf16 atomicAdd(gk::bf16* p, gk::bf16 v) {
    gk::bf16 before, sum;
    before.bits = *(volatile uint16_t*)p;
    for (;;) {
        sum = (gk::bf16)((float)before + (float)v);
        const uint16_t seen = atomicCAS((uint16_t*)p, before.bits, sum.bits);
        if (seen == before.bits) return before;
        before.bits = seen;
    }
}

// The same under one name, for templates.
template <class T>
GK_FN T gk_atomic_add(T* p, T v) {
    return atomicAdd(p, v);
}
template <class T>
GK_FN T gk_atomic_cas(T* p, T want, T v) {
    return atomicCAS(p, want, v);
}
