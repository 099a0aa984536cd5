// Asynchronous copies and tensor cores for PTX (sm_80). emu_mma.h says what each does.
#pragma once

GK_FN uint32_t gk_shared_address(const void* p) {
    return (uint32_t)(uintptr_t)(__attribute__((address_space(3))) const void*)p;
}

// A size of 16 goes around L1. Bytes is how many are read; the rest of the destination becomes zero.
template <int SIZE>
GK_FN void gk_cp_async(void* to, const void* from, int bytes = SIZE) {
    static_assert(SIZE == 4 || SIZE == 8 || SIZE == 16, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gk_shared_address(to)), "l"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(gk_shared_address(to)), "l"(from), "n"(SIZE),
                     "r"(bytes)
                     : "memory");
}
// A copy of 16 bytes, to_offset and from_offset bytes, which must be constants, from the addresses: they become part of the
// instruction, and take no addition.
GK_FN void gk_cp_async_at(void* to, int to_offset, const void* from, int from_offset, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0+%1], [%2+%3], 16, %4;" ::"r"(gk_shared_address(to)), "i"(to_offset), "l"(from),
                 "i"(from_offset), "r"(bytes)
                 : "memory");
}
// The address of a byte of shared memory, as the instructions take it. Sums of places and offsets are arithmetic of 32 bits.
typedef uint32_t gk_place;
GK_FN gk_place gk_place_of(const void* p) { return gk_shared_address(p); }

// gk_cp_async to to_offset bytes, which must be constant, from the place.
template <int SIZE = 16>
GK_FN void gk_cp_async_to(gk_place to, int to_offset, const void* from, int bytes) {
    if constexpr (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0+%1], [%2], 16, %3;" ::"r"(to), "i"(to_offset), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0+%1], [%2], %3, %4;" ::"r"(to), "i"(to_offset), "l"(from), "n"(SIZE), "r"(bytes)
                     : "memory");
}
// Stores a word offset bytes, which must be constant, from the place.
GK_FN void gk_store_in(gk_place to, int offset, uint32_t word) {
    asm volatile("st.shared.u32 [%0+%1], %2;" ::"r"(to), "i"(offset), "r"(word) : "memory");
}
GK_FN void gk_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
GK_FN void gk_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
// What lanes of the warp have read by ldmatrix, others may write behind this.
GK_FN void gk_ldmatrix_sync() { __syncwarp(); }
// gk_cp_async_wait for the copies of all lanes of a warp, which then have each other's.
template <int N>
GK_FN void gk_cp_async_wait_warp() {
    gk_cp_async_wait<N>();
    __syncwarp();
}

GK_FN void gk_ldmatrix_x1(uint32_t (&r)[1], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(gk_shared_address(row))
                 : "memory");
}
GK_FN void gk_ldmatrix_x2(uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(gk_shared_address(row))
                 : "memory");
}
GK_FN void gk_ldmatrix_x4(uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(gk_shared_address(row))
                 : "memory");
}
GK_FN void gk_ldmatrix_x1_trans(uint32_t (&r)[1], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(gk_shared_address(row))
                 : "memory");
}
GK_FN void gk_ldmatrix_x2_trans(uint32_t (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(gk_shared_address(row))
                 : "memory");
}
GK_FN void gk_ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(gk_shared_address(row))
                 : "memory");
}

// The same at a constant number of bytes from the address.
GK_FN void gk_ldmatrix_x4_at(uint32_t (&r)[4], const void* row, int offset) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(gk_shared_address(row)), "i"(offset)
                 : "memory");
}
GK_FN void gk_ldmatrix_x4_trans_at(uint32_t (&r)[4], const void* row, int offset) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(gk_shared_address(row)), "i"(offset)
                 : "memory");
}

// The same at a constant number of bytes from the place.
GK_FN void gk_ldmatrix_x4_in(uint32_t (&r)[4], gk_place row, int offset) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row), "i"(offset)
                 : "memory");
}
GK_FN void gk_ldmatrix_x4_trans_in(uint32_t (&r)[4], gk_place row, int offset) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row), "i"(offset)
                 : "memory");
}

GK_FN void gk_mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
GK_FN void gk_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// D = A*B, where nothing was summed before: the zeros are no registers.
GK_FN void gk_mma_first(gk::f16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}
GK_FN void gk_mma_first(gk::bf16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}
GK_FN void gk_mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// gk_tf32 rounds a float to the 10 bits of mantissa that the tensor core reads.
GK_FN uint32_t gk_tf32(float x) {
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

// One mma by type of the operands.
GK_FN void gk_mma(gk::f16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk_mma_f16(d, a, b); }
GK_FN void gk_mma(gk::bf16, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { gk_mma_bf16(d, a, b); }
