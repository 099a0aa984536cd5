// Shared memory of a block. Each declaration has a place of its own that ends at a page that cannot be touched, up to 15
// bytes which are checked, as are some before it. It is poisoned when a block starts.
#include <string.h>
#include <sys/mman.h>

#include "emu_engine.h"

namespace gk {

enum { CANARY = 0xCB, POISON = 0xFF, BEFORE = 64 };

static char* room_of(const Engine* e, int i) { return e->shared_memory + (size_t)i * (SHARED_ROOM + PAGE); }
static char* end_of(const Engine* e, int i) { return room_of(e, i) + SHARED_ROOM; }

// poison_array prepares an array for a block: canaries around it, poison inside.
static void poison_array(Engine* e, int i) {
    const SharedArray& a = e->arrays[i];
    memset(a.start - BEFORE, CANARY, BEFORE);
    memset(a.start, POISON, a.bytes);
    memset(a.start + a.bytes, CANARY, end_of(e, i) - (a.start + a.bytes));
}

static SharedArray* add_array(Engine* e, const char* key, const char* name, size_t bytes) {
    const int i = e->array_count++;
    e->arrays[i] = {key, name, end_of(e, i) - (bytes + 15) / 16 * 16, bytes};
    poison_array(e, i);
    return &e->arrays[i];
}

// start_shared forgets the arrays of the last launch. The first is the dynamic one.
void start_shared(Engine* e) {
    if (!e->shared_memory) {
        const size_t all = (size_t)SHARED_ARRAYS * (SHARED_ROOM + PAGE);
        e->shared_memory = (char*)mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (e->shared_memory == MAP_FAILED) __builtin_trap();
        for (int i = 0; i < SHARED_ARRAYS; i++) mprotect(end_of(e, i), PAGE, PROT_NONE);
    }
    e->array_count = 0;
    add_array(e, nullptr, "(dynamic)", e->launch->dynamic_shared);
}

void poison_shared(Engine* e) {
    for (int i = 0; i < e->array_count; i++) poison_array(e, i);
}

// check_shared looks whether a block has written next to an array.
void check_shared(Engine* e) {
    for (int i = 0; i < e->array_count; i++) {
        const SharedArray& a = e->arrays[i];
        for (const char* p = a.start - BEFORE; p < end_of(e, i); p++) {
            if (p == a.start) p += a.bytes;
            if (p >= end_of(e, i) || (unsigned char)*p == CANARY) continue;
            fail_block(ILLEGAL_ADDRESS, "the block wrote %ld bytes %s shared array %s of %zu bytes", (long)(p < a.start ? a.start - p : p - (a.start + a.bytes)),
                       p < a.start ? "before" : "past the end of", a.name, a.bytes);
            return;
        }
    }
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
