// The emulated cuBLAS and cuBLASLt: what their two files share. Numbers are those of cublas_api.h, cublasLt.h and library_types.h.
#pragma once

#include "fake.h"

namespace fake {

enum BlasStatus {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};

enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };                       // cudaDataType
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };  // cublasComputeType_t
enum {  // cublasLtEpilogue_t; AUX is the bit that makes GELU_AUX of GELU
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_GELU = 32,
    AUX = 128,
    CUBLASLT_EPILOGUE_GELU_AUX = CUBLASLT_EPILOGUE_GELU | AUX,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512
};
enum {  // cublasLtMatmulDescAttributes_t
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12
};
enum {  // cublasLtMatmulPreferenceAttributes_t
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

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
    int type = CUDA_R_32F;    // of a and b
    int result = CUDA_R_32F;  // of c, d and bias
    int compute = CUBLAS_COMPUTE_32F, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    double alpha = 1, beta = 0;
};

// BLAS opens an exported function: faults first, then the context.
#define BLAS(needs_context)                                   \
    fake::Call call(__func__, ANY_TIME);                      \
    if (call.result != CUDA_SUCCESS) return (int)call.result; \
    if (int s = fake::blas_context(call, needs_context)) return s

int blas_context(Call& call, bool needed);
int blas_submit(Call& call, CUstream stream, const Gemm& g);
int blas_refuse(Call& call, const std::string& why);  // CUBLAS_STATUS_INVALID_VALUE, with a finding
size_t element_size(int type);

}  // namespace fake
