// cuBLASLt on the emulated device: descriptors, a heuristic that knows one algorithm, and the product with an epilogue.
#include "cublas.h"

#include <string.h>

namespace fake {

struct LtObject : Object {
    const char* kind = "";
    int type = 0, compute = 0, scale = 0, ta = 0, tb = 0;  // of descriptors
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    uint64_t bias = 0, aux = 0;
    int64_t ldaux = 0;
    uint64_t rows = 0, cols = 0;  // of layouts
    int64_t ld = 0;
    uint64_t workspace = 0;  // of preferences
    uint32_t align[4] = {256, 256, 256, 256};
};

struct LtState {
    Table<LtObject> handles{13}, descs{14}, layouts{15}, preferences{16};
};
static LtState& lt() {
    static auto& s = *new LtState;
    return s;
}

void forget_blas_lt() {
    for (Table<LtObject>* t : {&lt().handles, &lt().descs, &lt().layouts, &lt().preferences}) t->live.clear();
}

std::string blas_lt_leaks() {
    std::string out;
    for (Table<LtObject>* t : {&lt().handles, &lt().descs, &lt().layouts, &lt().preferences})
        for (auto& e : t->live) out += std::string("cuBLASLt ") + e.second->kind + " made by " + e.second->made_by + "\n";
    return out;
}

static int make(Call& call, void** out, Table<LtObject>& t, LtObject o, const char* kind) {
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    o.kind = kind;
    o.made_by = call.made_by();
    o.ctx = call.ctx;
    *out = (void*)t.put(std::make_shared<LtObject>(o));
    return CUBLAS_STATUS_SUCCESS;
}

static int destroy(Table<LtObject>& t, void* h) { return t.live.erase((uintptr_t)h) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE; }

// put copies an attribute that has the right size.
template <class T> static int put(T* to, const void* from, size_t size) {
    if (!from || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, from, size);
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t workspace_wanted(const LtObject& b, uint64_t k) { return std::min<uint64_t>(b.workspace, k >= 32 ? 1 << 20 : 0); }

// The one algorithm: a mark, and the workspace that it needs.
const uint64_t ALGORITHM = 0x636973746c743031;

// fits returns what is wrong with the shapes of a product, or sets sizes and leading dimensions of g.
static std::string fits(const LtObject& d, const LtObject& a, const LtObject& b, const LtObject& c, const LtObject& out, Gemm* g) {
    g->ta = d.ta, g->tb = d.tb, g->m = (int64_t)out.rows, g->n = (int64_t)out.cols;
    g->k = (int64_t)(d.ta ? a.rows : a.cols);
    g->lda = a.ld, g->ldb = b.ld, g->ldc = c.ld, g->ldd = out.ld, g->type = a.type, g->result = out.type, g->compute = d.compute;
    if (a.type != b.type || c.type != out.type || (a.type != out.type && !(out.type == CUDA_R_32F && element_size(a.type) == 2))) return "types differ";
    if ((d.ta ? a.cols : a.rows) != out.rows || (d.tb ? b.rows : b.cols) != out.cols || (d.tb ? b.cols : b.rows) != (uint64_t)g->k ||
        c.rows != out.rows || c.cols != out.cols)
        return "shapes do not fit";
    if ((out.type == CUDA_R_64F) != (d.scale == CUDA_R_64F)) return "scale type";
    g->epilogue = (int)d.epilogue, g->bias = d.bias, g->aux = d.aux, g->ldaux = d.ldaux;
    if ((d.epilogue & CUBLASLT_EPILOGUE_BIAS) && !d.bias) return "no bias";
    const uint32_t sums = CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
    if ((d.epilogue & sums) && (!d.bias || (d.epilogue & ~sums) || (d.epilogue & sums) == sums)) return "bias gradient";
    if ((d.epilogue & AUX) && (!d.aux || d.ldaux % 8 || d.ldaux < g->m)) return "auxiliary matrix";
    return "";
}

}  // namespace fake

using fake::LtObject;
using fake::lt;

EXPORT int cublasLtCreate(void** out) {
    BLAS(true);
    return fake::make(call, out, lt().handles, LtObject(), "handle");
}

EXPORT int cublasLtDestroy(void* h) {
    BLAS(false);
    return fake::destroy(lt().handles, h);
}

EXPORT int cublasLtMatmulDescCreate(void** out, int compute, int scale) {
    BLAS(false);
    LtObject o;
    o.compute = compute, o.scale = scale;
    return fake::make(call, out, lt().descs, o, "product descriptor");
}

EXPORT int cublasLtMatmulDescDestroy(void* h) {
    BLAS(false);
    return fake::destroy(lt().descs, h);
}

EXPORT int cublasLtMatmulDescSetAttribute(void* h, int attribute, const void* value, size_t size) {
    BLAS(false);
    auto d = lt().descs.get(h);
    if (!d) return fake::CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
        case fake::CUBLASLT_MATMUL_DESC_TRANSA: return fake::put(&d->ta, value, size);
        case fake::CUBLASLT_MATMUL_DESC_TRANSB: return fake::put(&d->tb, value, size);
        case fake::CUBLASLT_MATMUL_DESC_EPILOGUE: return fake::put(&d->epilogue, value, size);
        case fake::CUBLASLT_MATMUL_DESC_BIAS_POINTER: return fake::put(&d->bias, value, size);
        case fake::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return fake::put(&d->aux, value, size);
        case fake::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return fake::put(&d->ldaux, value, size);
    }
    return fake::blas_refuse(call, fake::format("attribute %d", attribute));
}

EXPORT int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    BLAS(false);
    if (!fake::element_size(type) || ld < (int64_t)rows) return fake::blas_refuse(call, "layout");
    LtObject o;
    o.type = type, o.rows = rows, o.cols = cols, o.ld = ld;
    return fake::make(call, out, lt().layouts, o, "matrix layout");
}

EXPORT int cublasLtMatrixLayoutDestroy(void* h) {
    BLAS(false);
    return fake::destroy(lt().layouts, h);
}

EXPORT int cublasLtMatmulPreferenceCreate(void** out) {
    BLAS(false);
    return fake::make(call, out, lt().preferences, LtObject(), "preference");
}

EXPORT int cublasLtMatmulPreferenceDestroy(void* h) {
    BLAS(false);
    return fake::destroy(lt().preferences, h);
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void* h, int attribute, const void* value, size_t size) {
    BLAS(false);
    auto p = lt().preferences.get(h);
    if (!p) return fake::CUBLAS_STATUS_INVALID_VALUE;
    uint32_t mask = 0;
    switch (attribute) {
        case fake::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return fake::put(&p->workspace, value, size);
        case fake::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return fake::put(&mask, value, size);
        case fake::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        case fake::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        case fake::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        case fake::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
            return fake::put(&p->align[attribute - fake::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
    }
    return fake::blas_refuse(call, fake::format("attribute %d", attribute));
}

// What a heuristic answers.
struct cublasLtMatmulHeuristicResult_t {
    uint64_t algo[8];
    size_t workspaceSize;
    int state;
    float wavesCount;
    int reserved[4];
};

EXPORT int cublasLtMatmulAlgoGetHeuristic(void* h, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted,
                                          cublasLtMatmulHeuristicResult_t* out, int* found) {
    BLAS(true);
    auto x = lt().descs.get(desc);
    auto la = lt().layouts.get(a), lb = lt().layouts.get(b), lc = lt().layouts.get(c), ld = lt().layouts.get(d);
    auto p = lt().preferences.get(preference);
    if (!lt().handles.get(h) || !x || !la || !lb || !lc || !ld || !p || wanted < 1 || !out || !found)
        return fake::CUBLAS_STATUS_INVALID_VALUE;
    fake::Gemm g;
    const std::string why = fake::fits(*x, *la, *lb, *lc, *ld, &g);
    if (!why.empty()) return fake::blas_refuse(call, why);
    *found = 0;
    const int e = g.epilogue & ~(fake::CUBLASLT_EPILOGUE_BIAS | fake::AUX | fake::CUBLASLT_EPILOGUE_BGRADA | fake::CUBLASLT_EPILOGUE_BGRADB);
    if ((e & ~(fake::CUBLASLT_EPILOGUE_GELU | fake::CUBLASLT_EPILOGUE_DEFAULT)) || (g.type == fake::CUDA_R_64F && e == fake::CUBLASLT_EPILOGUE_GELU)) return fake::CUBLAS_STATUS_NOT_SUPPORTED;
    *out = cublasLtMatmulHeuristicResult_t();
    out->algo[0] = fake::ALGORITHM;
    out->algo[1] = out->workspaceSize = fake::workspace_wanted(*p, (uint64_t)g.k);
    for (int i = 0; i < 4; i++) out->algo[2 + i] = p->align[i];
    *found = 1;
    return 0;
}

EXPORT int cublasLtMatmul(void* h, void* desc, const void* alpha, uint64_t a, void* ad, uint64_t b, void* bd, const void* beta,
                          uint64_t c, void* cd, uint64_t d, void* dd, const uint64_t* algo, uint64_t workspace, size_t size,
                          CUstream stream) {
    BLAS(true);
    auto x = lt().descs.get(desc);
    auto la = lt().layouts.get(ad), lb = lt().layouts.get(bd), lc = lt().layouts.get(cd), ld = lt().layouts.get(dd);
    if (!lt().handles.get(h) || !x || !la || !lb || !lc || !ld || !alpha || !beta) return fake::CUBLAS_STATUS_INVALID_VALUE;
    fake::Gemm g;
    const std::string why = fake::fits(*x, *la, *lb, *lc, *ld, &g);
    if (!why.empty()) return fake::blas_refuse(call, why);
    if (!algo || algo[0] != fake::ALGORITHM || size < algo[1]) return fake::blas_refuse(call, "algorithm or its workspace");
    const uint64_t places[4] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        if (places[i] % algo[2 + i]) return fake::blas_refuse(call, fake::format("operand %d is not aligned as the algorithm was told", i));
    g.a = a, g.b = b, g.c = c, g.d = d, g.workspace = workspace, g.workspace_size = size;
    g.alpha = g.type == fake::CUDA_R_64F ? *(const double*)alpha : *(const float*)alpha;
    g.beta = g.type == fake::CUDA_R_64F ? *(const double*)beta : *(const float*)beta;
    return fake::blas_submit(call, stream, g);
}
