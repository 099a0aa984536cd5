// Warp operations and atomics for the processor, under the names that kernels use. The engine behind them is in emu.cc.
#pragma once

namespace gk {

enum { WARP = 32, MAX_THREADS = 1024 };

// What lanes do together. Lanes that meet must do the same.
enum Operation { SYNCWARP, SHUFFLE, VOTE, MATCH, REDUCE, LDMATRIX, MMA };

// Phase is one meeting of lanes of a warp: what each brought, until all have taken what they came for.
struct Phase {
    unsigned mask, arrived, left;  // who is expected, came, has not gone
    int operation;
    bool complete;
    unsigned words[WARP][8];
};

// meet brings n words to the lanes in mask and returns when all have come. Lanes that have ended are not waited for. The last
// to come runs combine, if there is one. leave lets go of the phase.
Phase* meet(int operation, unsigned mask, const unsigned* words, int n, void (*combine)(Phase*) = nullptr);
void leave(Phase* p);

// barrier is __syncthreads. p is counted; it returns how many were not 0. All threads must come to the same place.
int barrier(int p, const char* file, int line);

// fail ends the launch with a CUresult and a message.
[[noreturn]] void fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

enum { ILLEGAL_ADDRESS = 700, ASSERT = 710, MISALIGNED = 716, LAUNCH_FAILED = 719 };

// removed notes that a thread has come to a barrier, and says whether tests have taken it out: see emu_places.cc.
bool removed(const char* file, int line);

inline int lane() { return current->thread % WARP; }

}  // namespace gk

// The place of a barrier is that of its call.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { gk::barrier(0, file, line); }
inline int __syncthreads_count(int p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return gk::barrier(p != 0, file, line);
}
inline int __syncthreads_or(int p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return gk::barrier(p != 0, file, line) != 0;
}
inline int __syncthreads_and(int p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return gk::barrier(p == 0, file, line) == 0;
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __syncwarp(unsigned mask = 0xffffffff, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (!gk::removed(file, line)) gk::leave(gk::meet(gk::SYNCWARP, mask, nullptr, 0));
}

#define GK_TRAP() gk::fail(gk::LAUNCH_FAILED, "trap at %s:%d", __FILE__, __LINE__)

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

namespace gk {

// shuffle returns what lane from brought. A lane that is not there has no value: 0xFF bytes.
template <class T>
inline T shuffle(unsigned mask, T x, int from) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "shuffles are for types of 2, 4 and 8 bytes");
    unsigned words[2] = {};
    __builtin_memcpy(words, &x, sizeof x);
    Phase* p = meet(SHUFFLE, mask, words, (sizeof(T) + 3) / 4);
    unsigned got[2] = {0xffffffff, 0xffffffff};
    if (p->arrived >> from & 1) __builtin_memcpy(got, p->words[from], sizeof got);
    leave(p);
    T r;
    __builtin_memcpy(&r, got, sizeof r);
    return r;
}

}  // namespace gk

// A width cuts the warp into segments; a source outside of the own segment means the own value.
template <class T>
inline T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
    return gk::shuffle(mask, x, (gk::lane() & ~(width - 1)) | (lane & (width - 1)));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T x, unsigned delta, int width = 32) {
    const int at = gk::lane() & (width - 1);
    return gk::shuffle(mask, x, (unsigned)at >= delta ? gk::lane() - (int)delta : gk::lane());
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T x, unsigned delta, int width = 32) {
    const int at = gk::lane() & (width - 1);
    return gk::shuffle(mask, x, at + delta < (unsigned)width ? gk::lane() + (int)delta : gk::lane());
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32) {
    const int from = gk::lane() ^ lanes;
    return gk::shuffle(mask, x, from < (gk::lane() & ~(width - 1)) + width ? from : gk::lane());
}

inline unsigned __ballot_sync(unsigned mask, int p) {
    const unsigned w = p != 0;
    gk::Phase* phase = gk::meet(gk::VOTE, mask, &w, 1);
    unsigned r = 0;
    for (int i = 0; i < gk::WARP; i++)
        if (phase->arrived >> i & 1) r |= phase->words[i][0] << i;
    gk::leave(phase);
    return r;
}
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }

inline unsigned __match_any_sync(unsigned mask, unsigned x) {
    gk::Phase* phase = gk::meet(gk::MATCH, mask, &x, 1);
    unsigned r = 0;
    for (int i = 0; i < gk::WARP; i++)
        if ((phase->arrived >> i & 1) && phase->words[i][0] == x) r |= 1u << i;
    gk::leave(phase);
    return r;
}

namespace gk {

template <class T, class F>
inline T reduce(unsigned mask, T x, F f) {
    const unsigned w = (unsigned)x;
    Phase* p = meet(REDUCE, mask, &w, 1);
    T r = x;
    for (int i = 0; i < WARP; i++)
        if (i != lane() && (p->arrived >> i & 1)) r = f(r, (T)p->words[i][0]);
    leave(p);
    return r;
}

}  // namespace gk

inline int __reduce_add_sync(unsigned m, int x) {
    return (int)gk::reduce(m, (unsigned)x, [](unsigned a, unsigned b) { return a + b; });
}
inline unsigned __reduce_add_sync(unsigned m, unsigned x) {
    return gk::reduce(m, x, [](unsigned a, unsigned b) { return a + b; });
}
inline int __reduce_min_sync(unsigned m, int x) {
    return gk::reduce(m, x, [](int a, int b) { return a < b ? a : b; });
}
inline unsigned __reduce_min_sync(unsigned m, unsigned x) {
    return gk::reduce(m, x, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
inline int __reduce_max_sync(unsigned m, int x) {
    return gk::reduce(m, x, [](int a, int b) { return a > b ? a : b; });
}
inline unsigned __reduce_max_sync(unsigned m, unsigned x) {
    return gk::reduce(m, x, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
inline unsigned __reduce_and_sync(unsigned m, unsigned x) {
    return gk::reduce(m, x, [](unsigned a, unsigned b) { return a & b; });
}
inline unsigned __reduce_or_sync(unsigned m, unsigned x) {
    return gk::reduce(m, x, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_xor_sync(unsigned m, unsigned x) {
    return gk::reduce(m, x, [](unsigned a, unsigned b) { return a ^ b; });
}

// Atomics are true ones: blocks may run on several OS threads, and streams do.
typedef unsigned long long gk_ull;

namespace gk {

// change replaces *p by f(*p) and returns the value before.
template <class T, class F>
inline T change(T* p, F f) {
    T before, after;
    __atomic_load(p, &before, __ATOMIC_RELAXED);
    do after = f(before);
    while (!__atomic_compare_exchange(p, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return before;
}

}  // namespace gk

inline int atomicAdd(int* p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline gk_ull atomicAdd(gk_ull* p, gk_ull v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline long atomicAdd(long* p, long v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline float atomicAdd(float* p, float v) {
    return gk::change(p, [v](float x) { return x + v; });
}
inline double atomicAdd(double* p, double v) {
    return gk::change(p, [v](double x) { return x + v; });
}
inline gk::f16 atomicAdd(gk::f16* p, gk::f16 v) {
    return gk::change(p, [v](gk::f16 x) { return (gk::f16)((float)x + (float)v); });
}
inline gk::bf16 atomicAdd(gk::bf16* p, gk::bf16 v) {
    return gk::change(p, [v](gk::bf16 x) { return (gk::bf16)((float)x + (float)v); });
}

inline int atomicMin(int* p, int v) {
    return gk::change(p, [v](int x) { return x < v ? x : v; });
}
inline unsigned atomicMin(unsigned* p, unsigned v) {
    return gk::change(p, [v](unsigned x) { return x < v ? x : v; });
}
inline long atomicMin(long* p, long v) {
    return gk::change(p, [v](long x) { return x < v ? x : v; });
}
inline int atomicMax(int* p, int v) {
    return gk::change(p, [v](int x) { return x > v ? x : v; });
}
inline unsigned atomicMax(unsigned* p, unsigned v) {
    return gk::change(p, [v](unsigned x) { return x > v ? x : v; });
}
inline long atomicMax(long* p, long v) {
    return gk::change(p, [v](long x) { return x > v ? x : v; });
}

inline unsigned atomicAnd(unsigned* p, unsigned v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicOr(unsigned* p, unsigned v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicXor(unsigned* p, unsigned v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }
inline int atomicExch(int* p, int v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicExch(unsigned* p, unsigned v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
inline float atomicExch(float* p, float v) {
    return gk::change(p, [v](float) { return v; });
}

namespace gk {

template <class T>
inline T compare_and_swap(T* p, T want, T v) {
    __atomic_compare_exchange_n(p, &want, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return want;
}

}  // namespace gk

inline int atomicCAS(int* p, int want, int v) { return gk::compare_and_swap(p, want, v); }
inline unsigned atomicCAS(unsigned* p, unsigned want, unsigned v) { return gk::compare_and_swap(p, want, v); }
inline gk_ull atomicCAS(gk_ull* p, gk_ull want, gk_ull v) { return gk::compare_and_swap(p, want, v); }
inline uint16_t atomicCAS(uint16_t* p, uint16_t want, uint16_t v) { return gk::compare_and_swap(p, want, v); }

template <class T>
inline T gk_atomic_add(T* p, T v) {
    return atomicAdd(p, v);
}
template <class T>
inline T gk_atomic_cas(T* p, T want, T v) {
    return atomicCAS(p, want, v);
}
