// Modules and functions.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "fake.h"

using ModuleRef = std::shared_ptr<fake::Module>;
using FunctionRef = std::shared_ptr<fake::Function>;

enum {
    CU_JIT_INFO_LOG_BUFFER = 3,
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};

// fill_log writes text into the buffer that an option names, and its length into the option for the size.
static void fill_log(const std::string& text, unsigned n, const int* options, void** values, int buffer_option,
                     int size_option) {
    char* buffer = nullptr;
    void** size = nullptr;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == buffer_option) buffer = (char*)values[i];
        if (options[i] == size_option) size = &values[i];
    }
    if (!size) return;
    const size_t room = (unsigned)(uintptr_t)*size, k = room ? std::min(text.size(), room - 1) : 0;
    if (buffer && room) {
        memcpy(buffer, text.data(), k);
        buffer[k] = 0;
    }
    *size = (void*)(uintptr_t)(text.empty() ? 0 : k + 1);
}

// parse_image tells PTX from the binaries that only a GPU can run.
static CUresult parse_image(const void* image, fake::Module* m, std::string* log) {
    const unsigned char* b = (const unsigned char*)image;
    if (memcmp(b, "\177ELF", 4) == 0 || memcmp(b, "\x50\xed\x55\xba", 4) == 0) {
        *log = "cubin and fatbin images are not emulated: load PTX";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const std::string text = (const char*)image;
    for (char c : text)
        if ((unsigned char)c >= 0x80) return CUDA_ERROR_INVALID_IMAGE;
    if (text.find('.') == std::string::npos) return CUDA_ERROR_INVALID_IMAGE;
    const CUresult r = fake::parse_ptx(text, m, log);
    if (r == CUDA_SUCCESS && g.knobs.ptx) m->image = fake::interpreter::open(text, &m->why_not);
    return r;
}

static CUresult load(fake::Call& call, CUmodule* out, const void* image, unsigned n, const int* options, void** values) {
    if (!out || !image || (n && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
    ModuleRef m = std::make_shared<fake::Module>();
    m->ctx = call.ctx;
    m->made_by = call.made_by();
    std::string log;
    const CUresult r = parse_image(image, m.get(), &log);
    fill_log(r == CUDA_SUCCESS ? "" : log, n, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    fill_log("", n, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    if (r != CUDA_SUCCESS) return call.fail(r, log.empty() ? "this is no image" : log);
    *out = (CUmodule)g.modules.put(m);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
    API(CONTEXT | UNSAFE);
    return load(call, out, image, 0, nullptr, nullptr);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned n, int* options, void** values) {
    API(CONTEXT | UNSAFE);
    return load(call, out, image, n, options, values);
}

EXPORT CUresult cuModuleLoad(CUmodule* out, const char* name) {
    API(CONTEXT | UNSAFE);
    FILE* f = name ? fopen(name, "rb") : nullptr;
    if (!f) return CUDA_ERROR_FILE_NOT_FOUND;
    std::string text(1 << 20, 0);
    size_t n = 0;
    for (size_t k; (k = fread(&text[n], 1, text.size() - n, f)) > 0;)
        if ((n += k) == text.size()) text.resize(2 * n);
    fclose(f);
    text.resize(n);
    return load(call, out, text.c_str(), 0, nullptr, nullptr);
}

static CUresult find_module(fake::Call& call, CUmodule h, ModuleRef* out) {
    *out = g.modules.get(h);
    return *out ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_HANDLE, "this module does not exist (any more)");
}

EXPORT CUresult cuModuleUnload(CUmodule h) {
    API(CONTEXT | UNSAFE);
    ModuleRef m;
    if (CUresult r = find_module(call, h, &m)) return r;
    for (auto& f : m->handles) g.functions.live.erase((uintptr_t)f.second);
    g.modules.live.erase((uintptr_t)h);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule h, const char* name) {
    API(CONTEXT);
    ModuleRef m;
    if (CUresult r = find_module(call, h, &m)) return r;
    if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
    auto known = m->handles.find(name);
    if (known != m->handles.end()) return *out = known->second, CUDA_SUCCESS;
    for (auto& e : m->entries) {
        if (e.name != name) continue;
        FunctionRef f = std::make_shared<fake::Function>();
        f->module = m;
        f->module_handle = h;
        f->entry = e;
        f->max_dynamic = std::max(0, 48 * 1024 - (int)e.static_shared);
        *out = m->handles[name] = (CUfunction)g.functions.put(f);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned* out, CUmodule h) {
    API(CONTEXT);
    ModuleRef m;
    if (CUresult r = find_module(call, h, &m)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = (unsigned)m->entries.size();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr*, size_t*, CUmodule h, const char* name) {
    API(CONTEXT);
    ModuleRef m;
    if (CUresult r = find_module(call, h, &m)) return r;
    return call.fail(CUDA_ERROR_NOT_FOUND, std::string("variables of modules are not emulated: ") + (name ? name : "nil"));
}

EXPORT CUresult cuModuleGetLoadingMode(int* out) {
    API(INIT);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = 2;  // lazy
    return CUDA_SUCCESS;
}

static CUresult find_function(fake::Call& call, CUfunction h, FunctionRef* out) {
    *out = g.functions.get(h);
    return *out ? CUDA_SUCCESS : call.fail(CUDA_ERROR_INVALID_HANDLE, "this function does not exist (any more)");
}

enum { REGISTERS = 32 };  // of each kernel: PTX says nothing of those of a GPU

EXPORT CUresult cuFuncGetAttribute(int* out, int attribute, CUfunction h) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const int values[] = {f->entry.max_threads,
                          (int)f->entry.static_shared,
                          0,
                          (int)f->entry.local,  // what the PTX declares: nothing spills here
                          REGISTERS,
                          f->module->ptx_version,
                          g.knobs.compute,
                          0,
                          f->max_dynamic,
                          f->carveout};
    if (attribute < 0 || attribute > 9) return CUDA_ERROR_INVALID_VALUE;
    *out = values[attribute];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction h, int attribute, int value) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    if (attribute == 8 && value >= 0 && value + (int)f->entry.static_shared <= fake::shared_optin())
        return f->max_dynamic = value, CUDA_SUCCESS;
    if (attribute == 9 && value >= -1 && value <= 100) return f->carveout = value, CUDA_SUCCESS;
    return call.fail(CUDA_ERROR_INVALID_VALUE,
                     format("attribute %d of %s cannot be %d", attribute, f->entry.name.c_str(), value));
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction h, int config) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    return config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncGetModule(CUmodule* out, CUfunction h) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = f->module_handle;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char** out, CUfunction h) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = f->entry.name.c_str();
    return CUDA_SUCCESS;
}

// blocks_per_sm is the occupancy that threads and shared memory allow.
static int blocks_per_sm(const fake::Function& f, int threads, size_t dynamic) {
    const int by_threads = fake::threads_per_sm() / ((threads + 31) / 32 * 32);
    const int by_shared = (int)((fake::shared_optin() + 1024) / (f.entry.static_shared + dynamic + 1024));
    return std::min(32, std::min(by_threads, by_shared));
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction h, int threads, size_t dynamic) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    if (!out || threads <= 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
    *out = blocks_per_sm(*f, threads, dynamic);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction h, size_t (*of_block)(int),
                                                 size_t dynamic, int limit) {
    API(CONTEXT);
    FunctionRef f;
    if (CUresult r = find_function(call, h, &f)) return r;
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 ? std::min(limit, f->entry.max_threads) : f->entry.max_threads;
    *grid = 108 * std::max(1, blocks_per_sm(*f, *block, of_block ? of_block(*block) : dynamic));
    return CUDA_SUCCESS;
}
