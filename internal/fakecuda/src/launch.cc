// Launches: limits, arguments, and the emulated kernels.
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include <algorithm>

#include "fake.h"
#include "kernel_abi.h"

namespace fake {

// KernelFile is one loaded library of kernels. It stays loaded: launches may be on their way.
struct KernelFile {
    decltype(&gk_where) where;
};

struct Kernel {
    const gk_kernel* k;
    const KernelFile* file;
};

static std::map<std::string, Kernel>& kernels() {
    static auto& all = *new std::map<std::string, Kernel>;
    return all;
}

// load_kernels loads files of emulated kernels, given as a list with ":".
CUresult load_kernels(const std::string& list, std::string* why) {
    for (size_t from = 0; from < list.size();) {
        const size_t end = std::min(list.find(':', from), list.size());
        const std::string path = list.substr(from, end - from);
        from = end + 1;
        void* h = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!h) {
            note(*why = dlerror());
            return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
        }
        auto abi = (decltype(&gk_abi))dlsym(h, "gk_abi");
        auto table = (decltype(&gk_kernels))dlsym(h, "gk_kernels");
        KernelFile* file = new KernelFile{(decltype(&gk_where))dlsym(h, "gk_where")};
        if (!abi || !table || !file->where || abi() != GK_ABI) {
            note(*why = path + " has no kernels of this ABI");
            return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
        }
        int n = 0;
        const gk_kernel* k = table(&n);
        for (int i = 0; i < n; i++) kernels()[k[i].name] = {&k[i], file};
    }
    return CUDA_SUCCESS;
}

// The numbers of Counts, in their order, and their names.
static const char* const count_names[] = {"launches", "blocks", "instructions", "lanes", "divergent", "barriers", "requests", "bytes",
                                          "sectors", "needed", "accesses", "wavefronts", "passes", "products"};

static void add_counts(interpreter::Counts* to, const interpreter::Counts& c) {
    static_assert(sizeof(interpreter::Counts) == sizeof count_names / sizeof *count_names * sizeof(uint64_t), "a name for each");
    for (size_t i = 0; i < sizeof c / sizeof(uint64_t); i++) ((uint64_t*)to)[i] += ((const uint64_t*)&c)[i];
}

// counts_text has a line for each entry point: its name, and pairs like "blocks=12".
std::string counts_text() {
    std::string s;
    for (auto& c : g.counts) {
        s += c.first;
        for (size_t i = 0; i < sizeof count_names / sizeof *count_names; i++)
            s += format(" %s=%llu", count_names[i], ((const unsigned long long*)&c.second)[i]);
        s += "\n";
    }
    return s;
}

// Arguments are the parameters of one launch, copied when it was made.
struct Arguments {
    std::vector<char> bytes;
    std::vector<void*> addresses;
};

struct LaunchJob {
    Kernel kernel;
    std::shared_ptr<interpreter::Code> code;  // or this: the PTX itself
    std::string what, name;
    std::shared_ptr<Arguments> args;
    gk_launch launch;
};

// run_code lets the interpreter run blocks, and adds up what it counted.
static CUresult run_code(const LaunchJob& job, const gk_launch& l) {
    interpreter::Counts counts;
    interpreter::Request q = {job.code, l, g.knobs.races != 0, g.knobs.counts ? &counts : nullptr};
    int r = 0;
    const CUresult fault = guarded_work(
        job.what, [&] { r = interpreter::run(q); }, [](uint64_t address) { return interpreter::where(address); });
    Lock lock(g.mu);
    counts.launches = l.first_block == 0;
    if (q.counts) add_counts(&g.counts[job.name], counts);
    if (fault == CUDA_SUCCESS && r != 0) note(job.what + ": " + l.message);
    return fault != CUDA_SUCCESS ? fault : (CUresult)r;
}

static CUresult run_blocks(const LaunchJob& job, uint64_t first, uint64_t last) {
    gk_launch l = job.launch;
    char message[512] = "";
    l.args = job.args->addresses.data();
    l.first_block = first;
    l.last_block = last;
    l.message = message;
    l.message_size = sizeof message;
    int r = 0;
    if (job.code) return run_code(job, l);
    const KernelFile* file = job.kernel.file;
    const CUresult fault = guarded_work(
        job.what, [&] { r = job.kernel.k->run(&l); },
        [file](uint64_t address) {
            char at[256] = "";
            file->where(address, at, sizeof at);
            return std::string(at);
        });
    if (fault != CUDA_SUCCESS || r == 0) return fault;
    Lock lock(g.mu);
    note(job.what + ": " + message);
    return (CUresult)r;
}

struct Part {
    const LaunchJob* job;
    uint64_t first, last;
    CUresult result;
};

static void* run_part(void* arg) {
    Part* p = (Part*)arg;
    p->result = run_blocks(*p->job, p->first, p->last);
    return nullptr;
}

// run_launch runs all blocks, on several threads if the knob says so.
static CUresult run_launch(const LaunchJob& job) {
    const gk_launch& l = job.launch;
    const uint64_t blocks = (uint64_t)l.grid[0] * l.grid[1] * l.grid[2];
    const uint64_t workers = std::min<uint64_t>(std::max(1, g.knobs.workers), blocks);
    if (workers <= 1) return run_blocks(job, 0, blocks);
    std::vector<Part> parts(workers);
    std::vector<pthread_t> threads(workers);
    for (uint64_t i = 0; i < workers; i++) {
        parts[i] = {&job, blocks * i / workers, blocks * (i + 1) / workers, CUDA_SUCCESS};
        pthread_create(&threads[i], nullptr, run_part, &parts[i]);
    }
    CUresult r = CUDA_SUCCESS;
    for (uint64_t i = 0; i < workers; i++) {
        pthread_join(threads[i], nullptr);
        if (r == CUDA_SUCCESS) r = parts[i].result;
    }
    return r;
}

// check_shape returns what is wrong with grid, block and shared memory.
static std::string check_shape(const Function& f, const unsigned* grid, const unsigned* block, unsigned dynamic) {
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0) return "a dimension is 0";
    if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
        return format("grid of %u x %u x %u", grid[0], grid[1], grid[2]);
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024)
        return format("block of %u x %u x %u", block[0], block[1], block[2]);
    if (threads > (uint64_t)f.entry.max_threads)
        return format("%llu threads, but .maxntid is %d", (unsigned long long)threads, f.entry.max_threads);
    if (dynamic > (unsigned)f.max_dynamic)
        return format("%u bytes of dynamic shared memory, but at most %d are allowed (attribute 8)", dynamic, f.max_dynamic);
    return "";
}

static size_t aligned(size_t n, size_t to) { return (n + to - 1) / to * to; }

// copy_arguments takes the parameters from their addresses, or from one buffer in which they are laid out by alignment.
static std::shared_ptr<Arguments> copy_arguments(const EntryPoint& e, void** params, void** extra, std::string* why) {
    auto a = std::make_shared<Arguments>();
    std::vector<size_t> offsets;
    size_t size = 0;
    for (auto& p : e.params) {
        offsets.push_back(size = aligned(size, p.align));
        size += p.size;
    }
    a->bytes.resize(aligned(size, 16) + 16);
    const char* buffer = nullptr;
    size_t given = 0;
    for (void** x = extra; x && *x; x += 2) {
        if (*x == (void*)1) buffer = (const char*)x[1];
        if (*x == (void*)2) given = *(size_t*)x[1];
    }
    if (buffer && given < size) *why = format("%zu bytes of parameters given, %zu needed", given, size);
    if (!params && !buffer && !e.params.empty()) *why = "no parameters given";
    if (!why->empty()) return nullptr;
    char* base = (char*)aligned((size_t)a->bytes.data(), 16);
    for (size_t i = 0; i < e.params.size(); i++) {
        const void* from = params ? params[i] : buffer + offsets[i];
        if (!from) return *why = format("parameter %zu is nil", i), nullptr;
        memcpy(base + offsets[i], from, e.params[i].size);
        a->addresses.push_back(base + offsets[i]);
    }
    return a;
}

// check_params compares what the PTX says with what the emulated kernel takes.
static std::string check_params(const EntryPoint& e, const gk_kernel& k) {
    if ((size_t)k.params != e.params.size())
        return format("the PTX has %zu parameters, the emulated kernel %d", e.params.size(), k.params);
    for (int i = 0; i < k.params; i++)
        if (k.sizes[i] != e.params[i].size)
            return format("parameter %d has %zu bytes in the PTX and %u in the emulated kernel", i, e.params[i].size,
                          k.sizes[i]);
    return "";
}

// find_code gives a job what it runs: the PTX if the module was loaded for that, else the emulated kernel of that name.
static CUresult find_code(Call& call, const Function& f, LaunchJob* job, std::string* why) {
    const Module& m = *f.module;
    if (m.image) {
        std::string reason = m.why_not;
        if (reason.empty()) job->code = interpreter::compile(m.image.get(), f.entry.name, &reason);
        return job->code ? CUDA_SUCCESS : call.fail(CUDA_ERROR_NOT_SUPPORTED, reason);
    }
    auto k = kernels().find(f.entry.name);
    if (k == kernels().end()) return call.fail(CUDA_ERROR_NOT_SUPPORTED, "there is no emulated kernel " + f.entry.name);
    *why = check_params(f.entry, *k->second.k);
    job->kernel = k->second;
    return CUDA_SUCCESS;
}

static CUresult launch(Call& call, CUfunction h, const unsigned* grid, const unsigned* block, unsigned dynamic,
                       CUstream stream, void** params, void** extra) {
    auto f = g.functions.get(h);
    if (!f) return call.fail(CUDA_ERROR_INVALID_HANDLE, "this function does not exist (any more)");
    const std::string& name = f->entry.name;
    if (f->module->ctx != call.ctx) return call.fail(CUDA_ERROR_INVALID_CONTEXT, name + " was loaded in another context");
    std::string why = check_shape(*f, grid, block, dynamic);
    if (!why.empty()) return call.fail(CUDA_ERROR_INVALID_VALUE, name + ": " + why);
    LaunchJob job = {{}, nullptr, call.made_by() + ": " + name, name, nullptr, {}};
    if (const CUresult r = find_code(call, *f, &job, &why)) return r;
    if (why.empty()) job.args = copy_arguments(f->entry, params, extra, &why);
    if (!why.empty()) return call.fail(CUDA_ERROR_INVALID_VALUE, name + ": " + why);
    for (int i = 0; i < 3; i++) {
        job.launch.grid[i] = grid[i];
        job.launch.block[i] = block[i];
    }
    job.launch.dynamic_shared = dynamic;
    job.launch.greedy = g.knobs.greedy;
    Work w;
    w.kind = KERNEL;
    w.what = job.what;
    w.run = [job] { return run_launch(job); };
    return submit(call, stream, w);
}

}  // namespace fake

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned dynamic, CUstream stream, void** params, void** extra) {
    if (g.knobs.instant_launch) return CUDA_SUCCESS;
    API(CONTEXT);
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return fake::launch(call, f, grid, block, dynamic, stream, params, extra);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
    API(CONTEXT);
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    if (c->numAttrs) return call.fail(CUDA_ERROR_NOT_SUPPORTED, "launch attributes are not emulated");
    const unsigned grid[] = {c->gridDimX, c->gridDimY, c->gridDimZ}, block[] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    return fake::launch(call, f, grid, block, c->sharedMemBytes, c->hStream, params, extra);
}

// fakecuda_unknown copies to out, a line for each kernel of a PTX text, why the interpreter cannot run it. Empty: it can run all.
EXPORT size_t fakecuda_unknown(const char* ptx, char* out, size_t n) {
    fake::Lock lock(g.mu);
    fake::Module m;
    std::string why, lines;
    if (fake::parse_ptx(ptx, &m, &why) != CUDA_SUCCESS) return fake::copy_text(why + "\n", out, n);
    auto image = fake::interpreter::open(ptx, &why);
    if (!why.empty()) lines = why + "\n";
    for (auto& e : m.entries) {
        why.clear();
        if (!fake::interpreter::compile(image.get(), e.name, &why)) lines += why + "\n";
    }
    return fake::copy_text(lines, out, n);
}

// fakecuda_skeleton writes PTX without code for the named kernels (with blanks between), and returns its length; 0 if one is
// not loaded.
EXPORT size_t fakecuda_skeleton(const char* names, char* out, size_t n) {
    fake::Lock lock(g.mu);
    std::string s = ".version 7.0\n.target sm_80\n.address_size 64\n", list = names;
    for (size_t from = 0; from < list.size();) {
        const size_t end = std::min(list.find(' ', from), list.size());
        auto k = fake::kernels().find(list.substr(from, end - from));
        from = end + 1;
        if (k == fake::kernels().end()) return fake::copy_text("", out, n);
        s += ".visible .entry " + k->first + "(";
        for (int i = 0; i < k->second.k->params; i++) {
            const uint32_t size = k->second.k->sizes[i];
            const bool scalar = size == 1 || size == 2 || size == 4 || size == 8;
            s += format("%s\n\t.param ", i ? "," : "");
            s += scalar ? format(".b%u p%d", size * 8, i) : format(".align 8 .b8 p%d[%u]", i, size);
        }
        s += "\n)\n{\n\tret;\n}\n";
    }
    return fake::copy_text(s, out, n);
}
