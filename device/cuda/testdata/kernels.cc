// Two kernels for the emulated driver, written against its interface by hand: internal/fakecuda/src/kernel_abi.h.
#include "../../../internal/fakecuda/src/kernel_abi.h"

// A structure passed by value.
struct Coefficients {
    double a;
    int b, c;
};

// combine(float* y, const float* x, int n, Coefficients k, float s, long long t): y[i] = a*x[i] + b + c + s + t
static int combine(const gk_launch* l) {
    float* y = *(float**)l->args[0];
    const float* x = *(const float**)l->args[1];
    const int n = *(int*)l->args[2];
    const Coefficients k = *(Coefficients*)l->args[3];
    const float s = *(float*)l->args[4];
    const long long t = *(long long*)l->args[5];
    for (uint64_t block = l->first_block; block < l->last_block; block++)
        for (unsigned thread = 0; thread < l->block[0]; thread++) {
            const uint64_t i = block * l->block[0] + thread;
            if ((int64_t)i < n) y[i] = (float)(k.a * x[i] + k.b + k.c + s + t);
        }
    return 0;
}

// broken() behaves like a kernel with a wild address.
static int broken(const gk_launch*) { return 700; }

static const uint32_t combine_sizes[] = {8, 8, 4, sizeof(Coefficients), 4, 8};
static const gk_kernel kernels[] = {{"combine", 6, combine_sizes, combine}, {"broken", 0, nullptr, broken}};

GK_EXPORT int gk_abi() { return GK_ABI; }
GK_EXPORT const gk_kernel* gk_kernels(int* count) { return *count = 2, kernels; }
GK_EXPORT size_t gk_where(uint64_t, char* out, size_t room) {
    if (room > 0) out[0] = 0;
    return 0;
}
