// The engine: schedules, barriers, launches. emu_engine.h tells how it works.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_engine.h"
#include "emu_table.h"

namespace gk {

static void set_current(Engine* e, int t) {
    current->thread = t;
    current->thread_index = e->index[t];
}

// below and above are the lanes of a word on either side of a lane.
static unsigned below(unsigned word, int lane) { return word & ((1u << lane) - 1); }
static unsigned above(unsigned word, int lane) { return lane == 31 ? 0 : word >> (lane + 1) << (lane + 1); }
static int first(unsigned word) { return __builtin_ctz(word); }
static int last(unsigned word) { return 31 - __builtin_clz(word); }

// next_after returns the thread that the schedule runs after t, or -1 if none can run.
static int next_after(const Engine* e, int t) {
    const int warps = (e->threads + WARP - 1) / WARP, w = t / WARP, lane = t % WARP;
    const unsigned word = e->runnable[w];
    if (e->greedy) {
        if (unsigned rest = below(word, lane)) return w * WARP + last(rest);
        if (word) return w * WARP + last(word);
        for (int i = 1; i < warps; i++) {
            const int v = (w - i + warps) % warps;
            if (e->runnable[v]) return v * WARP + last(e->runnable[v]);
        }
        return -1;
    }
    if (unsigned rest = above(word, lane)) return w * WARP + first(rest);
    for (int i = 1; i <= warps; i++) {
        const int v = (w + i) % warps;
        if (e->runnable[v]) return v * WARP + first(e->runnable[v]);
    }
    return -1;
}

// leave_block ends the block from wherever it is. Fibers in the middle of something are set to their start.
static void leave_block(Engine* e) {
    void* nowhere;
    gk_switch(&nowhere, e->main_sp);
    __builtin_unreachable();
}

static void set_message(Engine* e, int code, const char* format, va_list args) {
    const Dim b = current->block_index, t = current->thread_index;
    const int n =
        snprintf(e->message, sizeof e->message, "block (%u,%u,%u), thread (%u,%u,%u): ", b.x, b.y, b.z, t.x, t.y, t.z);
    vsnprintf(e->message + n, sizeof e->message - n, format, args);
    e->code = code;
}

void fail(int code, const char* format, ...) {
    va_list args;
    va_start(args, format);
    set_message(own(), code, format, args);
    va_end(args);
    leave_block(own());
    __builtin_unreachable();
}

// fail_block notes a failure from outside of the threads, after the block's end.
void fail_block(int code, const char* format, ...) {
    va_list args;
    va_start(args, format);
    set_message(own(), code, format, args);
    va_end(args);
}

[[noreturn]] static void deadlock(Engine* e) {
    if (e->waiting)
        fail(LAUNCH_FAILED, "deadlock: %d of %d threads wait at the barrier in %s:%d, the others for lanes of their warp",
             e->waiting, e->live, e->file, e->line);
    fail(LAUNCH_FAILED, "deadlock: lanes of a warp wait for others that wait elsewhere");
}

// resume switches to thread n, which begins if it has not yet.
static void resume(Engine* e, int n, void** save) {
    if (!e->fiber[n]) e->fiber[n] = take_fiber(e);
    e->running = e->fiber[n];
    set_current(e, n);
    gk_switch(save, e->running->sp);
}

void suspend() {
    Engine* e = own();
    const int n = next_after(e, current->thread);
    if (n < 0) deadlock(e);
    if (n == current->thread) return;
    resume(e, n, &e->running->sp);
}

void wake(int warp, unsigned lanes) { own()->runnable[warp] |= lanes; }

static int release_barrier(Engine* e) {
    const int r = e->result[e->parity] = e->count;
    e->parity ^= 1;
    e->waiting = e->count = 0;
    for (int w = 0; w < MAX_WARPS; w++) {
        e->runnable[w] |= e->at_barrier[w];
        e->at_barrier[w] = 0;
    }
    return r;
}

int barrier(int p, const char* file, int line) {
    Engine* e = own();
    const int t = current->thread;
    if (removed(file, line)) return p;
    if (e->waiting && (line != e->line || strcmp(file, e->file) != 0))
        fail(LAUNCH_FAILED, "threads of one block wait at two barriers: %s:%d and %s:%d", e->file, e->line, file, line);
    e->file = file;
    e->line = line;
    e->count += p;
    if (++e->waiting == e->live) return release_barrier(e);
    const int mine = e->parity;
    e->at_barrier[t / WARP] |= 1u << t % WARP;
    e->runnable[t / WARP] &= ~(1u << t % WARP);
    suspend();
    return e->result[mine];
}

// thread_ended takes a thread out of what others wait for.
static void thread_ended(Engine* e, int t) {
    const unsigned bit = 1u << t % WARP;
    e->fiber[t] = nullptr;
    e->runnable[t / WARP] &= ~bit;
    e->alive[t / WARP] &= ~bit;
    if (e->copies[t].group | e->copies[t].count) e->copies[t].count = e->copies[t].group = 0;
    --e->live;
    if (e->waiting && e->waiting == e->live) release_barrier(e);
    if (e->warps[t / WARP] && e->warps[t / WARP]->used) lane_ended(e, t / WARP, bit);
}

// fiber_main runs threads to their ends, one after the other, while they have not begun elsewhere.
void fiber_main() {
    Engine* e = own();
    for (;;) {
        e->call(e->launch->args);
        Fiber* const me = e->running;
        thread_ended(e, current->thread);
        const int n = next_after(e, current->thread);
        if (n < 0 && e->live > 0) deadlock(e);
        if (n >= 0 && !e->fiber[n]) {
            e->fiber[n] = me;
            set_current(e, n);
            continue;
        }
        give_fiber(e, me);
        if (n < 0)
            gk_switch(&me->sp, e->main_sp);
        else
            resume(e, n, &me->sp);
    }
}

static void start_launch(Engine* e, const gk_launch* l, void (*call)(void**)) {
    e->launch = l;
    e->call = call;
    e->greedy = l->greedy != 0;
    e->threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    e->code = 0;
    e->free = nullptr;
    for (int i = 0; i < e->fibers; i++) {  // the last launch may have been cut short
        prepare(&e->all[i]);
        give_fiber(e, &e->all[i]);
    }
    memset(e->fiber, 0, sizeof e->fiber);
    for (Copies& c : e->copies) c.count = c.group = 0;
    for (int t = 0; t < e->threads; t++)
        e->index[t] = {t % l->block[0], t / l->block[0] % l->block[1], t / (l->block[0] * l->block[1])};
    current->block_dim = {l->block[0], l->block[1], l->block[2]};
    current->grid_dim = {l->grid[0], l->grid[1], l->grid[2]};
    start_shared(e);
}

static void start_block(Engine* e, uint64_t b) {
    const unsigned* grid = e->launch->grid;
    current->block_index = {(unsigned)(b % grid[0]), (unsigned)(b / grid[0] % grid[1]),
                            (unsigned)(b / ((uint64_t)grid[0] * grid[1]))};
    e->live = e->threads;
    e->waiting = e->count = e->parity = 0;
    for (int w = 0; w < MAX_WARPS; w++) {
        const int lanes = e->threads - w * WARP;
        e->runnable[w] = e->alive[w] = lanes <= 0 ? 0 : lanes >= WARP ? ~0u : (1u << lanes) - 1;
        e->at_barrier[w] = 0;
        if (e->warps[w]) e->warps[w]->used = 0;
    }
    poison_shared(e);
}

int run_launch(const gk_launch* l, void (*call)(void**), int (*run)(const gk_launch*)) {
    Engine* e = engine();
    name_kernel(e, run);
    start_launch(e, l, call);
    const uint64_t blocks = l->last_block - l->first_block;
    for (uint64_t i = 0; i < blocks && e->code == 0; i++) {
        start_block(e, e->greedy ? l->last_block - 1 - i : l->first_block + i);
        resume(e, e->greedy ? e->threads - 1 : 0, &e->main_sp);
        if (e->code == 0) check_shared(e);
    }
    if (e->code) snprintf(l->message, l->message_size, "%s", e->message);
    return e->code;
}

static Registration* registrations;

Registration::Registration(const gk_kernel* kernels, int count) : kernels(kernels), count(count), next(registrations) {
    registrations = this;
}

}  // namespace gk

GK_EXPORT int gk_abi() { return GK_ABI; }

GK_EXPORT const gk_kernel* gk_kernels(int* count) {
    static gk_kernel* all = nullptr;
    static int n = 0;
    if (!all) {
        for (gk::Registration* r = gk::registrations; r; r = r->next) n += r->count;
        all = (gk_kernel*)calloc((size_t)n + 1, sizeof *all);
        int at = 0;
        for (gk::Registration* r = gk::registrations; r; r = r->next)
            for (int i = 0; i < r->count; i++) all[at++] = r->kernels[i];
    }
    *count = n;
    return all;
}

GK_EXPORT size_t gk_where(uint64_t address, char* out, size_t room) {
    const gk::Engine* e = gk::own();
    if (!e || room == 0) return 0;
    const gk::Dim b = gk::current->block_index, t = gk::current->thread_index;
    int n = snprintf(out, room, ", block (%u,%u,%u), thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
    const int i = gk::array_of(e, address);
    if (i >= 0) {
        const gk::SharedArray& a = e->arrays[i];
        n += snprintf(out + n, room - n, ", byte %lld of shared array %s of %zu bytes",
                      (long long)(address - (uint64_t)a.start), a.name, a.bytes);
    }
    for (int i = 0; i < e->fibers; i++) {
        const uint64_t stack = (uint64_t)e->all[i].stack;
        if (address >= stack - gk::PAGE && address < stack)
            n += snprintf(out + n, room - n, ", stack overflow: a thread has %d KiB", gk::STACK >> 10);
    }
    return (size_t)n;
}
