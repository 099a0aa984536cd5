// Asynchronous copies and tensor cores for the processor. Definitions are in emu_mma.cc.
#pragma once

namespace gk {

// An asynchronous copy happens when its group is waited for, not before: a kernel that forgets the wait, or the barrier
// behind it, reads poison. Under the greedy schedule it happens at once: a kernel that forgets the barrier in front of it
// overwrites what others still read.
void cp_async(void* to, const void* from, int size, int bytes);
void cp_async_commit();
void cp_async_wait(int groups);

// load_matrices is ldmatrix: lane i brings the address of row i%8 of matrix i/8, 16 bytes each. Register m of lane i gets the
// elements 2*(i%4) and 2*(i%4)+1 of row i/4 of matrix m or, transposed, of column i/4.
void load_matrices(unsigned* r, int count, bool transposed, const void* row);

// multiply is mma.sync with fp32 accumulators: D = A*B + D, by warp. Sums are made in double and rounded once, which no GPU
// does: results of a GPU differ in the last bits.
enum Format { F16, BF16, TF32 };
void multiply(Format format, float* d, const unsigned* a, const unsigned* b);

}  // namespace gk

template <int SIZE>
inline void gk_cp_async(void* to, const void* from, int bytes = SIZE) {
    static_assert(SIZE == 4 || SIZE == 8 || SIZE == 16, "cp.async copies 4, 8 or 16 bytes");
    gk::cp_async(to, from, SIZE, bytes);
}
inline void gk_cp_async_at(void* to, int to_offset, const void* from, int from_offset, int bytes) {
    gk::cp_async((char*)to + to_offset, (const char*)from + from_offset, 16, bytes);
}

typedef uintptr_t gk_place;
inline gk_place gk_place_of(const void* p) { return (gk_place)p; }
template <int SIZE = 16>
inline void gk_cp_async_to(gk_place to, int to_offset, const void* from, int bytes) {
    gk::cp_async((char*)to + to_offset, from, SIZE, bytes);
}
inline void gk_store_in(gk_place to, int offset, uint32_t word) { *(uint32_t*)((char*)to + offset) = word; }
inline void gk_cp_async_commit() { gk::cp_async_commit(); }
template <int N>
inline void gk_cp_async_wait(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (!gk::removed(file, line)) gk::cp_async_wait(N);
}
template <int N>
inline void gk_cp_async_wait_warp(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (gk::removed(file, line)) return;
    gk::cp_async_wait(N);
    gk::leave(gk::meet(gk::SYNCWARP, 0xffffffff, nullptr, 0));
}
inline void gk_ldmatrix_sync() {} // each mma waits for all lanes here, which are behind their ldmatrix then

inline void gk_ldmatrix_x1(uint32_t (&r)[1], const void* row) { gk::load_matrices(r, 1, false, row); }
inline void gk_ldmatrix_x2(uint32_t (&r)[2], const void* row) { gk::load_matrices(r, 2, false, row); }
inline void gk_ldmatrix_x4(uint32_t (&r)[4], const void* row) { gk::load_matrices(r, 4, false, row); }
inline void gk_ldmatrix_x1_trans(uint32_t (&r)[1], const void* row) { gk::load_matrices(r, 1, true, row); }
inline void gk_ldmatrix_x2_trans(uint32_t (&r)[2], const void* row) { gk::load_matrices(r, 2, true, row); }
inline void gk_ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) { gk::load_matrices(r, 4, true, row); }
inline void gk_ldmatrix_x4_at(uint32_t (&r)[4], const void* row, int offset) { gk::load_matrices(r, 4, false, (const char*)row + offset); }
inline void gk_ldmatrix_x4_trans_at(uint32_t (&r)[4], const void* row, int offset) { gk::load_matrices(r, 4, true, (const char*)row + offset); }
inline void gk_ldmatrix_x4_in(uint32_t (&r)[4], gk_place row, int offset) { gk::load_matrices(r, 4, false, (const char*)row + offset); }
inline void gk_ldmatrix_x4_trans_in(uint32_t (&r)[4], gk_place row, int offset) { gk::load_matrices(r, 4, true, (const char*)row + offset); }

inline void gk_mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk::multiply(gk::F16, d, a, b); }
inline void gk_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk::multiply(gk::BF16, d, a, b); }
inline void gk_mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk::multiply(gk::TF32, d, a, b); }

// To nearest, ties away from zero, 10 bits of mantissa.
inline uint32_t gk_tf32(float x) {
    const uint32_t b = gk_bits<uint32_t>(x);
    return (b & 0x7f800000) == 0x7f800000 ? b & 0xffffe000 : (b + 0x1000) & 0xffffe000;
}

inline void gk_mma(gk::f16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk_mma_f16(d, a, b); }
inline void gk_mma(gk::bf16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk_mma_bf16(d, a, b); }

template <class T>
inline void gk_mma_first(T type, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    d[0] = d[1] = d[2] = d[3] = 0;
    gk_mma(type, d, a, b);
}
