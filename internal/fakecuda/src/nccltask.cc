// What collectives of the emulated NCCL do: arithmetic that rounds and treats NaN like NCCL's rings, and the moving of data in pieces.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "nccl.h"

namespace fake {

size_t nccl_size(int type) {
    switch (type) {
        case ncclInt8:
        case ncclUint8: return 1;
        case ncclFloat16:
        case ncclBfloat16: return 2;
        case ncclInt32:
        case ncclFloat32: return 4;
        case ncclInt64:
        case ncclFloat64: return 8;
    }
    return 0;
}

std::string NcclCall::text() const {
    static const char* const names[] = {"ncclBroadcast", "ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclSend", "ncclRecv", "ncclCommFinalize"};
    return format("%s(count %llu, type %d, op %d, root or peer %d)", names[what], (unsigned long long)count, type, op, root);
}

// number and set_number are elements of floating types; half types are in cublas.cc.
static double number(int type, const char* p) {
    switch (type) {
        case ncclFloat64: return *(const double*)p;
        case ncclFloat32: return *(const float*)p;
        case ncclFloat16: return half_value(*(const uint16_t*)p);
    }
    return float_bits((uint32_t) * (const uint16_t*)p << 16);
}

static void set_number(int type, char* p, double v) {
    switch (type) {
        case ncclFloat64: *(double*)p = v; break;
        case ncclFloat32: *(float*)p = (float)v; break;
        case ncclFloat16: *(uint16_t*)p = to_half((float)v); break;
        default: *(uint16_t*)p = to_bfloat((float)v);
    }
}

static bool floating(int type) { return type >= ncclFloat16; }

// round_to is a value as the type holds it.
static double round_to(int type, double v) {
    char buf[8];
    set_number(type, buf, v);
    return number(type, buf);
}

// combine leaves in out one element of all ranks, added up in the order of a ring that begins at a rank, and rounded at each hop. A NaN is lost
// beside a number in fmax and fmin. An average of floating numbers is a sum of what was multiplied before.
static void combine(int type, int op, int size, int first, const std::function<const char*(int)>& of, char* out) {
    if (!floating(type)) {
        int64_t sum = 0;
        for (int i = 0; i < size; i++) {
            int64_t v;
            memcpy(&v, of((first + i) % size), 8);
            sum = i == 0 ? v : op == ncclMax ? std::max(sum, v) : op == ncclMin ? std::min(sum, v) : (int64_t)((uint64_t)sum + (uint64_t)v);
        }
        if (op == ncclAvg) sum /= size;
        memcpy(out, &sum, 8);
        return;
    }
    const double scale = op == ncclAvg ? round_to(type, (float)(1.0 / size)) : 1;
    double sum = 0;
    for (int i = 0; i < size; i++) {
        double v = number(type, of((first + i) % size));
        if (op == ncclAvg) v = round_to(type, v * (type == ncclFloat64 ? 1.0 / size : scale));
        sum = i == 0 ? v : op == ncclMax ? fmax(sum, v) : op == ncclMin ? fmin(sum, v) : round_to(type, sum + v);
    }
    set_number(type, out, sum);
}

// nccl_agree puts the call where the others see it, and waits for theirs. It returns false if they differ, after an abort.
bool nccl_agree(NcclComm* c, const NcclCall& call) {
    c->segment->ranks[c->rank].call = call;
    if (!nccl_barrier(c)) return false;
    for (int r = 0; r < c->size; r++) {
        const NcclCall& other = c->segment->ranks[r].call;
        if (other == call) continue;
        nccl_hang(c, format("rank %d calls %s, rank %d %s", c->rank, call.text().c_str(), r, other.text().c_str()));
        return false;
    }
    return true;
}

// nccl_perform does one collective with the other ranks, in pieces: each puts its own where all see it, then takes what it needs.
void nccl_perform(NcclComm* c, const NcclTask& t) {
    if (!nccl_agree(c, t.call)) return;
    const size_t width = nccl_size(t.call.type), most = nccl_piece / width;
    const int what = t.call.what, size = c->size;
    const uint64_t count = t.call.count, total = what == NCCL_REDUCE_SCATTER ? count * size : count;
    auto data = [&](int r) { return c->segment->ranks[r].data; };
    for (uint64_t at = 0; at < total; at += most) {
        const uint64_t n = std::min<uint64_t>(most, total - at);
        if (what != NCCL_BROADCAST || c->rank == t.call.root) memcpy(data(c->rank), (const char*)t.send + at * width, n * width);
        if (!nccl_barrier(c)) return;
        if (what == NCCL_BROADCAST) memcpy((char*)t.recv + at * width, data(t.call.root), n * width);
        if (what == NCCL_ALL_GATHER)
            for (int r = 0; r < size; r++) memcpy((char*)t.recv + (r * count + at) * width, data(r), n * width);
        for (uint64_t i = 0; i < n && (what == NCCL_ALL_REDUCE || what == NCCL_REDUCE_SCATTER); i++) {
            const uint64_t element = at + i;
            int owner = (int)(element / 64 % size);  // at whom the ring ends
            char* out = (char*)t.recv + element * width;
            if (what == NCCL_REDUCE_SCATTER) {
                owner = (int)(element / count);
                if (owner != c->rank) continue;
                out = (char*)t.recv + element % count * width;
            }
            combine(t.call.type, t.call.op, size, (owner + 1) % size, [&](int r) { return data(r) + i * width; }, out);
        }
        if (!nccl_barrier(c)) return;
    }
}

// A transfer is a message that is under way.
struct Transfer {
    const NcclTask* task;
    uint64_t done = 0;  // bytes
    bool sending() const { return task->call.what == NCCL_SEND; }
    uint64_t bytes() const { return task->call.count * nccl_size(task->call.type); }
};

// step moves a piece if there is one to move, and reports whether it did. A message of other size than the receiver expects is *wrong.
static bool step(NcclComm* c, Transfer* t, std::string* wrong) {
    const int peer = t->task->call.root;
    if (t->sending()) {
        auto& box = c->segment->boxes[c->rank][peer];
        if (box.put != box.taken) return false;
        box.call = t->task->call;
        box.bytes = std::min<uint64_t>(nccl_box, t->bytes() - t->done);
        memcpy(box.data, (const char*)t->task->send + t->done, box.bytes);
        t->done += box.bytes;
        ++box.put;
        return true;
    }
    auto& box = c->segment->boxes[peer][c->rank];
    if (box.put == box.taken) return false;
    if (box.call.count != t->task->call.count || box.call.type != t->task->call.type) {
        *wrong = format("rank %d calls %s, rank %d %s", c->rank, t->task->call.text().c_str(), peer, box.call.text().c_str());
        return false;
    }
    memcpy((char*)t->task->recv + t->done, box.data, box.bytes);
    t->done += box.bytes;
    ++box.taken;
    return true;
}

// nccl_exchange does all sends and receives of a group at once; those with the same peer one after the other.
void nccl_exchange(NcclComm* c, const std::vector<NcclTask>& tasks) {
    std::vector<Transfer> open;
    for (auto& t : tasks) open.push_back({&t});
    std::string wrong;
    while (!open.empty() && wrong.empty()) {
        const bool moved = nccl_wait(c, [&] {
            bool any = false;
            std::set<std::pair<int, bool>> busy;
            for (size_t i = 0; i < open.size() && wrong.empty();) {
                Transfer& t = open[i];
                if (busy.insert({t.task->call.root, t.sending()}).second && step(c, &t, &wrong)) {
                    any = true;
                    if (t.done == t.bytes()) {
                        open.erase(open.begin() + i);
                        continue;
                    }
                }
                i++;
            }
            return any || !wrong.empty();
        });
        if (!moved) return;
    }
    if (!wrong.empty()) nccl_hang(c, wrong);
}

}  // namespace fake
