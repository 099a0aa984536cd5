// Barriers as places of sources: which of them kernels come to, and one that is taken out. A barrier that can be taken out
// without any test noticing is not needed, or lacks a test; kernels/cuda has a test that asks so for each. Barriers are
// __syncthreads and its forms, __syncwarp and gk_cp_async_wait.
#include <stdio.h>
#include <string.h>

#include <mutex>
#include <set>
#include <string>

#include "emu_engine.h"

namespace gk {

static bool watching;                // changed only while no kernel runs
static std::mutex mu;                // of reached
static std::set<std::string> reached;
static struct {
    std::string kernel, file;
    int line;
} out;  // the barrier that is taken out; line 0 for none

static const char* base(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void name_kernel(Engine* e, int (*run)(const gk_launch*)) {
    e->kernel = e->last_file = nullptr;
    if (!watching) return;
    int n = 0;
    const gk_kernel* k = gk_kernels(&n);
    for (int i = 0; i < n; i++)
        if (k[i].run == run) e->kernel = k[i].name;
}

bool removed(const char* file, int line) {
    Engine* e = own();
    if (!e->kernel) return false;
    if (file != e->last_file || line != e->last_line) {
        std::lock_guard<std::mutex> lock(mu);
        reached.insert(std::string(e->kernel) + " " + base(file) + " " + std::to_string(line));
        e->last_file = file;
        e->last_line = line;
    }
    return line == out.line && out.kernel == e->kernel && out.file == base(file);
}

}  // namespace gk

// gk_watch begins to note barriers, with none noted, or ends it.
GK_EXPORT void gk_watch(int on) {
    gk::watching = on != 0;
    gk::reached.clear();
    gk::out.line = 0;
}

// gk_reached lists the barriers that kernels came to since gk_watch: lines of kernel, file without folder, line. It writes at
// most room bytes with a zero at the end, and returns the length that it wanted.
GK_EXPORT size_t gk_reached(char* to, size_t room) {
    std::string all;
    for (const std::string& place : gk::reached) all += place + "\n";
    snprintf(to, room, "%s", all.c_str());
    return all.size();
}

// gk_remove takes one barrier out of one kernel, until the next call; line 0 takes none. Barriers must be watched.
GK_EXPORT void gk_remove(const char* kernel, const char* file, int line) {
    gk::out = {kernel, file, line};
}
