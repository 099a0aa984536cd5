// cuBLAS on the emulated device: handles, stream and workspace, and the two products that callers need. Work is put on emulated
// streams, or into their captures, like a kernel. It overwrites the workspace that it was given, so that a workspace which
// somebody else uses at the same time shows.
#include "cublas.h"

#include <math.h>
#include <string.h>

namespace fake {

static Table<BlasHandle>& handles() {
    static auto& t = *new Table<BlasHandle>(12);
    return t;
}

int blas_context(Call& call, bool needed) {
    ContextRef c = current_context();
    if (!c || c->destroyed) return needed ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
    call.ctx = c;
    return needed && c->sticky != CUDA_SUCCESS ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

int blas_refuse(Call& call, const std::string& why) {
    note(call.made_by() + ": CUBLAS_STATUS_INVALID_VALUE: " + why);
    return CUBLAS_STATUS_INVALID_VALUE;
}

size_t element_size(int type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0; }

static float float_bits(uint32_t b) {
    float f;
    memcpy(&f, &b, 4);
    return f;
}

static double half_value(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return exponent ? sign * ldexp(1024 + mantissa, exponent - 25) : sign * ldexp(mantissa, -24);
}

// to_half rounds to nearest even; nearbyint does so in the default mode.
static uint16_t to_half(double v) {
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    if (v != v) return 0x7fff;
    const double size = fabs(v);
    if (size == 0) return sign;
    int exponent = 0;
    frexp(size, &exponent);
    const int unit = exponent < -13 ? -24 : exponent - 11;  // of the last place
    const double q = nearbyint(ldexp(size, -unit));
    if (ldexp(q, unit) >= 65536) return sign | 0x7c00;
    if (unit == -24) return sign | (uint16_t)q;  // a carry makes it normal by itself
    return sign | (uint16_t)((unit + 25) * 1024 + ((int)q - 1024));
}

static uint16_t to_bfloat(double v) {
    const float f = (float)v;
    uint32_t b;
    memcpy(&b, &f, 4);
    if (f != f) return 0x7fff;
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

static double element(int type, uint64_t p, int64_t i) {
    switch (type) {
        case CUDA_R_64F: return ((const double*)p)[i];
        case CUDA_R_32F: return ((const float*)p)[i];
        case CUDA_R_16F: return half_value(((const uint16_t*)p)[i]);
    }
    return float_bits((uint32_t)((const uint16_t*)p)[i] << 16);
}

static void set_element(int type, uint64_t p, int64_t i, double v) {
    switch (type) {
        case CUDA_R_64F: ((double*)p)[i] = v; break;
        case CUDA_R_32F: ((float*)p)[i] = (float)v; break;
        case CUDA_R_16F: ((uint16_t*)p)[i] = to_half((float)v); break;
        default: ((uint16_t*)p)[i] = to_bfloat((float)v);
    }
}

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }

// tf32 keeps 10 bits of mantissa.
static double tf32(double v) {
    uint32_t b;
    float f = (float)v;
    memcpy(&b, &f, 4);
    return f == f ? float_bits((b + 0x1000) & ~0x1fffu) : f;
}

static void one_product(const Gemm& g, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    std::vector<double> row(g.k);
    const bool rough = g.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    for (int64_t i = 0; i < g.m; i++) {
        for (int64_t l = 0; l < g.k; l++) row[l] = element(g.type, a, g.ta ? i * g.lda + l : l * g.lda + i);
        for (int64_t j = 0; j < g.n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < g.k; l++) {
                const double v = element(g.type, b, g.tb ? l * g.ldb + j : j * g.ldb + l);
                sum += rough ? tf32(row[l]) * tf32(v) : row[l] * v;
            }
            sum *= g.alpha;
            if (g.beta != 0) sum += g.beta * element(g.result, c, j * g.ldc + i);
            if (g.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += element(g.result, g.bias, i);
            if (g.epilogue & AUX) set_element(g.result, g.aux, j * g.ldaux + i, sum);
            set_element(g.result, d, j * g.ldd + i, g.epilogue & CUBLASLT_EPILOGUE_GELU ? gelu(sum) : sum);
        }
    }
}

// bias_gradient is what BGRADA and BGRADB are: the sums along k of a's rows, or of b's columns.
static void bias_gradient(const Gemm& g) {
    const bool of_b = g.epilogue & CUBLASLT_EPILOGUE_BGRADB;
    for (int64_t i = 0; i < (of_b ? g.n : g.m); i++) {
        double sum = 0;
        for (int64_t l = 0; l < g.k; l++)
            sum += of_b ? element(g.type, g.b, g.tb ? l * g.ldb + i : i * g.ldb + l) : element(g.type, g.a, g.ta ? i * g.lda + l : l * g.lda + i);
        set_element(g.result, g.bias, i, sum);
    }
}

// scribble writes over the workspace: all of it up to a mebibyte, then a cache line of each page.
static void scribble(const Gemm& g) {
    const size_t whole = std::min<size_t>(g.workspace_size, 1 << 20);
    memset((void*)g.workspace, 0xA5, whole);
    for (size_t at = whole; at + 64 <= g.workspace_size; at += 4096) memset((void*)(g.workspace + at), 0xA5, 64);
}

static void products(const Gemm& g) {
    scribble(g);
    const int64_t size = (int64_t)element_size(g.type), result = (int64_t)element_size(g.result);
    for (int64_t i = 0; i < g.count; i++)
        one_product(g, g.a + i * g.sa * size, g.b + i * g.sb * size, g.c + i * g.sc * result, g.d + i * g.sd * result);
    if (g.epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) bias_gradient(g);
}

// wrong returns what the real library refuses, or cannot know and would fail over.
static std::string wrong(const Gemm& g) {
    const size_t size = element_size(g.type);
    if (size == 0) return format("type %d", g.type);
    if ((g.type == CUDA_R_64F) != (g.compute == CUBLAS_COMPUTE_64F)) return format("compute type %d for type %d", g.compute, g.type);
    if (g.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && g.type != CUDA_R_32F) return "TF32 of another type than float";
    if (g.m < 0 || g.n < 0 || g.k < 0 || g.count < 0) return "a negative size";
    if (g.lda < std::max<int64_t>(1, g.ta ? g.k : g.m)) return format("lda %lld", (long long)g.lda);
    if (g.ldb < std::max<int64_t>(1, g.tb ? g.n : g.k)) return format("ldb %lld", (long long)g.ldb);
    if (g.ldc < std::max<int64_t>(1, g.m) || g.ldd < std::max<int64_t>(1, g.m)) return "ldc or ldd";
    if (g.count > 1 && g.sd < g.ldd * (g.n - 1) + g.m && g.sd * (g.count - 1) < g.m) return "products of the batch overlap";
    if (g.result != g.type && !(g.result == CUDA_R_32F && size == 2)) return format("result %d for type %d", g.result, g.type);
    for (uint64_t p : {g.a, g.b})
        if (!p || p % size) return format("address 0x%llx", (unsigned long long)p);
    if (!g.d || g.d % element_size(g.result)) return format("address 0x%llx", (unsigned long long)g.d);
    if (g.workspace % 256) return "the workspace is not aligned to 256 bytes";
    if (g.workspace_size) return check_range(g.workspace, g.workspace_size);
    return "";
}

int blas_submit(Call& call, CUstream stream, const Gemm& g) {
    const std::string why = wrong(g);
    if (!why.empty()) return blas_refuse(call, why);
    Work w;
    w.kind = KERNEL;
    w.what = call.made_by();
    w.run = [g, what = w.what] { return guarded_work(what, [&g] { products(g); }); };
    return submit(call, stream, w) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// gemm is both products of cuBLAS.
static int gemm(Call& call, void* h, Gemm g, int ta, int tb, const void* alpha, const void* beta, int at, int bt, int ct) {
    auto handle = handles().get(h);
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (handle->ctx != call.ctx) return blas_refuse(call, "the handle is of another context");
    if (ta < 0 || ta > 1 || tb < 0 || tb > 1 || !alpha || !beta) return blas_refuse(call, "transposition, alpha or beta");
    if (at != bt || (at != ct && !(ct == CUDA_R_32F && element_size(at) == 2))) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!handle->own_workspace) return blas_refuse(call, "the stream was set and no workspace after it: it would be the library's own");
    g.ta = ta, g.tb = tb, g.type = at, g.result = ct;
    g.alpha = ct == CUDA_R_64F ? *(const double*)alpha : *(const float*)alpha;
    g.beta = ct == CUDA_R_64F ? *(const double*)beta : *(const float*)beta;
    g.workspace = handle->workspace, g.workspace_size = handle->workspace_size;
    if (g.workspace_size > 0 && g.workspace_size < 16 << 10) return CUBLAS_STATUS_ALLOC_FAILED;
    return blas_submit(call, handle->stream, g);
}

void forget_blas_lt();
std::string blas_lt_leaks();

void forget_blas() {
    handles().live.clear();
    forget_blas_lt();
}

std::string blas_leaks() {
    std::string out;
    for (auto& e : handles().live) out += "cuBLAS handle made by " + e.second->made_by + "\n";
    return out + blas_lt_leaks();
}

}  // namespace fake

using fake::BlasHandle;
using fake::Gemm;

EXPORT int cublasCreate_v2(void** out) {
    BLAS(true);
    if (!out) return fake::CUBLAS_STATUS_INVALID_VALUE;
    auto h = std::make_shared<BlasHandle>();
    h->ctx = call.ctx;
    h->made_by = call.made_by();
    *out = (void*)fake::handles().put(h);
    return 0;
}

EXPORT int cublasDestroy_v2(void* h) {
    BLAS(true);
    return fake::handles().live.erase((uintptr_t)h) ? 0 : (int)fake::CUBLAS_STATUS_NOT_INITIALIZED;
}

EXPORT int cublasGetVersion_v2(void*, int* out) {
    BLAS(false);
    if (!out) return fake::CUBLAS_STATUS_INVALID_VALUE;
    *out = 120805;
    return 0;
}

EXPORT int cublasSetStream_v2(void* h, CUstream stream) {
    BLAS(true);
    auto handle = fake::handles().get(h);
    if (!handle) return fake::CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    handle->own_workspace = false;
    return 0;
}

EXPORT int cublasSetWorkspace_v2(void* h, uint64_t workspace, size_t size) {
    BLAS(true);
    auto handle = fake::handles().get(h);
    if (!handle) return fake::CUBLAS_STATUS_NOT_INITIALIZED;
    if (workspace % 256) return fake::blas_refuse(call, "the workspace is not aligned to 256 bytes");
    handle->workspace = workspace;
    handle->workspace_size = size;
    handle->own_workspace = true;
    return 0;
}

EXPORT int cublasSetMathMode(void* h, int mode) {
    BLAS(true);
    auto handle = fake::handles().get(h);
    if (!handle) return fake::CUBLAS_STATUS_NOT_INITIALIZED;
    if ((mode & ~16) < 0 || (mode & ~16) > 3) return fake::CUBLAS_STATUS_INVALID_VALUE;
    handle->math = mode;
    return 0;
}

EXPORT int cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, uint64_t a, int at, int lda, uint64_t b,
                        int bt, int ldb, const void* beta, uint64_t c, int ct, int ldc, int compute, int) {
    BLAS(true);
    Gemm g;
    g.m = m, g.n = n, g.k = k, g.a = a, g.b = b, g.c = g.d = c, g.lda = lda, g.ldb = ldb, g.ldc = g.ldd = ldc;
    g.compute = compute;
    return fake::gemm(call, h, g, ta, tb, alpha, beta, at, bt, ct);
}

EXPORT int cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, uint64_t a, int at, int lda,
                                      long long sa, uint64_t b, int bt, int ldb, long long sb, const void* beta, uint64_t c,
                                      int ct, int ldc, long long sc, int count, int compute, int) {
    BLAS(true);
    Gemm g;
    g.m = m, g.n = n, g.k = k, g.a = a, g.b = b, g.c = g.d = c, g.lda = lda, g.ldb = ldb, g.ldc = g.ldd = ldc;
    g.sa = sa, g.sb = sb, g.sc = g.sd = sc, g.count = count, g.compute = compute;
    return fake::gemm(call, h, g, ta, tb, alpha, beta, at, bt, ct);
}
