// Where lanes meet again: the immediate post-dominator of each branch, as the hardware's compilers place it.
#include <algorithm>

#include "program.h"

namespace fake {
namespace interpreter {

// Graph is the blocks of a program, and one more that stands for its end.
struct BlockGraph {
    std::vector<u32> first;                // instruction of each block
    std::vector<std::vector<u32>> next;    // blocks
    std::vector<std::vector<u32>> before;
    u32 end() const { return (u32)first.size(); }
};

static BlockGraph blocks_of(Code* code) {
    BlockGraph g;
    std::vector<Ins>& ins = code->ins;
    ins[0].leader = true;
    for (size_t i = 0; i < ins.size(); i++) {
        if (ins[i].flow == BRANCH) ins[ins[i].target].leader = true;
        if ((ins[i].flow == BRANCH || ins[i].flow == EXIT || ins[i].flow == NEVER) && i + 1 < ins.size()) ins[i + 1].leader = true;
    }
    std::vector<u32> block(ins.size());
    for (u32 i = 0; i < ins.size(); i++) {
        if (ins[i].leader) g.first.push_back(i);
        block[i] = (u32)g.first.size() - 1;
    }
    g.next.resize(g.first.size() + 1);
    g.before.resize(g.first.size() + 1);
    auto edge = [&](u32 from, u32 to) {
        g.next[from].push_back(to);
        g.before[to].push_back(from);
    };
    for (u32 b = 0; b < g.first.size(); b++) {
        const u32 last = (b + 1 < g.first.size() ? g.first[b + 1] : (u32)ins.size()) - 1;
        const Ins& i = ins[last];
        const bool falls = i.guard != NOWHERE || i.flow == NEXT || i.flow == BARRIER;
        if (i.flow == BRANCH) edge(b, block[i.target]);
        if (i.flow == EXIT) edge(b, g.end());
        if (falls && last + 1 < ins.size()) edge(b, b + 1);
    }
    return g;
}

// order lists blocks so that, seen from the end, each stands after one that it leads to.
static std::vector<u32> order_from_end(const BlockGraph& g) {
    std::vector<u32> out;
    std::vector<char> seen(g.next.size());
    std::vector<std::pair<u32, size_t>> stack = {{g.end(), 0}};
    seen[g.end()] = 1;
    while (!stack.empty()) {
        auto& top = stack.back();
        if (top.second < g.before[top.first].size()) {
            const u32 b = g.before[top.first][top.second++];
            if (!seen[b]) seen[b] = 1, stack.push_back({b, 0});
        } else {
            out.push_back(top.first);
            stack.pop_back();
        }
    }
    std::reverse(out.begin(), out.end());
    return out;
}

// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the graph turned round.
static std::vector<u32> post_dominators(const BlockGraph& g) {
    const std::vector<u32> order = order_from_end(g);
    std::vector<u32> rank(g.next.size(), NOWHERE), idom(g.next.size(), NOWHERE);
    for (u32 i = 0; i < order.size(); i++) rank[order[i]] = i;
    idom[g.end()] = g.end();
    for (bool changed = true; changed;) {
        changed = false;
        for (u32 b : order) {
            if (b == g.end()) continue;
            u32 now = NOWHERE;
            for (u32 n : g.next[b]) {
                if (idom[n] == NOWHERE) continue;
                if (now == NOWHERE) {
                    now = n;
                    continue;
                }
                u32 a = n;
                while (a != now) {
                    while (rank[a] > rank[now]) a = idom[a];
                    while (rank[now] > rank[a]) now = idom[now];
                }
            }
            if (idom[b] != now) idom[b] = now, changed = true;
        }
    }
    return idom;
}

void find_joins(Code* code) {
    const BlockGraph g = blocks_of(code);
    const std::vector<u32> idom = post_dominators(g);
    for (u32 b = 0; b < g.first.size(); b++) {
        Ins& last = code->ins[(b + 1 < g.first.size() ? g.first[b + 1] : (u32)code->ins.size()) - 1];
        if (last.flow != BRANCH || idom[b] == NOWHERE || idom[b] == g.end()) continue;
        const Ins& first = code->ins[g.first[idom[b]]];
        const bool ends = first.flow == EXIT && first.guard == NOWHERE;  // nobody waits for others only to end
        if (!ends) last.join = g.first[idom[b]];
    }
}

}  // namespace interpreter
}  // namespace fake
