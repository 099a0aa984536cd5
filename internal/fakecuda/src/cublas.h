// The emulated cuBLAS and cuBLASLt: what their two files share. Numbers are those of cublas_api.h, cublasLt.h and library_types.h.
#pragma once

#include "fake.h"

namespace fake {

enum BlasStatus {
    CUBLAS_OK = 0,
    CUBLAS_NOT_INITIALIZED = 1,
    CUBLAS_ALLOC_FAILED = 3,
    CUBLAS_INVALID_VALUE = 7,
    CUBLAS_EXECUTION_FAILED = 13,
    CUBLAS_NOT_SUPPORTED = 15
};

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };                      // cudaDataType
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32F_FAST_TF32 = 77 };    // cublasComputeType_t
enum { BIAS = 4, GELU = 32, AUX = 128, DEFAULT_EPILOGUE = 1 };              // cublasLtEpilogue_t

struct BlasHandle : Object {
    CUstream stream = nullptr;
    uint64_t workspace = 0;
    size_t workspace_size = 0;
    bool own_workspace = false;  // set since the stream was
    int math = 0;
};

// One product, or a strided batch, in column-major order. Everything is copied: the work may run much later, and often.
struct Gemm {
    bool ta = false, tb = false;
    int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0, ldd = 0, sa = 0, sb = 0, sc = 0, sd = 0, count = 1, ldaux = 0;
    uint64_t a = 0, b = 0, c = 0, d = 0, bias = 0, aux = 0, workspace = 0;
    size_t workspace_size = 0;
    int type = R_32F, compute = COMPUTE_32F, epilogue = DEFAULT_EPILOGUE;
    double alpha = 1, beta = 0;
};

// BLAS opens an exported function: faults first, then the context.
#define BLAS(needs_context)                                   \
    fake::Call call(__func__, ANY_TIME);                      \
    if (call.result != CUDA_SUCCESS) return (int)call.result; \
    if (int s = fake::blas_context(call, needs_context)) return s

int blas_context(Call& call, bool needed);
int blas_submit(Call& call, CUstream stream, const Gemm& g);
int blas_refuse(Call& call, const std::string& why);  // CUBLAS_INVALID_VALUE, with a finding
size_t element_size(int type);

}  // namespace fake
