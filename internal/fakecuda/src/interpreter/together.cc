// What the lanes of a warp do together: shuffles, votes, barriers, ldmatrix, mma.sync.
#include "program.h"

namespace fake {
namespace interpreter {

enum { LAUNCH_FAILED = 719, MISALIGNED_ROW = 716 };

// meet checks that all lanes that an instruction names have come to it.
static void meet(const Warp& w, u32 members, const char* what) {
    if (members & w.live & ~w.mask)
        stop(LAUNCH_FAILED, "warp %u: %s wants lanes %#x, but only %#x have come to it", w.index, what, members, w.mask);
    if (members & ~w.live)
        stop(LAUNCH_FAILED, "warp %u: %s wants lanes %#x, but only %#x are there", w.index, what, members, w.live);
    if (w.mask & ~members)
        stop(LAUNCH_FAILED, "warp %u: lanes %#x call %s without being among %#x", w.index, w.mask, what, members);
}

static u32 uniform(const Warp& w, u32 place) { return reg<u32>(w, place)[__builtin_ctz(w.mask)]; }

enum Shuffle : u32 { UP, DOWN, XOR, INDEX };

// See shfl.sync in the PTX manual for segment mask and clamp.
static void shuffle(Warp& w, const Ins& i) {
    meet(w, uniform(w, i.o[4]), "shfl.sync");
    u32 from[LANES];
    memcpy(from, reg<u32>(w, i.o[1]), sizeof from);
    u32* const d = reg<u32>(w, i.o[0]);
    for (u32 m = w.mask; m; m &= m - 1) {
        const u32 l = (u32)__builtin_ctz(m), b = reg<u32>(w, i.o[2])[l] & 31, c = reg<u32>(w, i.o[3])[l];
        const u32 clamp = c & 31, segment = c >> 8 & 31, last = (l & segment) | (clamp & ~segment), first = l & segment;
        u32 lane = l;
        bool ok = false;
        switch (i.mode) {
            case UP: lane = l - b, ok = (s32)lane >= (s32)last; break;
            case DOWN: lane = l + b, ok = lane <= last; break;
            case XOR: lane = l ^ b, ok = lane <= last; break;
            case INDEX: lane = first | (b & ~segment & 31), ok = lane <= last; break;
        }
        if (!ok) lane = l;
        d[l] = w.mask >> lane & 1 ? from[lane] : ~0u;  // of a lane that is not there: undefined
    }
}

enum Vote : u32 { ALL, ANY, UNI, BALLOT };

static void vote(Warp& w, const Ins& i) {
    const u32 members = uniform(w, i.o[2]);
    meet(w, members, "vote.sync");
    const u32 p = *reg<u32>(w, i.o[1]) & members;
    if (i.mode == BALLOT) {
        for (u32 m = w.mask; m; m &= m - 1) reg<u32>(w, i.o[0])[__builtin_ctz(m)] = p;
        return;
    }
    const bool r = i.mode == ALL ? p == members : i.mode == ANY ? p != 0 : p == members || p == 0;
    u32* const d = reg<u32>(w, i.o[0]);
    *d = (*d & ~w.mask) | (r ? w.mask : 0);
}

static void sync_warp(Warp& w, const Ins& i) {
    meet(w, uniform(w, i.o[0]), "bar.warp.sync");
    w.syncs++;
}

enum Reduction : u32 { COUNT_ALL, EVERY, SOME };

// bar.red: what each lane says, until all warps have come.
static void say(Warp& w, const Ins& i) { w.ballot = *reg<u32>(w, i.o[2]) & w.mask; }

void finish_reduction(Warp& w, const Ins& i, u32 votes, u32 lanes) {
    if (i.mode == COUNT_ALL) {
        for (u32 m = w.mask; m; m &= m - 1) reg<u32>(w, i.o[0])[__builtin_ctz(m)] = votes;
        return;
    }
    const bool r = i.mode == EVERY ? votes == lanes : votes != 0;
    u32* const d = reg<u32>(w, i.o[0]);
    *d = (*d & ~w.mask) | (r ? w.mask : 0);
}

// match.any: the lanes that have the same value.
static void match_any(Warp& w, const Ins& i) {
    const u32 members = uniform(w, i.o[2]);
    meet(w, members, "match.sync");
    u32 v[LANES];
    memcpy(v, reg<u32>(w, i.o[1]), sizeof v);
    for (u32 m = w.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        u32 same = 0;
        for (int k = 0; k < LANES; k++) same |= (u32)((members >> k & 1) && v[k] == v[l]) << k;
        reg<u32>(w, i.o[0])[l] = same;
    }
}

struct RedAdd { static u32 of(u32 a, u32 b) { return a + b; } };
struct RedAnd { static u32 of(u32 a, u32 b) { return a & b; } };
struct RedOr { static u32 of(u32 a, u32 b) { return a | b; } };
struct RedXor { static u32 of(u32 a, u32 b) { return a ^ b; } };
struct RedMin { static u32 of(u32 a, u32 b) { return a < b ? a : b; } };
struct RedMax { static u32 of(u32 a, u32 b) { return a > b ? a : b; } };
struct RedSMin { static u32 of(u32 a, u32 b) { return (s32)a < (s32)b ? a : b; } };
struct RedSMax { static u32 of(u32 a, u32 b) { return (s32)a > (s32)b ? a : b; } };

template <class F>
static void reduce(Warp& w, const Ins& i) {
    meet(w, uniform(w, i.o[2]), "redux.sync");
    const u32* const v = reg<u32>(w, i.o[1]);
    u32 m = w.mask, r = v[__builtin_ctz(m)];
    for (m &= m - 1; m; m &= m - 1) r = F::of(r, v[__builtin_ctz(m)]);
    for (m = w.mask; m; m &= m - 1) reg<u32>(w, i.o[0])[__builtin_ctz(m)] = r;
}

static bool reduction(const std::string& how, const std::string& type, Operation* out) {
    const bool s = type == "s32";
    *out = {nullptr, "4=44"};
    if (how == "add") out->run = reduce<RedAdd>;
    if (how == "and") out->run = reduce<RedAnd>;
    if (how == "or") out->run = reduce<RedOr>;
    if (how == "xor") out->run = reduce<RedXor>;
    if (how == "min") out->run = s ? reduce<RedSMin> : reduce<RedMin>;
    if (how == "max") out->run = s ? reduce<RedSMax> : reduce<RedMax>;
    return out->run != nullptr;
}

// ldmatrix: lane 8m+r gives the address of row r of matrix m; each lane gets two neighbours of a row, or of a column.
static void load_matrices(Warp& w, const Ins& i) {
    const int count = (int)(i.mode & 7);
    const bool turned = i.mode & 8;
    meet(w, ~0u, "ldmatrix");
    u64 a[LANES];
    const u32 place = i.o[count] & ~(1u << 31);
    for (int l = 0; l < LANES; l++)
        a[l] = (i.o[count] >> 31 ? reg<u32>(w, place)[l] : reg<u64>(w, place)[l]) + (u64)i.at[0];
    if (w.block->counts) {
        const u32 mask = w.mask;
        w.mask = count == 4 ? ~0u : (1u << 8 * count) - 1;
        count_shared(w, a, 16);
        w.mask = mask;
    }
    u16 rows[4][8][8];
    for (int m = 0; m < count; m++)
        for (int r = 0; r < 8; r++) {
            const int lane = 8 * m + r;
            if (a[lane] % 16) stop(MISALIGNED_ROW, "ldmatrix: row address %llu is not a multiple of 16", (unsigned long long)a[lane]);
            memcpy(rows[m][r], shared_at(w, a[lane], 16), 16);
            if (w.block->touches) touch(w, lane, (u32)(a[lane] - SHARED_BASE), 16, READ);
        }
    for (int m = 0; m < count; m++)
        for (int l = 0; l < LANES; l++) {
            const int major = l / 4, minor = l % 4 * 2;
            const u16 low = turned ? rows[m][minor][major] : rows[m][major][minor];
            const u16 high = turned ? rows[m][minor + 1][major] : rows[m][major][minor + 1];
            reg<u32>(w, i.o[m])[l] = low | (u32)high << 16;
        }
}

static float half_f16(u16 h) { return half_value(h); }
static float half_bf16(u16 h) { return bfloat_value(h); }

// Sums are made in double precision and rounded once. Tensor cores are less exact, each generation in its own way: no test may want the
// same bits of both, unless the sums are exact.

// mma.m16n8k16: with g = lane/4, q = lane%4 and e = 0, 1 in each register of two halves (PTX manual, "Matrix Fragments"):
//   a: rows g, g+8, g, g+8; columns 2q+e, 2q+e, 2q+8+e, 2q+8+e.   b: rows 2q+e, 2q+8+e; column g.
//   c and d: rows g, g, g+8, g+8; columns 2q, 2q+1, 2q, 2q+1.
template <float (*VALUE)(u16)>
static void multiply(Warp& w, const Ins& i) {
    meet(w, ~0u, "mma.sync");
    if (w.block->counts) w.block->counts->products++;
    alignas(32) float a[16][16], b[16][8];
    for (int l = 0; l < LANES; l++) {
        const int g = l / 4, q = l % 4 * 2;
        for (int r = 0; r < 4; r++) {
            const u32 x = reg<u32>(w, i.o[4 + r])[l];
            a[g + r % 2 * 8][q + r / 2 * 8] = VALUE((u16)x);
            a[g + r % 2 * 8][q + r / 2 * 8 + 1] = VALUE((u16)(x >> 16));
        }
        for (int r = 0; r < 2; r++) {
            const u32 x = reg<u32>(w, i.o[8 + r])[l];
            b[q + r * 8][g] = VALUE((u16)x);
            b[q + r * 8 + 1][g] = VALUE((u16)(x >> 16));
        }
    }
    double sum[16][8] = {};
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int c = 0; c < 8; c++) sum[row][c] += (double)a[row][k] * b[k][c];
    for (int r = 0; r < 4; r++) {
        float* const d = reg<float>(w, i.o[r]);
        const float* const c = reg<float>(w, i.o[10 + r]);
        for (int l = 0; l < LANES; l++) d[l] = (float)(c[l] + sum[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2]);
    }
}

// mma.m16n8k8 of tf32: a: rows g, g+8, g, g+8; columns q, q, q+4, q+4. b: rows q, q+4; column g. c and d as above.
static void multiply_tf32(Warp& w, const Ins& i) {
    meet(w, ~0u, "mma.sync");
    if (w.block->counts) w.block->counts->products++;
    float a[16][8], b[8][8];
    for (int l = 0; l < LANES; l++) {
        const int g = l / 4, q = l % 4;
        for (int r = 0; r < 4; r++) a[g + r % 2 * 8][q + r / 2 * 4] = bits<float>(reg<u32>(w, i.o[4 + r])[l] & 0xffffe000);
        for (int r = 0; r < 2; r++) b[q + r * 4][g] = bits<float>(reg<u32>(w, i.o[8 + r])[l] & 0xffffe000);
    }
    double sum[16][8] = {};
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 8; k++)
            for (int c = 0; c < 8; c++) sum[row][c] += (double)a[row][k] * b[k][c];
    for (int r = 0; r < 4; r++)
        for (int l = 0; l < LANES; l++)
            reg<float>(w, i.o[r])[l] = (float)(reg<float>(w, i.o[10 + r])[l] + sum[l / 4 + r / 2 * 8][l % 4 * 2 + r % 2]);
}

static void trap(Warp& w, const Ins& i) {
    stop(LAUNCH_FAILED, i.mode ? "warp %u: trap" : "warp %u: the compiler believed that this is never reached", w.index);
}

bool together(const std::string& opcode, const std::vector<std::string>& words, Operation* out) {
    const std::string mma = "mma.sync.aligned.m16n8k16.row.col.f32.", matrices = "ldmatrix.sync.aligned.m8n8.x";
    if (opcode == "bar.sync") return *out = {nullptr, "=4", 0, BARRIER}, true;
    if (opcode == "bar.red.popc.u32") return *out = {say, "4=4p", COUNT_ALL, BARRIER}, true;
    if (opcode == "bar.red.and.pred") return *out = {say, "p=4p", EVERY, BARRIER}, true;
    if (opcode == "bar.red.or.pred") return *out = {say, "p=4p", SOME, BARRIER}, true;
    if (opcode == "match.any.sync.b32") return *out = {match_any, "4=44"}, true;
    if (opcode == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") return *out = {multiply_tf32, "4444=4444444444"}, true;
    if (words[0] == "redux" && words.size() == 4) return reduction(words[2], words[3], out);
    if (opcode == "bar.warp.sync") return *out = {sync_warp, "=4"}, true;
    if (opcode == "trap") return *out = {trap, "=", 1, NEVER}, true;
    if (opcode == "exit") return *out = {trap, "=", 0, NEVER}, true;
    if (opcode == mma + "f16.f16.f32") return *out = {multiply<half_f16>, "4444=4444444444"}, true;
    if (opcode == mma + "bf16.bf16.f32") return *out = {multiply<half_bf16>, "4444=4444444444"}, true;
    if (opcode.compare(0, matrices.size(), matrices) == 0) {
        const u32 n = (u32)(opcode[matrices.size()] - '0');
        const bool turned = words.size() > 5 && words[5] == "trans";
        if (n != 1 && n != 2 && n != 4) return false;
        return *out = {load_matrices, std::string(n, '4') + "=a", n | (turned ? 8 : 0)}, true;
    }
    if (words[0] == "shfl" && words.size() == 4) {
        const std::string& how = words[2];
        *out = {shuffle, "4=4444", how == "up" ? UP : how == "down" ? DOWN : how == "bfly" ? XOR : INDEX};
        return how == "up" || how == "down" || how == "bfly" || how == "idx";
    }
    if (words[0] == "vote" && words.size() == 4) {
        const std::string& how = words[2];
        if (how == "ballot") return *out = {vote, "4=p4", BALLOT}, true;
        *out = {vote, "p=p4", how == "all" ? ALL : how == "any" ? ANY : UNI};
        return how == "all" || how == "any" || how == "uni";
    }
    return false;
}

}  // namespace interpreter
}  // namespace fake
