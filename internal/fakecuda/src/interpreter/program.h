// Programs and warps. A warp runs one instruction for all its lanes at a time: a register is an array of 32 values, a
// predicate a word with a bit for each lane.
#pragma once

#include <string.h>

#include <unordered_map>

#include "interpreter.h"

namespace fake {
namespace interpreter {

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

enum { LANES = 32, OPERANDS = 16, SHARED_BASE = 1024 };  // the lowest address of shared memory: 0 is no array's
const u32 NOWHERE = ~0u;

struct Warp;
struct Ins;
typedef void (*Handler)(Warp&, const Ins&);

// What an instruction does to the order of instructions.
// clang writes exit, and trap, where it believes that no
// lane will ever be.
enum Flow : u8 { NEXT, BRANCH, EXIT, BARRIER, NEVER };

struct Ins {
    Handler run = nullptr;
    u32 o[OPERANDS];        // places of the operands in a warp's registers, destinations first
    s64 at[2] = {};         // displacements of addresses
    u32 mode = 0;           // what else the handler wants to know
    u8 bytes[OPERANDS];     // of the registers
    u32 guard = NOWHERE;    // place of the predicate it depends on
    bool negated = false;   // the guard
    bool leader = false;    // begins a basic block
    Flow flow = NEXT;
    u32 target = NOWHERE;   // of a branch
    u32 join = NOWHERE;     // where the lanes that a branch parts meet again
    u32 line = 0;           // in Code::lines
};

// Code is one entry point.
struct Code {
    std::string name;
    std::vector<Ins> ins;
    std::vector<std::string> lines;  // the text, for messages
    std::vector<char> registers;     // of a warp, as they are before it begins: poison, and constants
    size_t constants = 0;            // where the constants begin
    std::map<std::string, u32> specials;
    size_t static_shared = 0;
};

// Part is some lanes of a warp, where they go on, and where they wait for the others.
struct Part {
    u32 pc, join, mask;
};

// Copy is an asynchronous copy that has begun.
struct Copy {
    u32 lane, to, bytes, size, group;
    u64 from;
};

struct Block;

struct Warp {
    char* r = nullptr;  // registers
    u32 mask = 0;       // lanes that run the present instruction
    u32 live = 0;       // lanes that have not ended
    u32 pc = 0, join = NOWHERE;
    u32 index = 0;  // in the block
    u32 syncs = 0;  // bar.warp.sync so far
    u32 ballot = 0; // of the lanes, for a barrier that counts
    bool waiting = false;
    Block* block = nullptr;
    std::vector<Part> parts;  // below the running one
    std::vector<Copy> copies;
    u32 groups[LANES] = {};  // of copies, that each lane has closed
};

// Touch is the last that happened to a byte of shared memory.
struct Touch {
    u32 written = 0, read = 0;        // block barriers passed, plus one
    u16 writer = 0, reader = 0;       // threads
    u32 write_syncs = 0, read_syncs = 0;
    bool many_lanes = false, many_warps = false;  // readers since
    bool pending = false;                         // an asynchronous copy that nobody has waited for
};

// Global is what a launch did to each byte of global memory.
struct Global {
    struct Byte {
        u32 writer = 0, reader = 0;  // blocks, plus one; of readers the first
        bool others = false;         // have read it too
        u32 toucher = 0;             // the block that touch belongs to
        Touch touch;
    };
    enum { PAGE = 256 };
    std::unordered_map<u64, std::vector<Byte>> pages;
    u64 last = 0;
    std::vector<Byte>* page = nullptr;
    Byte& at(u64 address) {
        if (!page || last != address / PAGE) {
            page = &pages[last = address / PAGE];
            if (page->empty()) page->resize(PAGE);
        }
        return (*page)[address % PAGE];
    }
};

struct Block {
    const Code* code;
    const gk_launch* launch;
    char* shared;  // SHARED_BASE is at shared[0]
    u32 shared_bytes;
    u32 id[3];
    u32 barriers = 0;
    Counts* counts;
    std::vector<Touch>* touches;  // nullptr unless races are looked for
    Global* global;               // likewise
    u32 number;                   // of this block in the launch, plus one
};

// Stop ends a launch.
struct Stop {
    int code;
    std::string why;
};
[[noreturn]] void stop(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

template <class T>
static inline T* reg(const Warp& w, u32 place) {
    return (T*)(w.r + place);
}

template <class T, class F>
static inline T bits(F x) {
    static_assert(sizeof(T) == sizeof(F), "same size");
    T t;
    memcpy(&t, &x, sizeof t);
    return t;
}

// LANES_DO runs a statement for each lane l of the mask. All 32 at once is what compilers can make vectors of.
#define LANES_DO(w, ...)                                        \
    if ((w).mask == ~0u) {                                      \
        _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++) {  \
            __VA_ARGS__;                                        \
        }                                                       \
    } else {                                                    \
        for (u32 m = (w).mask; m; m &= m - 1) {                 \
            const int l = __builtin_ctz(m);                     \
            __VA_ARGS__;                                        \
        }                                                       \
    }

// Operation is how an instruction is read: its handler, and its operands as letters. A digit is a register or constant of so
// many bytes, p a predicate, a an address; destinations stand before the "=". An operation with a handler for wide registers
// also takes some that are larger than the operands say: loads extend, stores cut off.
struct Operation {
    Handler run = nullptr;
    std::string operands;
    u32 mode = 0;
    Flow flow = NEXT;
    Handler wide = nullptr;
};

// Each returns false for an opcode that is not its own.
bool arithmetic(const std::string& opcode, Operation* out);
bool packing(const std::string& opcode, size_t to, size_t from, Operation* out);  // mov with braces; how many parts
bool comparison(const std::vector<std::string>& words, Operation* out);
bool conversion(const std::vector<std::string>& words, Operation* out);
bool memory(const std::vector<std::string>& words, Operation* out);
bool together(const std::string& opcode, const std::vector<std::string>& words, Operation* out);

// finish_reduction gives a warp the result of bar.red: of all lanes of the block, how many have voted for it.
void finish_reduction(Warp& w, const Ins& i, u32 votes, u32 lanes);

// find_joins finds basic blocks, and where the lanes that each branch parts meet again.
void find_joins(Code* code);

float half_value(u16 h);
u16 half_of(float x);
float bfloat_value(u16 h);
u16 bfloat_of(float x);

// Shared memory of the block, checked.
char* shared_at(Warp& w, u64 address, u32 bytes);
enum Access { READ, WRITE, COPY_BEGINS, COPY_ENDS };
void touch(Warp& w, int lane, u32 offset, u32 bytes, Access access);
void touch_global(Warp& w, int lane, u64 address, u32 bytes, const void* write);
void count_global(Warp& w, const u64* addresses, u32 bytes);
void count_shared(Warp& w, const u64* addresses, u32 bytes);

}  // namespace interpreter
}  // namespace fake
