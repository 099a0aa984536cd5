// The types, numbers and layouts of the CUDA driver API that this library serves, as cuda.h has them. Nothing else of
// that header is needed, and nobody who builds this has it.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint64_t CUmemGenericAllocationHandle;

// Handles are numbers, not addresses: they are looked up, so that a stale one is an error and never a crash.
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphNode_st* CUgraphNode;
typedef struct CUgraphExec_st* CUgraphExec;
typedef struct CUmemPool_st* CUmemoryPool;
typedef void (*CUhostFn)(void*);
typedef void (*CUstreamCallback)(CUstream, int, void*);

// The last column of this list is what cuGetErrorString says.
#define FAKE_RESULTS(R)                                                                                                     \
    R(CUDA_SUCCESS, 0, "no error")                                                                                          \
    R(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                                      \
    R(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                                         \
    R(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                                                \
    R(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                                                  \
    R(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                                                         \
    R(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "CUDA-capable device(s) is/are busy or unavailable")                               \
    R(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                                      \
    R(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                             \
    R(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                                      \
    R(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                            \
    R(CUDA_ERROR_MAP_FAILED, 205, "mapping of buffer object failed")                                                        \
    R(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")                                                    \
    R(CUDA_ERROR_ALREADY_MAPPED, 208, "resource already mapped")                                                            \
    R(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")                        \
    R(CUDA_ERROR_NOT_MAPPED, 211, "resource not mapped")                                                                    \
    R(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                                             \
    R(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")                                     \
    R(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216, "exclusive-thread device already in use by a different thread")               \
    R(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "peer access is not supported between these two devices")                    \
    R(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                                          \
    R(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")                                         \
    R(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.")              \
    R(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, "PTX JIT compilation was disabled")                                         \
    R(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                                                                     \
    R(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, "shared object initialization failed")                                     \
    R(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")                             \
    R(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                                            \
    R(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                              \
    R(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                                  \
    R(CUDA_ERROR_NOT_READY, 600, "device not ready")                                                                        \
    R(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                                          \
    R(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                                   \
    R(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                                            \
    R(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")                                        \
    R(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")                                          \
    R(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process")                          \
    R(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                                         \
    R(CUDA_ERROR_ASSERT, 710, "device-side assert triggered")                                                               \
    R(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the requested memory range is already mapped")        \
    R(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory region")              \
    R(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error")                                                         \
    R(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                                        \
    R(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                             \
    R(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, "operation not supported on global/shared address space")                      \
    R(CUDA_ERROR_INVALID_PC, 718, "invalid program counter")                                                                \
    R(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                                          \
    R(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                                             \
    R(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                             \
    R(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                                                       \
    R(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, "system has unsupported display driver / cuda driver combination")            \
    R(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, "forward compatibility was attempted on non supported HW")            \
    R(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")                       \
    R(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")                \
    R(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "operation would result in a merge of separate capture sequences")              \
    R(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "capture was not ended in the same stream as it began")                     \
    R(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                                        \
    R(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")                  \
    R(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                                              \
      "operation would make the legacy stream depend on a capturing blocking stream")                                       \
    R(CUDA_ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream")            \
    R(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                                          \
      "attempt to terminate a thread-local capture sequence from another thread")                                           \
    R(CUDA_ERROR_TIMEOUT, 909, "wait operation timed out")                                                                  \
    R(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                                                                            \
      "the graph update was not performed because it included changes which violated constraints specific to instantiated " \
      "graph update")                                                                                                       \
    R(CUDA_ERROR_UNKNOWN, 999, "unknown error")

#define FAKE_ENUM(name, code, text) name = code,
typedef enum { FAKE_RESULTS(FAKE_ENUM) } CUresult;
#undef FAKE_ENUM

// Flags and small enumerations.
enum { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };
enum { CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2, CU_MEMHOSTALLOC_WRITECOMBINED = 4 };
enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1, CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_STREAM_CAPTURE_STATUS_NONE = 0, CU_STREAM_CAPTURE_STATUS_ACTIVE = 1, CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2 };
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum { CU_MEM_ACCESS_FLAGS_PROT_NONE = 0, CU_MEM_ACCESS_FLAGS_PROT_READ = 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

// Structures that callers fill. abi.cc compares their layout with the real one.
struct CUuuid {
    char bytes[16];
};

struct CUmemLocation {
    int type;
    int id;
};

struct CUmemAllocationProp {
    int type;
    int requestedHandleTypes;
    CUmemLocation location;
    void* win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};

struct CUmemAccessDesc {
    CUmemLocation location;
    int flags;
};

struct CUmemPoolProps {
    int allocType;
    int handleTypes;
    CUmemLocation location;
    void* win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};

struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void* srcHost;
    CUdeviceptr srcDevice;
    void* srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void* dstHost;
    CUdeviceptr dstDevice;
    void* dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
};

struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void* attrs;
    unsigned numAttrs;
};

struct CUgraphExecUpdateResultInfo {
    int result;
    CUgraphNode errorNode, errorFromNode;
};

#define EXPORT extern "C" __attribute__((visibility("default")))
