// Blocks and warps. A warp runs the lanes of one part at a time: where a branch parts them, one side runs until the place where
// both meet, then the other. Warps of a block take turns at barriers.
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include <algorithm>

#include "program.h"

namespace fake {
namespace interpreter {

// A warp that has run so many instructions will not end.
static const u64 LIMIT = 1ull << 34;

void stop(int code, const char* format, ...) {
    char text[512];
    va_list a;
    va_start(a, format);
    vsnprintf(text, sizeof text, format, a);
    va_end(a);
    throw Stop{code, text};
}

// Room is the memory of one OS thread, kept for the next launch: a fault leaves a run without unwinding it.
struct Room {
    std::vector<char> registers, shared;
    std::vector<Warp> warps;
    std::vector<Touch> touches;
    Global global;
    const Code* code = nullptr;
    Warp* warp = nullptr;
    u32 pc = 0;
    Block block;
};
static Room& room() {
    static thread_local Room* r = new Room;
    return *r;
}

std::string where(u64 address) {
    Room& r = room();
    if (!r.code || !r.warp) return "";
    const u32* id = r.block.id;
    char text[600];
    snprintf(text, sizeof text, " at %#llx, block (%u, %u, %u), warp %u, lanes %#x, instruction: %s", (unsigned long long)address, id[0],
             id[1], id[2], r.warp->index, r.warp->mask, r.code->lines[r.code->ins[r.pc].line].c_str());
    return text;
}

// leave goes on with the part below, until one has lanes.
static void leave(Warp& w) {
    while (!w.parts.empty()) {
        const Part p = w.parts.back();
        w.parts.pop_back();
        if (p.mask == 0) continue;
        w.pc = p.pc;
        w.join = p.join;
        w.mask = p.mask;
        return;
    }
    w.mask = 0;
}

static void end_lanes(Warp& w, u32 lanes) {
    w.live &= ~lanes;
    for (Part& p : w.parts) p.mask &= ~lanes;
    w.mask &= ~lanes;
    if (w.mask) w.pc++;
    else leave(w);
}

static void branch(Warp& w, const Ins& i, u32 taken, const Ins* code) {
    if (taken && code[i.target].flow == EXIT && code[i.target].guard == NOWHERE) return end_lanes(w, taken);
    const u32 others = w.mask & ~taken;
    if (!taken || !others) {
        w.pc = taken ? i.target : w.pc + 1;
        return;
    }
    if (w.block->counts) w.block->counts->divergent++;
    const u32 next = w.pc + 1;
    // All lanes wait at the join, below the two sides; if the part ends there anyway, it is on the stack already.
    if (i.join != NOWHERE && i.join != w.join) w.parts.push_back({i.join, w.join, w.mask});
    if (next != i.join) w.parts.push_back({next, i.join, others});
    if (i.target != i.join) w.parts.push_back({i.target, i.join, taken});
    leave(w);
}

// run_warp runs until the warp has ended or stands before a barrier.
template <bool COUNT>
static void run_warp(Room& r, Warp& w) {
    const Ins* const code = r.code->ins.data();
    r.warp = &w;
    for (u64 n = 0; w.mask; n++) {
        const Ins& i = code[w.pc];
        if (i.leader && w.pc == w.join) {
            leave(w);
            continue;
        }
        r.pc = w.pc;
        if (n > LIMIT) stop(719, "warp %u does not end", w.index);
        if (COUNT) {
            w.block->counts->instructions++;
            w.block->counts->lanes += (u32)__builtin_popcount(w.mask);
        }
        u32 lanes = w.mask;
        if (i.guard != NOWHERE) lanes &= i.negated ? ~*reg<u32>(w, i.guard) : *reg<u32>(w, i.guard);
        switch (i.flow) {
            case NEXT:
            case NEVER:
                if (lanes == w.mask) {
                    i.run(w, i);
                } else if (lanes) {
                    const u32 all = w.mask;
                    w.mask = lanes;
                    i.run(w, i);
                    w.mask = all;
                }
                w.pc++;
                break;
            case BRANCH: branch(w, i, lanes, code); break;
            case EXIT:
                if (lanes) end_lanes(w, lanes);
                else w.pc++;
                break;
            case BARRIER:
                if (lanes != w.live) stop(719, "warp %u: only lanes %#x of %#x have come to a barrier", w.index, lanes, w.live);
                if (COUNT) w.block->counts->barriers++;
                if (i.run) i.run(w, i);
                w.pc++;
                w.waiting = true;
                return;
        }
    }
}

static void start_warp(Room& r, Warp& w, u32 index, u32 threads) {
    const u32 lanes = std::min<u32>(LANES, threads - index * LANES);
    w.index = index;
    w.block = &r.block;
    w.live = w.mask = lanes == LANES ? ~0u : (1u << lanes) - 1;
    w.pc = 0;
    w.join = NOWHERE;
    w.syncs = 0;
    w.waiting = false;
    w.parts.clear();
    w.copies.clear();
    memset(w.groups, 0, sizeof w.groups);
    const gk_launch& l = *r.block.launch;
    for (auto& s : r.code->specials) {
        u32* const v = reg<u32>(w, s.second);
        const int axis = s.first.back() - 'x';
        for (u32 k = 0; k < LANES; k++) {
            const u32 t = index * LANES + k, x = l.block[0], y = l.block[1];
            const u32 tid[3] = {t % x, t / x % y, t / x / y};
            if (s.first.compare(0, 5, "%tid.") == 0) v[k] = tid[axis];
            else if (s.first.compare(0, 6, "%ntid.") == 0) v[k] = l.block[axis];
            else if (s.first.compare(0, 7, "%ctaid.") == 0) v[k] = r.block.id[axis];
            else if (s.first.compare(0, 8, "%nctaid.") == 0) v[k] = l.grid[axis];
            else v[k] = s.first == "%laneid" ? k : index;
        }
    }
}

// release lets the warps behind a barrier go on, if all have come to it.
static void release(Room& r) {
    u32 waiting = 0, votes = 0;
    u32 site = NOWHERE;
    for (Warp& w : r.warps) {
        if (!w.waiting) continue;
        waiting++;
        if (site != NOWHERE && site != w.pc)
            stop(719, "warps wait at two barriers: %s, and %s", r.code->lines[r.code->ins[site - 1].line].c_str(),
                 r.code->lines[r.code->ins[w.pc - 1].line].c_str());
        site = w.pc;
        votes += (u32)__builtin_popcount(w.ballot);
    }
    if (waiting == 0) return;
    u32 live = 0;
    for (Warp& w : r.warps) live += (u32)__builtin_popcount(w.live);
    for (Warp& w : r.warps) {
        if (w.waiting && r.code->ins[site - 1].run) finish_reduction(w, r.code->ins[site - 1], votes, live);
        w.waiting = false;
    }
    r.block.barriers++;
}

static void run_block(Room& r, bool greedy) {
    const gk_launch& l = *r.block.launch;
    const u32 threads = l.block[0] * l.block[1] * l.block[2];
    memset(r.block.shared, 0xff, r.block.shared_bytes);
    std::fill(r.touches.begin(), r.touches.end(), Touch());
    r.block.barriers = 0;
    for (u32 k = 0; k < r.warps.size(); k++) start_warp(r, r.warps[k], k, threads);
    for (bool more = true; more;) {
        more = false;
        for (size_t k = 0; k < r.warps.size(); k++) {
            Warp& w = r.warps[greedy ? r.warps.size() - 1 - k : k];
            if (r.block.counts) run_warp<true>(r, w);
            else run_warp<false>(r, w);
            more |= w.live != 0;
        }
        release(r);
    }
}

// prepare gives each warp its registers, with the constants in them.
static void prepare(Room& r, const Request& q) {
    const gk_launch& l = q.launch;
    const u32 threads = l.block[0] * l.block[1] * l.block[2], warps = (threads + LANES - 1) / LANES;
    const size_t each = q.code->registers.size();
    r.code = q.code.get();
    r.warp = nullptr;
    r.warps.resize(warps);
    r.registers.resize(each * warps + 64);
    char* const base = (char*)(((uintptr_t)r.registers.data() + 63) / 64 * 64);
    for (u32 k = 0; k < warps; k++) {
        r.warps[k].r = base + k * each;
        memcpy(r.warps[k].r, q.code->registers.data(), each);
    }
    const u32 shared = (u32)(q.code->static_shared + l.dynamic_shared);
    r.shared.resize(shared + 32);
    r.touches.assign(q.races ? shared : 0, Touch());
    r.block.code = r.code;
    r.block.launch = &l;
    r.block.shared = (char*)(((uintptr_t)r.shared.data() + 15) / 16 * 16);
    r.block.shared_bytes = shared;
    r.block.counts = q.counts;
    r.block.touches = q.races ? &r.touches : nullptr;
    r.global = Global();
    r.block.global = q.races ? &r.global : nullptr;
}

int run(const Request& q) {
    Room& r = room();
    prepare(r, q);
    const gk_launch& l = q.launch;
    int code = 0;
    try {
        for (u64 n = l.first_block; n < l.last_block; n++) {
            const u64 b = l.greedy ? l.last_block - 1 - (n - l.first_block) : n;
            r.block.id[0] = (u32)(b % l.grid[0]);
            r.block.id[1] = (u32)(b / l.grid[0] % l.grid[1]);
            r.block.id[2] = (u32)(b / l.grid[0] / l.grid[1]);
            r.block.number = (u32)b + 1;
            run_block(r, l.greedy);
            if (q.counts) q.counts->blocks++;
        }
    } catch (const Stop& s) {
        const u32* id = r.block.id;
        snprintf(l.message, l.message_size, "block (%u, %u, %u): %s, at: %s", id[0], id[1], id[2], s.why.c_str(),
                 r.code->lines[r.code->ins[r.pc].line].c_str());
        code = s.code;
    }
    r.code = nullptr;
    r.global = Global();
    return code;
}

}  // namespace interpreter
}  // namespace fake
