// All of the library as one translation unit: the standard headers are read once, which is most of the time it takes.
#include "errors.cc"
#include "call.cc"
#include "guard.cc"
#include "knobs.cc"
#include "context.cc"
#include "queue.cc"
#include "stream.cc"
#include "event.cc"
#include "memory.cc"
#include "copy.cc"
#include "host.cc"
#include "vmm.cc"
#include "graphmem.cc"
#include "pool.cc"
#include "pools.cc"
#include "peer.cc"
#include "info.cc"
#include "nvml.cc"
#include "graph.cc"
#include "ptx.cc"
#include "module.cc"
#include "launch.cc"
#include "cublas.cc"
#include "cublaslt.cc"
#include "ncclwire.cc"
#include "nccltask.cc"
#include "nccl.cc"
#include "abi.cc"

// Last, when all other variables have their values: the environment is read when the library is loaded.
static const bool environment_was_read = [] {
    fake::Lock lock(g.mu);
    fake::read_environment();
    return true;
}();
