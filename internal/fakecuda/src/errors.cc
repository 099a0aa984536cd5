// Names and texts of results.
#include "fake.h"

namespace fake {

struct Result {
    const char* name;
    int code;
    const char* text;
};

#define FAKE_ROW(name, code, text) {#name, code, text},
static const Result results[] = {FAKE_RESULTS(FAKE_ROW)};
#undef FAKE_ROW

static const Result* find_result(int code) {
    for (const Result& r : results)
        if (r.code == code) return &r;
    return nullptr;
}

const char* result_name(int code) {
    const Result* r = find_result(code);
    return r ? r->name : "an unknown result";
}

// is_sticky reports whether a context is unusable after work failed with this.
bool is_sticky(int code) {
    switch (code) {
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED: return true;
    }
    return false;
}

}  // namespace fake

EXPORT CUresult cuGetErrorName(CUresult code, const char** out) {
    API(ANY_TIME);
    const fake::Result* r = fake::find_result(code);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = r ? r->name : nullptr;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char** out) {
    API(ANY_TIME);
    const fake::Result* r = fake::find_result(code);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = r ? r->text : nullptr;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
