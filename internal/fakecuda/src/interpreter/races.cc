// Races: two threads touch the same byte, one of them writes, and nothing orders them. A block barrier orders
// all threads of a block; bar.warp.sync orders the lanes of a warp; that a warp runs in step orders nothing.
#include "program.h"

namespace fake {
namespace interpreter {

enum { RACE = 719 };

// Touches are of bytes of shared memory, or of global memory, which the threads of one block share as well. Between blocks of one
// launch nothing orders anything: what one writes, others must not touch. Atomics and volatile accesses are left out.
[[noreturn]] static void race(const Warp& w, const char* memory, u64 at, int thread, const char* how, int other) {
    stop(RACE, "race in %s memory: thread %d %s byte %llu, and thread %d did without a barrier between them (warp %u)", memory, thread,
         how, (unsigned long long)at, other, w.index);
}

// touch_one is an access of a thread to a byte that only its block touches.
static void touch_one(const Warp& w, int lane, Touch& t, Access access, const char* memory, u64 at) {
    const bool write = access != READ;
    const u32 now = w.block->barriers + 1;
    const u16 me = (u16)(w.index * LANES + (u32)lane);
    const char* const how = write ? "writes" : "reads";
    if (t.pending && access != COPY_ENDS)
        stop(RACE, "race in %s memory: thread %d %s byte %llu before thread %d has waited for its asynchronous copy", memory, me, how,
             (unsigned long long)at, t.writer);
    t.pending = access == COPY_BEGINS;
    auto ordered = [&](u32 when, u32 other, u32 syncs) {
        return when != now || other == me || (other / LANES == w.index && syncs != w.syncs);
    };
    if (t.written && !ordered(t.written, t.writer, t.write_syncs)) race(w, memory, at, me, how, t.writer);
    if (write) {
        const bool others = t.many_warps || (t.many_lanes && !(t.reader / LANES == w.index && t.read_syncs != w.syncs));
        if (t.read == now && (others || !ordered(t.read, t.reader, t.read_syncs))) race(w, memory, at, me, how, t.reader);
        t.written = now;
        t.writer = me;
        t.write_syncs = w.syncs;
        return;
    }
    if (t.read != now) t.many_lanes = t.many_warps = false;
    else if (t.reader / LANES != w.index) t.many_warps = true;
    else if (t.reader != me && t.read_syncs == w.syncs) t.many_lanes = true;
    t.read = now;
    t.reader = me;
    t.read_syncs = w.syncs;
}

void touch(Warp& w, int lane, u32 offset, u32 bytes, Access access) {
    for (u32 b = offset; b < offset + bytes; b++) touch_one(w, lane, (*w.block->touches)[b], access, "shared", b);
}

// Threads may write the same to the same place: a flag that some of them set.
void touch_global(Warp& w, int lane, u64 address, u32 bytes, const void* write) {
    const u32 me = w.block->number;
    const bool same = write && memcmp((const void*)address, write, bytes) == 0;
    for (u64 a = address; a < address + bytes; a++) {
        Global::Byte& b = w.block->global->at(a);
        if (same && b.writer) continue;
        const bool written = b.writer && b.writer != me, read = b.others || (b.reader && b.reader != me);
        if (written || (write && read))
            stop(RACE, "race in global memory: block %u %s the byte at %#llx, which block %u %s", me - 1, write ? "writes" : "reads",
                 (unsigned long long)a, (written ? b.writer : b.reader) - 1, written ? "writes" : "reads");
        if (b.toucher != me) b.touch = Touch();
        b.toucher = me;
        touch_one(w, lane, b.touch, write ? WRITE : READ, "global", a);
        if (write) b.writer = me;
        else if (!b.reader || b.reader == me) b.reader = me;
        else b.others = true;
    }
}

}  // namespace interpreter
}  // namespace fake
