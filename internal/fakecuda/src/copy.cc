// Copies and fills. Ranges are checked when the call is made, and the memory itself when the work runs.
//
// Host memory that the driver does not know (pageable) is treated as the documentation says: an asynchronous copy from it
// has read it when the call returns; one to it has ended when the call returns. Pinned memory is read and written when the
// work runs. Copies without Async go through the NULL stream; those within the device, and fills, do not wait for the end.
#include <string.h>

#include "fake.h"

using fake::Call;
using fake::format;
using fake::Work;

enum class Side { HOST, DEVICE };

// side_of finds out what a pointer of the calls with unified addressing is.
static Side side_of(uint64_t p) { return fake::is_device_range(p) ? Side::DEVICE : Side::HOST; }

// Rows is n bytes, height times, pitch apart.
struct Rows {
    uint64_t p;
    size_t pitch;
};

static void copy_rows(Rows dst, Rows src, size_t n, size_t height) {
    for (size_t i = 0; i < height; i++) memcpy((void*)(dst.p + i * dst.pitch), (const void*)(src.p + i * src.pitch), n);
}

static std::string check_side(Side side, Rows r, size_t n, size_t height) {
    if (side == Side::HOST) return r.p ? "" : "host pointer is nil";
    if (height > 1 && r.pitch < n) return "pitch is less than width";
    return fake::check_range(r.p, (height - 1) * r.pitch + n);
}

struct CopyJob {
    Side to, from;
    Rows dst, src;
    size_t n, height;
    bool async;
    CUstream stream;
};

static Work copy_work(const Call& call, const CopyJob& j) {
    Work w;
    w.kind = fake::COPY;
    w.what = call.made_by();
    w.run = [=, what = w.what] { return fake::guarded_work(what, [=] { copy_rows(j.dst, j.src, j.n, j.height); }); };
    return w;
}

// staged_work has read its source already.
static Work staged_work(const Call& call, const CopyJob& j) {
    auto staging = std::make_shared<std::vector<char>>(j.n * j.height);
    copy_rows({(uint64_t)staging->data(), j.n}, j.src, j.n, j.height);
    Work w;
    w.kind = fake::COPY;
    w.what = call.made_by();
    w.run = [=, what = w.what] {
        return fake::guarded_work(what, [&] { copy_rows(j.dst, {(uint64_t)staging->data(), j.n}, j.n, j.height); });
    };
    return w;
}

static bool is_capturing(Call& call, CUstream h) {
    fake::StreamRef s;
    return fake::find_stream(call, h, &s) == CUDA_SUCCESS && s->capture;
}

static CUresult copy(Call& call, const CopyJob& j) {
    if (j.n == 0 || j.height == 0) return CUDA_SUCCESS;
    std::string why = check_side(j.to, j.dst, j.n, j.height);
    if (!why.empty()) return call.fail(CUDA_ERROR_INVALID_VALUE, "destination: " + why);
    why = check_side(j.from, j.src, j.n, j.height);
    if (!why.empty()) return call.fail(CUDA_ERROR_INVALID_VALUE, "source: " + why);
    if (j.to == Side::DEVICE && j.from == Side::DEVICE && j.dst.p < j.src.p + j.n && j.src.p < j.dst.p + j.n &&
        j.height == 1)
        return call.fail(CUDA_ERROR_INVALID_VALUE, "source and destination overlap");
    const size_t dst_bytes = (j.height - 1) * j.dst.pitch + j.n, src_bytes = (j.height - 1) * j.src.pitch + j.n;
    const bool reads_pageable = j.from == Side::HOST && !fake::is_pinned(j.src.p, src_bytes);
    const bool writes_pageable = j.to == Side::HOST && !fake::is_pinned(j.dst.p, dst_bytes);
    if (j.async && (reads_pageable || writes_pageable)) {
        if (g.knobs.strict_pageable)
            return call.fail(CUDA_ERROR_INVALID_VALUE,
                             "asynchronous copy with pageable host memory (strict_pageable is set)");
        if (is_capturing(call, j.stream)) return fake::submit(call, j.stream, copy_work(call, j));
    }
    if (reads_pageable) return fake::submit(call, j.stream, staged_work(call, j));
    const bool waits = writes_pageable || (!j.async && (j.to == Side::HOST || j.from == Side::HOST));
    return waits ? fake::submit_and_wait(call, j.stream, copy_work(call, j))
                 : fake::submit(call, j.stream, copy_work(call, j));
}

static CUresult plain_copy(Call& call, Side to, uint64_t dst, Side from, uint64_t src, size_t n, bool async,
                           CUstream stream) {
    return copy(call, {to, from, {dst, 0}, {src, 0}, n, 1, async, stream});
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t n) {
    API(CONTEXT | UNSAFE);
    return plain_copy(call, Side::DEVICE, dst, Side::HOST, (uint64_t)src, n, false, nullptr);
}

EXPORT CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t n) {
    API(CONTEXT | UNSAFE);
    return plain_copy(call, Side::HOST, (uint64_t)dst, Side::DEVICE, src, n, false, nullptr);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n) {
    API(CONTEXT | UNSAFE);
    return plain_copy(call, Side::DEVICE, dst, Side::DEVICE, src, n, false, nullptr);
}

EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) {
    API(CONTEXT | UNSAFE);
    return plain_copy(call, side_of(dst), dst, side_of(src), src, n, false, nullptr);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t n, CUstream stream) {
    API(CONTEXT);
    return plain_copy(call, Side::DEVICE, dst, Side::HOST, (uint64_t)src, n, true, stream);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t n, CUstream stream) {
    API(CONTEXT);
    return plain_copy(call, Side::HOST, (uint64_t)dst, Side::DEVICE, src, n, true, stream);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
    API(CONTEXT);
    return plain_copy(call, Side::DEVICE, dst, Side::DEVICE, src, n, true, stream);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream) {
    API(CONTEXT);
    return plain_copy(call, side_of(dst), dst, side_of(src), src, n, true, stream);
}

static CUresult copy_2d(Call& call, const CUDA_MEMCPY2D* c, bool async, CUstream stream) {
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    CopyJob j;
    auto side = [&](int type, const void* host, CUdeviceptr device, size_t x, size_t y, size_t pitch, Side* s, Rows* r) {
        if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return false;
        const uint64_t p = type == CU_MEMORYTYPE_HOST ? (uint64_t)host : device;
        *s = type == CU_MEMORYTYPE_HOST ? Side::HOST : type == CU_MEMORYTYPE_DEVICE ? Side::DEVICE : side_of(p);
        const size_t step = pitch ? pitch : c->WidthInBytes;
        *r = {p + y * step + x, step};
        return true;
    };
    if (!side(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, c->srcPitch, &j.from, &j.src) ||
        !side(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, c->dstPitch, &j.to, &j.dst))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "memory type is not host, device or unified");
    j.n = c->WidthInBytes;
    j.height = c->Height;
    j.async = async;
    j.stream = stream;
    return copy(call, j);
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* c) {
    API(CONTEXT | UNSAFE);
    return copy_2d(call, c, false, nullptr);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* c, CUstream stream) {
    API(CONTEXT);
    return copy_2d(call, c, true, stream);
}

template <class T>
static CUresult fill(Call& call, CUdeviceptr dst, T value, size_t n, CUstream stream) {
    if (n == 0) return CUDA_SUCCESS;
    if (dst % sizeof(T) || n > SIZE_MAX / sizeof(T))
        return call.fail(CUDA_ERROR_INVALID_VALUE, "destination is not aligned");
    const std::string why = fake::check_range(dst, n * sizeof(T));
    if (!why.empty()) return call.fail(CUDA_ERROR_INVALID_VALUE, "destination: " + why);
    Work w;
    w.kind = fake::SET;
    w.what = call.made_by();
    w.run = [=, what = w.what] {
        return fake::guarded_work(what, [=] {
            T* p = (T*)dst;
            if (sizeof(T) == 1) {
                memset(p, (int)value, n);
                return;
            }
            for (size_t i = 0; i < n; i++) p[i] = value;
        });
    };
    return fake::submit(call, stream, w);
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, uint8_t value, size_t n) {
    API(CONTEXT | UNSAFE);
    return fill(call, dst, value, n, nullptr);
}

EXPORT CUresult cuMemsetD16_v2(CUdeviceptr dst, uint16_t value, size_t n) {
    API(CONTEXT | UNSAFE);
    return fill(call, dst, value, n, nullptr);
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dst, uint32_t value, size_t n) {
    API(CONTEXT | UNSAFE);
    return fill(call, dst, value, n, nullptr);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, uint8_t value, size_t n, CUstream stream) {
    API(CONTEXT);
    return fill(call, dst, value, n, stream);
}

EXPORT CUresult cuMemsetD16Async(CUdeviceptr dst, uint16_t value, size_t n, CUstream stream) {
    API(CONTEXT);
    return fill(call, dst, value, n, stream);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, uint32_t value, size_t n, CUstream stream) {
    API(CONTEXT);
    return fill(call, dst, value, n, stream);
}
