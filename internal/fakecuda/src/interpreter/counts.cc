// What accesses to memory cost, by the rules that NVIDIA documents: global memory moves in sectors of 32 bytes; shared memory
// has 32 banks of 4 bytes, and serves requests of 8 and 16 bytes by half and quarter warps.
#include <algorithm>

#include "program.h"

namespace fake {
namespace interpreter {

void count_global(Warp& w, const u64* addresses, u32 bytes) {
    Counts& c = *w.block->counts;
    u64 sectors[LANES], begins[LANES];
    int n = 0;
    for (u32 m = w.mask; m; m &= m - 1) {
        const u64 a = addresses[__builtin_ctz(m)];
        begins[n] = a;
        sectors[n++] = a / 32;
    }
    std::sort(sectors, sectors + n);
    std::sort(begins, begins + n);
    c.requests++;
    c.bytes += (u64)n * bytes;
    c.sectors += (u64)(std::unique(sectors, sectors + n) - sectors);
    c.needed += ((u64)(std::unique(begins, begins + n) - begins) * bytes + 31) / 32;
}

void count_shared(Warp& w, const u64* addresses, u32 bytes) {
    Counts& c = *w.block->counts;
    const int group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    c.accesses++;
    for (int from = 0; from < LANES; from += group) {
        u64 words[LANES];
        int n = 0;
        for (int l = from; l < from + group; l++)
            if (w.mask >> l & 1)
                for (u32 b = 0; b < std::max(bytes, 4u); b += 4) words[n++] = addresses[l] / 4 + b / 4;
        if (n == 0) continue;
        std::sort(words, words + n);
        n = (int)(std::unique(words, words + n) - words);
        u32 banks[32] = {}, most = 0;
        for (int k = 0; k < n; k++) most = std::max(most, ++banks[words[k] % 32]);
        c.wavefronts += most;
        c.passes++;
    }
}

}  // namespace interpreter
}  // namespace fake
