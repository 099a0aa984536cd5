// The emulated NCCL: what its files share. Numbers and layouts are those of nccl.h; a test compares them with that header.
//
// The ranks of a communicator are threads of one process or processes of one machine. They meet in a segment of shared memory that the unique
// id names (ncclwire.cc), where each puts what it is about to do, and its data piece by piece. A collective is a piece of work of its stream:
// calls return when it is enqueued.
#pragma once

#include <atomic>

#include "fake.h"

namespace fake {

enum NcclResult {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
};
enum NcclType {  // ncclDataType_t
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt64 = 4,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9
};
enum NcclOp { ncclSum = 0, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };  // ncclRedOp_t
enum NcclCollective { NCCL_BROADCAST, NCCL_ALL_REDUCE, NCCL_REDUCE_SCATTER, NCCL_ALL_GATHER, NCCL_SEND, NCCL_RECV, NCCL_FINALIZE };

struct ncclUniqueId {
    char internal[128];
};

// The part of ncclConfig_t that all versions since 2.14 have; what is behind it is not looked at.
struct ncclConfig_t {
    size_t size;
    unsigned magic, version;
    int blocking;
};

// What all ranks must agree on.
struct NcclCall {
    int what = 0, type = 0, op = 0, root = 0;
    uint64_t count = 0;
    bool operator==(const NcclCall& o) const {
        return what == o.what && type == o.type && op == o.op && root == o.root && count == o.count;
    }
    std::string text() const;
};

// NcclTask is one collective, send or receive of a rank.
struct NcclTask {
    NcclCall call;  // of Send and Recv, root is the peer
    uint64_t send = 0, recv = 0;
    CUstream stream = nullptr;
    std::string made_by;
};

constexpr int nccl_ranks = 16;  // at most
constexpr size_t nccl_piece = 1 << 20, nccl_box = 256 << 10;

// NcclSegment is the shared memory. A new one is all zeros.
struct NcclSegment {
    struct Rank {
        std::atomic<int> pid, device;  // device: the number and 1
        std::atomic<uint64_t> phase;   // how many barriers it has come to
        std::atomic<int> gone;         // it was aborted or destroyed
        NcclCall call;
        alignas(64) char data[nccl_piece];
    };
    struct Box {  // a message between two ranks, in pieces
        std::atomic<uint64_t> put, taken;
        NcclCall call;
        size_t bytes;  // of the piece
        alignas(64) char data[nccl_box];
    };
    std::atomic<int> size;
    Rank ranks[nccl_ranks];
    Box boxes[nccl_ranks][nccl_ranks];
};

struct NcclComm : Object {
    int rank = 0, size = 0;
    std::string path;
    NcclSegment* segment = nullptr;
    std::atomic<int> state{ncclInProgress};  // what ncclCommGetAsyncError says
    std::atomic<int> polls{0};               // so often it says ncclInProgress before that
    std::atomic<bool> aborted{false};
    bool finalized = false, initialised = false;
    Point last;  // the communicator's last work: all of it is done in order
    std::string error;
    ~NcclComm();
    std::string name() const { return format("rank %d of %d", rank, size); }
};
using NcclRef = std::shared_ptr<NcclComm>;

// ---- ncclwire.cc
bool nccl_map(NcclComm* c);
bool nccl_wait(NcclComm* c, const std::function<bool()>& until);
bool nccl_barrier(NcclComm* c);
void nccl_hang(NcclComm* c, const std::string& why);

// ---- nccltask.cc
size_t nccl_size(int type);
bool nccl_agree(NcclComm* c, const NcclCall& call);
void nccl_perform(NcclComm* c, const NcclTask& t);
void nccl_exchange(NcclComm* c, const std::vector<NcclTask>& tasks);

}  // namespace fake
