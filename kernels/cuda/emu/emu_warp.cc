// Meetings of lanes. A phase belongs to a mask: lanes that pass the same mask meet, so parts of a warp may meet on their own
// in divergent code.
#include <stdlib.h>

#include "emu_engine.h"

namespace gk {

static Warp* warp_of(Engine* e, int w) {
    if (!e->warps[w]) e->warps[w] = (Warp*)calloc(1, sizeof(Warp));
    return e->warps[w];
}

// find_phase returns the phase that lanes with this mask gather in, a new one if there is none.
static int find_phase(Warp* w, unsigned mask, int operation) {
    for (uint64_t rest = w->used; rest; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest);
        if (!w->phases[i].complete && w->phases[i].mask == mask) return i;
    }
    const int i = __builtin_ctzll(~w->used);
    if (i > WARP) fail(LAUNCH_FAILED, "too many meetings of lanes in one warp");
    w->used |= 1ull << i;
    Phase* p = &w->phases[i];
    p->mask = mask;
    p->arrived = p->left = 0;
    p->operation = operation;
    p->complete = false;
    return i;
}

// complete lets everybody in the phase go on.
static void complete(Warp* w, int warp, int i) {
    Phase* p = &w->phases[i];
    p->complete = true;
    if (w->combine[i]) w->combine[i](p);
    wake(warp, p->arrived);
}

Phase* meet(int operation, unsigned mask, const unsigned* words, int n, void (*combine)(Phase*)) {
    Engine* e = engine();
    const int t = current->thread, warp = t / WARP, me = t % WARP;
    const unsigned bit = 1u << me;
    if (!(mask & bit))
        fail(LAUNCH_FAILED, "lane %d takes part in a warp operation with mask 0x%08x, where it is not in", me, mask);
    Warp* w = warp_of(e, warp);
    const int i = find_phase(w, mask, operation);
    Phase* p = &w->phases[i];
    if (p->operation != operation)
        fail(LAUNCH_FAILED, "lanes of a warp meet for different operations with mask 0x%08x", mask);
    w->combine[i] = combine;
    for (int k = 0; k < n; k++) p->words[me][k] = words[k];
    p->arrived |= bit;
    if (p->arrived == (mask & e->alive[warp])) {
        complete(w, warp, i);
        return p;
    }
    e->runnable[warp] &= ~bit;
    suspend();
    return p;
}

// leave frees the phase when the last lane has gone.
void leave(Phase* p) {
    p->left |= 1u << lane();
    if (p->left != p->arrived) return;
    Warp* w = engine()->warps[current->thread / WARP];
    w->used &= ~(1ull << (p - w->phases));
}

// lane_ended completes what waited for a lane that has ended without coming. The warp has phases in use.
void lane_ended(Engine* e, int warp, unsigned bit) {
    Warp* w = e->warps[warp];
    for (uint64_t rest = w->used; rest; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest);
        const Phase& p = w->phases[i];
        if (!p.complete && (p.mask & bit) && p.arrived == (p.mask & e->alive[warp])) complete(w, warp, i);
    }
}

}  // namespace gk
