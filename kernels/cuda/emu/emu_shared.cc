// Shared memory of a block. Each declaration has a room of its own, at whose end it lies:
//
//	| cannot be touched | canary | array | canary, at most 15 bytes | cannot be touched: the next room, or the last page |
//
// It is poisoned when a block starts, and the canaries are checked when it ends.
#include <string.h>
#include <sys/mman.h>

#include "emu_engine.h"

namespace gk {

enum { CANARY = 0xCB, POISON = 0xFF };

static char canaries[PAGE + 16];

// A room ends with a page that is never opened.
static char* room_of(const Engine* e, int i) { return e->shared_memory + (size_t)i * SHARED_ROOM; }
static char* end_of(const Engine* e, int i) { return room_of(e, i) + SHARED_ROOM - PAGE; }

// open_from makes [from, end of the room) accessible, and what is below it not.
static void open_from(Engine* e, int i, char* from) {
    char* const was = e->lowest[i];
    if (from < was) mprotect(from, was - from, PROT_READ | PROT_WRITE);
    if (from > was) mprotect(was, from - was, PROT_NONE);
    e->lowest[i] = from;
}

// poison_array prepares an array for a block: canaries around it, poison inside.
static void poison_array(Engine* e, int i) {
    const SharedArray& a = e->arrays[i];
    memset(e->lowest[i], CANARY, a.start - e->lowest[i]);
    memset(a.start, POISON, a.bytes);
    memset(a.start + a.bytes, CANARY, end_of(e, i) - (a.start + a.bytes));
}

static SharedArray* add_array(Engine* e, const char* key, const char* name, size_t bytes) {
    const int i = e->array_count++;
    char* const start = end_of(e, i) - (bytes + 15) / 16 * 16;
    e->arrays[i] = {key, name, start, bytes};
    open_from(e, i, (char*)((uintptr_t)start / PAGE * PAGE));
    poison_array(e, i);
    return &e->arrays[i];
}

// start_shared forgets the arrays of the last launch. The first is the dynamic one.
void start_shared(Engine* e) {
    if (!e->shared_memory) {
        memset(canaries, CANARY, sizeof canaries);
        const size_t all = (size_t)SHARED_ARRAYS * SHARED_ROOM;
        e->shared_memory = (char*)mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (e->shared_memory == MAP_FAILED) __builtin_trap();
        for (int i = 0; i < SHARED_ARRAYS; i++) e->lowest[i] = end_of(e, i);
    }
    e->array_count = 0;
    add_array(e, nullptr, "(dynamic)", e->launch->dynamic_shared);
}

void poison_shared(Engine* e) {
    for (int i = 0; i < e->array_count; i++) poison_array(e, i);
}

// first_change returns the first byte of [p, p+n) that is not a canary, or null.
static const char* first_change(const char* p, size_t n) {
    if (memcmp(p, canaries, n) == 0) return nullptr;
    while ((unsigned char)*p == CANARY) p++;
    return p;
}

// check_shared looks whether a block has written next to an array.
void check_shared(Engine* e) {
    for (int i = 0; i < e->array_count; i++) {
        const SharedArray& a = e->arrays[i];
        const char* const after = a.start + a.bytes;
        const char* p = first_change(e->lowest[i], a.start - e->lowest[i]);
        if (!p) p = first_change(after, end_of(e, i) - after);
        if (!p) continue;
        fail_block(ILLEGAL_ADDRESS, "the block wrote to byte %ld of shared array %s of %zu bytes", (long)(p - a.start),
                   a.name, a.bytes);
        return;
    }
}

// array_of returns the array that an address outside of all arrays was probably meant for: the nearest one; or -1 if the
// address is none of shared memory.
int array_of(const Engine* e, uint64_t address) {
    const uint64_t base = (uint64_t)e->shared_memory;
    if (!base || address < base - SHARED_ROOM || address >= base + (size_t)(SHARED_ARRAYS + 1) * SHARED_ROOM) return -1;
    int best = -1;
    uint64_t distance = SHARED_ROOM;
    for (int i = 0; i < e->array_count; i++) {
        const uint64_t start = (uint64_t)e->arrays[i].start, end = start + e->arrays[i].bytes;
        const uint64_t d = address < start ? start - address : address - end;
        if (e->arrays[i].bytes && d < distance) {
            distance = d;
            best = i;
        }
    }
    return best;
}

void* shared(const char* key, const char* name, size_t bytes) {
    Engine* e = engine();
    size_t sum = bytes;
    for (int i = 1; i < e->array_count; i++) {
        if (e->arrays[i].key == key) return e->arrays[i].start;
        sum += e->arrays[i].bytes;
    }
    if (sum > STATIC_LIMIT) fail(LAUNCH_FAILED, "%zu bytes of static shared memory, %d are allowed", sum, STATIC_LIMIT);
    if (e->array_count == SHARED_ARRAYS) fail(LAUNCH_FAILED, "more than %d shared arrays in one kernel", SHARED_ARRAYS - 1);
    return add_array(e, key, name, bytes)->start;
}

void* dynamic_shared() { return engine()->arrays[0].start; }

}  // namespace gk
