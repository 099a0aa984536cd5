// Asynchronous copies, ldmatrix and mma.sync.
#include <stdlib.h>
#include <string.h>

#include "emu_engine.h"

namespace gk {

static void check_aligned(const void* p, int to, const char* what) {
    if ((uintptr_t)p % to) fail(MISALIGNED, "%s: address %p is not a multiple of %d", what, p, to);
}

static void copy(const Copy& c) {
    memcpy(c.to, c.from, c.bytes);
    memset((char*)c.to + c.bytes, 0, c.size - c.bytes);
}

void cp_async(void* to, const void* from, int size, int bytes) {
    check_aligned(to, size, "cp.async, destination");
    check_aligned(from, size, "cp.async, source");
    if (bytes < 0 || bytes > size) fail(LAUNCH_FAILED, "cp.async of %d bytes reads %d", size, bytes);
    if (engine()->greedy) return copy({to, from, size, bytes, 0});
    Copies& c = engine()->copies[current->thread];
    if (c.count == c.room) {
        c.room = c.room ? 2 * c.room : 16;
        c.list = (Copy*)realloc(c.list, c.room * sizeof(Copy));
    }
    c.list[c.count++] = {to, from, size, bytes, c.group};
}

void cp_async_commit() { engine()->copies[current->thread].group++; }

// cp_async_wait makes the copies of all but the newest groups.
void cp_async_wait(int groups) {
    Copies& c = engine()->copies[current->thread];
    int kept = 0;
    for (int i = 0; i < c.count; i++) {
        if (c.list[i].group >= c.group - groups) {
            c.list[kept++] = c.list[i];
            continue;
        }
        copy(c.list[i]);
    }
    c.count = kept;
}

void load_matrices(unsigned* r, int count, bool transposed, const void* row) {
    unsigned words[2];
    memcpy(words, &row, sizeof row);
    Phase* p = meet(LDMATRIX, ~0u, words, 2);
    if (p->arrived != ~0u) fail(LAUNCH_FAILED, "ldmatrix in a warp that is not whole");
    const int me = lane();
    for (int m = 0; m < count; m++) {
        const uint16_t* rows[8];
        for (int i = 0; i < 8; i++) {
            memcpy(&rows[i], p->words[m * 8 + i], sizeof rows[i]);
            check_aligned(rows[i], 16, "ldmatrix, row");
        }
        const int major = me / 4, minor = me % 4 * 2;
        const uint16_t lo = transposed ? rows[minor][major] : rows[major][minor];
        const uint16_t hi = transposed ? rows[minor + 1][major] : rows[major][minor + 1];
        r[m] = lo | (unsigned)hi << 16;
    }
    leave(p);
}

static float element(Format f, unsigned word, int i) {
    if (f == TF32) return gk_bits<float>(word & 0xffffe000);
    const uint16_t half = (uint16_t)(word >> 16 * i);
    return f == F16 ? gk_f16_value(half) : gk_bf16_value(half);
}

// The words of a lane in an mma phase: a[4], b[2]. After combining, the product takes their place: d[4].
//
// With g = lane/4 and q = lane%4, and two elements in each register for 16-bit types (e = 0, 1):
//   a: rows g, g+8, g, g+8;  columns 2q+e, the same, 2q+8+e, the same      (tf32: q, q, q+4, q+4)
//   b: rows 2q+e, 2q+8+e;    column g                                      (tf32: q, q+4)
//   d: rows g, g, g+8, g+8;  columns 2q, 2q+1, 2q, 2q+1
template <Format F>
static void combine(Phase* p) {
    constexpr int PER = F == TF32 ? 1 : 2, DEPTH = 8 * PER;
    float a[16][DEPTH], b[DEPTH][8];
    for (int l = 0; l < WARP; l++) {
        const int g = l / 4, q = l % 4;
        for (int e = 0; e < PER; e++) {
            for (int r = 0; r < 4; r++) a[g + r % 2 * 8][q * PER + r / 2 * 4 * PER + e] = element(F, p->words[l][r], e);
            for (int r = 0; r < 2; r++) b[q * PER + r * 4 * PER + e][g] = element(F, p->words[l][4 + r], e);
        }
    }
    for (int l = 0; l < WARP; l++) {
        const int g = l / 4, q = l % 4;
        double sum[4] = {};
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < DEPTH; k++) sum[r] += (double)a[g + r / 2 * 8][k] * b[k][2 * q + r % 2];
        memcpy(p->words[l], sum, sizeof sum);
    }
}

void multiply(Format format, float* d, const unsigned* a, const unsigned* b) {
    static void (*const combines[])(Phase*) = {combine<F16>, combine<BF16>, combine<TF32>};
    const unsigned words[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    Phase* p = meet(MMA, ~0u, words, 6, combines[format]);
    if (p->arrived != ~0u) fail(LAUNCH_FAILED, "mma in a warp that is not whole");
    double sum[4];
    memcpy(sum, p->words[lane()], sizeof sum);
    for (int i = 0; i < 4; i++) d[i] = (float)(d[i] + sum[i]);
    leave(p);
}

}  // namespace gk
