// Loads, stores, atomics, and asynchronous copies.
#include <map>

#include "program.h"

namespace fake {
namespace interpreter {

enum { ILLEGAL_ADDRESS = 700, MISALIGNED = 716 };

// Addresses of all lanes; those of 4 bytes are of shared memory.
static void addresses_of(Warp& w, const Ins& i, int operand, int which, u64* out) {
    const u32 place = i.o[operand] & ~(1u << 31);
    const u64 more = (u64)i.at[which];
    if (i.o[operand] >> 31) {
        const u32* const base = reg<u32>(w, place);
        for (int l = 0; l < LANES; l++) out[l] = (u32)(base[l] + more);
    } else {
        const u64* const base = reg<u64>(w, place);
        for (int l = 0; l < LANES; l++) out[l] = base[l] + more;
    }
}

static void check_aligned(const Warp& w, int lane, u64 address, u32 bytes) {
    if (address % bytes)
        stop(MISALIGNED, "lane %d of warp %u: address %#llx is not a multiple of %u", lane, w.index, (unsigned long long)address, bytes);
}

char* shared_at(Warp& w, u64 address, u32 bytes) {
    const Block& b = *w.block;
    if (address < SHARED_BASE || address + bytes > SHARED_BASE + (u64)b.shared_bytes)
        stop(ILLEGAL_ADDRESS, "warp %u: %u bytes at %lld of shared memory, which has %u", w.index, bytes,
             (long long)address - SHARED_BASE, b.shared_bytes);
    return b.shared + (address - SHARED_BASE);
}

enum Space : u32 { GLOBAL, SHARED, PARAMETER, VOLATILE };  // VOLATILE: global memory that others may write meanwhile

// place_of is where the processor finds what a lane asks for. write is what it writes there, or null.
static char* place_of(Warp& w, u32 space, int lane, u64 address, u32 bytes, const void* write) {
    check_aligned(w, lane, address, bytes);
    if (space == GLOBAL && w.block->global) {
        const u64 offset = address - (u64)w.block->shared;  // a generic address may be of shared memory
        if (offset < w.block->shared_bytes) touch(w, lane, (u32)offset, bytes, write ? WRITE : READ);
        else touch_global(w, lane, address, bytes, write);
    }
    if (space == GLOBAL || space == VOLATILE) return (char*)address;
    if (space == PARAMETER) return (char*)w.block->launch->args[0] + address;
    char* const p = shared_at(w, address, bytes);
    if (w.block->touches) touch(w, lane, (u32)(address - SHARED_BASE), bytes, write ? WRITE : READ);
    return p;
}

static void count(Warp& w, u32 space, const u64* addresses, u32 bytes) {
    if (!w.block->counts) return;
    if (space == GLOBAL || space == VOLATILE) count_global(w, addresses, bytes);
    if (space == SHARED) count_shared(w, addresses, bytes);
}

// A register of R takes a value of T in memory: bytes go to registers of 16 bits.
// put and get are for registers whose size is known late.
static void put(const Warp& w, const Ins& i, int operand, int lane, s64 v) {
    if (i.bytes[operand] == 8) reg<u64>(w, i.o[operand])[lane] = (u64)v;
    else if (i.bytes[operand] == 4) reg<u32>(w, i.o[operand])[lane] = (u32)v;
    else reg<u16>(w, i.o[operand])[lane] = (u16)v;
}
static u64 get(const Warp& w, const Ins& i, int operand, int lane) {
    if (i.bytes[operand] == 8) return reg<u64>(w, i.o[operand])[lane];
    if (i.bytes[operand] == 4) return reg<u32>(w, i.o[operand])[lane];
    return reg<u16>(w, i.o[operand])[lane];
}

// WIDE: registers may be larger than R.
template <class T, class R, int N, bool WIDE>
static void load(Warp& w, const Ins& i) {
    u64 a[LANES];
    addresses_of(w, i, N, 0, a);
    count(w, i.mode, a, sizeof(T) * N);
    for (u32 m = w.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const char* const p = place_of(w, i.mode, l, a[l], sizeof(T) * N, nullptr);
        T v[N];
        memcpy(v, p, sizeof v);
        for (int k = 0; k < N; k++)
            if (WIDE) put(w, i, k, l, (s64)v[k]);
            else reg<R>(w, i.o[k])[l] = (R)v[k];
    }
}

template <class T, class R, int N, bool WIDE>
static void store(Warp& w, const Ins& i) {
    u64 a[LANES];
    addresses_of(w, i, 0, 0, a);
    count(w, i.mode, a, sizeof(T) * N);
    for (u32 m = w.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        T v[N];
        for (int k = 0; k < N; k++) v[k] = WIDE ? (T)get(w, i, 1 + k, l) : (T)reg<R>(w, i.o[1 + k])[l];
        char* const p = place_of(w, i.mode, l, a[l], sizeof v, v);
        memcpy(p, v, sizeof v);
    }
}

template <class T, class R, bool WIDE>
static Handler mover(bool loads, int n) {
    if (n == 1) return loads ? load<T, R, 1, WIDE> : store<T, R, 1, WIDE>;
    if (n == 2) return loads ? load<T, R, 2, WIDE> : store<T, R, 2, WIDE>;
    if constexpr (sizeof(T) <= 4) {
        if (n == 4) return loads ? load<T, R, 4, WIDE> : store<T, R, 4, WIDE>;
    }
    return nullptr;
}

template <class T, class R>
static bool movers(bool loads, int n, u32 space, Operation* out) {
    const std::string values((size_t)n, (char)('0' + sizeof(R)));
    *out = {mover<T, R, false>(loads, n), loads ? values + "=a" : "=a" + values, space, NEXT, mover<T, R, true>(loads, n)};
    return out->run != nullptr;
}

static bool movers_of(const std::string& type, bool loads, int n, u32 space, Operation* out) {
    const bool is_signed = type[0] == 's';
    const std::string digits = type.substr(1);
    if (digits == "64") return movers<u64, u64>(loads, n, space, out);
    if (digits == "32") return is_signed ? movers<s32, u32>(loads, n, space, out) : movers<u32, u32>(loads, n, space, out);
    if (digits == "16") return is_signed ? movers<s16, u16>(loads, n, space, out) : movers<u16, u16>(loads, n, space, out);
    if (digits == "8") return is_signed ? movers<s8, u16>(loads, n, space, out) : movers<u8, u16>(loads, n, space, out);
    return false;
}

// ---- atomics: old value, then what takes its place. Lanes are served one after the other.
struct AtomicAdd { template <class T> static T of(T a, T b, T) { return (T)(a + b); } };
struct AtomicAddHalf { static u16 of(u16 a, u16 b, u16) { return half_of(half_value(a) + half_value(b)); } };
struct AtomicMin { template <class T> static T of(T a, T b, T) { return a < b ? a : b; } };
struct AtomicMax { template <class T> static T of(T a, T b, T) { return a > b ? a : b; } };
struct AtomicAnd { template <class T> static T of(T a, T b, T) { return a & b; } };
struct AtomicOr { template <class T> static T of(T a, T b, T) { return a | b; } };
struct AtomicXor { template <class T> static T of(T a, T b, T) { return a ^ b; } };
struct AtomicExch { template <class T> static T of(T, T b, T) { return b; } };
struct AtomicCas { template <class T> static T of(T a, T b, T c) { return a == b ? c : a; } };

static std::mutex& atomics() {
    static auto& mu = *new std::mutex;  // blocks run on several threads
    return mu;
}

template <class T, class F, bool THIRD>
static void atomic(Warp& w, const Ins& i) {
    u64 a[LANES];
    addresses_of(w, i, 1, 0, a);
    count(w, i.mode, a, sizeof(T));
    for (u32 m = w.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        check_aligned(w, l, a[l], sizeof(T));
        T* const p = (T*)(i.mode == SHARED ? shared_at(w, a[l], sizeof(T)) : (char*)a[l]);
        volatile T first = *p;  // a fault is before the lock
        (void)first;
        std::lock_guard<std::mutex> lock(atomics());
        T before;
        memcpy(&before, p, sizeof before);
        const T after = F::of(before, reg<T>(w, i.o[2])[l], THIRD ? reg<T>(w, i.o[3])[l] : T());
        memcpy(p, &after, sizeof after);
        reg<T>(w, i.o[0])[l] = before;
    }
}

template <class T>
static bool atomic_of(const std::string& name, Operation* out) {
    const std::string n(1, (char)('0' + sizeof(T))), two = n + "=a" + n;
    if (name == "add") return *out = {atomic<T, AtomicAdd, false>, two}, true;
    if (name == "exch") return *out = {atomic<T, AtomicExch, false>, two}, true;
    if constexpr (std::is_integral<T>::value) {
        if (name == "min") return *out = {atomic<T, AtomicMin, false>, two}, true;
        if (name == "max") return *out = {atomic<T, AtomicMax, false>, two}, true;
        if (name == "and") return *out = {atomic<T, AtomicAnd, false>, two}, true;
        if (name == "or") return *out = {atomic<T, AtomicOr, false>, two}, true;
        if (name == "xor") return *out = {atomic<T, AtomicXor, false>, two}, true;
        if (name == "cas") return *out = {atomic<T, AtomicCas, true>, two + n}, true;
    }
    return false;
}

static bool atomic_operation(const std::vector<std::string>& words, Operation* out) {
    if (words.size() < 3) return false;
    const size_t space = words[1] == "global" || words[1] == "shared" ? 1 : 0;
    if (words.back() == "f16" && words[words.size() - 2] == "noftz" && words[1 + space] == "add")
        return *out = {atomic<u16, AtomicAddHalf, false>, "2=a2", words[1] == "shared" ? SHARED : GLOBAL}, true;
    if (words.size() != 3 + space) return false;
    const std::string &name = words[1 + space], &t = words[2 + space];
    bool ok = false;
    if (t == "u32" || t == "b32") ok = atomic_of<u32>(name, out);
    if (t == "s32") ok = atomic_of<s32>(name, out);
    if (t == "u64" || t == "b64") ok = atomic_of<u64>(name, out);
    if (t == "s64") ok = atomic_of<s64>(name, out);
    if (t == "b16") ok = atomic_of<u16>(name, out);
    if (t == "f32") ok = atomic_of<float>(name, out);
    if (t == "f64") ok = atomic_of<double>(name, out);
    if (ok) out->mode = words[1] == "shared" ? SHARED : GLOBAL;
    return ok;
}

// ---- cp.async: begins now, is done when the lane waits for its group, which is as late as it may be.
static void copy_async(Warp& w, const Ins& i) {
    u64 to[LANES], from[LANES];
    addresses_of(w, i, 0, 0, to);
    addresses_of(w, i, 1, 1, from);
    const u32 size = *reg<u32>(w, i.o[2]);
    const u32* const bytes = i.mode ? reg<u32>(w, i.o[3]) : reg<u32>(w, i.o[2]);
    count(w, SHARED, to, size);
    count(w, GLOBAL, from, size);
    for (u32 m = w.mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        check_aligned(w, l, to[l], size);
        check_aligned(w, l, from[l], size);
        shared_at(w, to[l], size);
        if (bytes[l] > size) stop(ILLEGAL_ADDRESS, "cp.async of %u bytes reads %u", size, bytes[l]);
        if (w.block->touches) touch(w, l, (u32)(to[l] - SHARED_BASE), size, COPY_BEGINS);
        if (w.block->global) touch_global(w, l, from[l], bytes[l], nullptr);
        w.copies.push_back({(u32)l, (u32)(to[l] - SHARED_BASE), bytes[l], size, w.groups[l], from[l]});
    }
}
static void copy_commit(Warp& w, const Ins&) {
    for (u32 m = w.mask; m; m &= m - 1) w.groups[__builtin_ctz(m)]++;
}

// copy_wait makes the copies of all but the newest groups; mode 1: of all.
static void copy_wait(Warp& w, const Ins& i) {
    const u32 open = i.mode ? 0 : *reg<u32>(w, i.o[0]);
    size_t kept = 0;
    for (size_t k = 0; k < w.copies.size(); k++) {
        const Copy c = w.copies[k];
        const bool mine = w.mask >> c.lane & 1, due = i.mode || c.group + open < w.groups[c.lane];
        if (!mine || !due) {
            w.copies[kept++] = c;
            continue;
        }
        if (w.block->touches) touch(w, (int)c.lane, c.to, c.size, COPY_ENDS);
        memcpy(w.block->shared + c.to, (const char*)c.from, c.bytes);
        memset(w.block->shared + c.to + c.bytes, 0, c.size - c.bytes);
    }
    w.copies.resize(kept);
}

static bool copies(const std::vector<std::string>& words, Operation* out) {
    if (words.size() < 3 || words[1] != "async") return false;
    const std::string& what = words[2];
    if (what == "commit_group") return *out = {copy_commit, "="}, true;
    if (what == "wait_group") return *out = {copy_wait, "=4"}, true;
    if (what == "wait_all") return *out = {copy_wait, "=", 1}, true;
    if ((what == "ca" || what == "cg") && words.size() == 5) return *out = {copy_async, "=aa44", 1}, true;
    return false;
}

bool memory(const std::vector<std::string>& words, Operation* out) {
    if (words[0] == "cp") return copies(words, out);
    if (words[0] == "atom") return atomic_operation(words, out);
    const bool loads = words[0] == "ld";
    if (!loads && words[0] != "st") return false;
    u32 space = GLOBAL;
    int n = 1;
    bool unordered = false;
    for (size_t k = 1; k + 1 < words.size(); k++) {
        const std::string& word = words[k];
        if (word == "shared") space = SHARED;
        else if (word == "param") space = PARAMETER;
        else if (word == "v2" || word == "v4") n = word[1] - '0';
        else if (word == "volatile") unordered = true;
        else if (word != "global" && word != "nc") return false;
    }
    if (unordered && space == GLOBAL) space = VOLATILE;
    return movers_of(words.back(), loads, n, space, out);
}

}  // namespace interpreter
}  // namespace fake
