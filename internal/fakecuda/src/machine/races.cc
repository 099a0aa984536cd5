// Races in shared memory: two threads touch the same byte, one of them writes, and nothing orders them. A block barrier orders
// all threads of a block; bar.warp.sync orders the lanes of a warp; that a warp runs in step orders nothing.
#include "program.h"

namespace fake {
namespace machine {

enum { RACE = 719 };

[[noreturn]] static void race(const Warp& w, int thread, int other, u32 offset, const char* how) {
    stop(RACE, "race in shared memory: thread %d %s byte %u, and thread %d did without a barrier between them (warp %u)", thread, how,
         offset, other, w.index);
}

void touch(Warp& w, int lane, u32 offset, u32 bytes, Access access) {
    const bool write = access != READ;
    const u32 now = w.block->barriers + 1;
    const u16 me = (u16)(w.index * LANES + (u32)lane);
    for (u32 b = offset; b < offset + bytes; b++) {
        Touch& t = (*w.block->touches)[b];
        if (t.pending && access != COPY_ENDS)
            stop(RACE, "race in shared memory: thread %d %s byte %u before thread %d has waited for its asynchronous copy", me,
                 write ? "writes" : "reads", b, t.writer);
        t.pending = access == COPY_BEGINS;
        auto ordered = [&](u32 when, u32 other, u32 syncs) {
            return when != now || other == me || (other / LANES == w.index && syncs != w.syncs);
        };
        if (t.written && !ordered(t.written, t.writer, t.write_syncs)) race(w, me, t.writer, b, write ? "writes" : "reads");
        if (write) {
            const bool read_now = t.read == now;
            const bool others = t.many_warps || (t.many_lanes && !(t.reader / LANES == w.index && t.read_syncs != w.syncs));
            if (read_now && (others || !ordered(t.read, t.reader, t.read_syncs))) race(w, me, t.reader, b, "writes");
            t.written = now;
            t.writer = me;
            t.write_syncs = w.syncs;
            continue;
        }
        if (t.read != now) t.many_lanes = t.many_warps = false;
        else if (t.reader / LANES != w.index) t.many_warps = true;
        else if (t.reader != me && t.read_syncs == w.syncs) t.many_lanes = true;
        t.read = now;
        t.reader = me;
        t.read_syncs = w.syncs;
    }
}

}  // namespace machine
}  // namespace fake
