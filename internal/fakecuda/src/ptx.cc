// What the driver must know of a PTX module: version, target, entry points, their parameters and static shared memory. The
// code is for the interpreter, or emulated kernels take its place.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

namespace fake {

// newest_ptx is the newest PTX version, times ten, that the driver of a CUDA version can compile.
static int newest_ptx(int driver) {
    const int major = driver / 1000, minor = driver % 1000 / 10;
    if (major <= 11) return 70 + minor;
    if (major == 12) return 80 + (minor <= 5 ? minor : minor - 1);
    return 90 + minor;
}

static std::string word_at(const std::string& s, size_t* i) {
    while (*i < s.size() && isspace((unsigned char)s[*i])) ++*i;
    const size_t from = *i;
    while (*i < s.size() && (isalnum((unsigned char)s[*i]) || strchr("_.$%", s[*i]))) ++*i;
    return s.substr(from, *i - from);
}

// type_size is the size of a PTX type such as .u64 or .f16x2, or 0.
static size_t type_size(const std::string& type) {
    if (type == ".f16x2" || type == ".bf16x2") return 4;
    if (type == ".pred") return 1;
    const size_t digits = type.find_first_of("0123456789");
    return digits == std::string::npos || type[0] != '.' ? 0 : (size_t)atoi(type.c_str() + digits) / 8;
}

// variable reads ".align 4 .b8 name[16]" and the like, after .param or .shared.
static bool variable(const std::string& s, size_t* i, Param* out, std::string* name) {
    *out = {0, 0};
    for (;;) {
        const std::string w = word_at(s, i);
        if (w.empty()) return false;
        if (w == ".align") {
            out->align = strtoul(word_at(s, i).c_str(), nullptr, 10);
        } else if (w == ".ptr" || w == ".global" || w == ".shared" || w == ".const" || w == ".local") {
            continue;
        } else if (w[0] == '.') {
            out->size = type_size(w);
        } else {
            *name = w;
            break;
        }
    }
    if (out->align == 0) out->align = out->size;
    while (*i < s.size() && s[*i] == '[') {
        out->size *= strtoul(s.c_str() + *i + 1, nullptr, 10);
        *i = s.find(']', *i);
        if (*i == std::string::npos) return false;
        ++*i;
    }
    return out->align != 0;
}

// params reads the list after the name of an entry point.
static bool params(const std::string& s, size_t* i, EntryPoint* e) {
    while (*i < s.size() && isspace((unsigned char)s[*i])) ++*i;
    if (*i >= s.size() || s[*i] != '(') return true;  // none
    ++*i;
    for (;;) {
        const std::string w = word_at(s, i);
        if (w == ".param") {
            Param p;
            std::string name;
            if (!variable(s, i, &p, &name) || p.size == 0) return false;
            e->params.push_back(p);
        } else if (!w.empty()) {
            return false;
        }
        while (*i < s.size() && isspace((unsigned char)s[*i])) ++*i;
        if (*i >= s.size()) return false;
        if (s[(*i)++] == ')') return true;
    }
}

// variables_of sums the variables of a state space, ".shared" or ".local", that stand in s and that an entry point names.
static size_t variables_of(const std::string& space, const std::string& s, const std::string& body) {
    size_t sum = 0;
    std::set<std::string> seen;
    for (size_t i = s.find(space); i != std::string::npos; i = s.find(space, i + 1)) {
        size_t at = i + space.size();
        Param p;
        std::string name;
        if (at >= s.size() || !isspace((unsigned char)s[at]) || !variable(s, &at, &p, &name)) continue;
        if (body.find(name) == std::string::npos || !seen.insert(name).second) continue;
        sum = (sum + p.align - 1) / p.align * p.align + p.size;
    }
    return sum;
}

// body_of returns the text between an entry's braces, and moves behind it; what is in between are directives.
static bool body_of(const std::string& s, size_t* i, std::string* directives, std::string* body) {
    const size_t open = s.find('{', *i);
    if (open == std::string::npos) return false;
    *directives = s.substr(*i, open - *i);
    int depth = 0;
    for (size_t k = open; k < s.size(); k++) {
        depth += s[k] == '{' ? 1 : s[k] == '}' ? -1 : 0;
        if (depth == 0) return *body = s.substr(open, k - open), *i = k + 1, true;
    }
    return false;
}

// max_threads_of reads .maxntid and .reqntid.
static int max_threads_of(const std::string& directives) {
    size_t i = directives.find(".maxntid");
    if (i == std::string::npos) i = directives.find(".reqntid");
    if (i == std::string::npos) return 1024;
    int n = 1;
    const char* p = directives.c_str() + i + 8;
    for (;;) {
        char* end;
        const long v = strtol(p, &end, 10);
        if (end == p) break;
        n *= (int)v;
        p = end;
        while (isspace((unsigned char)*p)) p++;
        if (*p++ != ',') break;
    }
    return n;
}

// parse_ptx fills m, or returns the driver's code and what its compiler says.
CUresult parse_ptx(const std::string& text, Module* m, std::string* log) {
    const std::string s = interpreter::without_comments(text);
    const size_t version = s.find(".version"), target = s.find(".target");
    auto fail = [&](CUresult code, const std::string& why) { return *log = "ptxas fatal   : " + why, code; };
    if (version == std::string::npos || target == std::string::npos)
        return fail(CUDA_ERROR_INVALID_PTX, "Missing .version or .target directive");
    int major = 0, minor = 0, sm = 0;
    char arch = 0;
    if (sscanf(s.c_str() + version, ".version %d.%d", &major, &minor) != 2)
        return fail(CUDA_ERROR_INVALID_PTX, "Cannot parse .version");
    if (sscanf(s.c_str() + target, ".target sm_%d%c", &sm, &arch) < 1)
        return fail(CUDA_ERROR_INVALID_PTX, "Cannot parse .target");
    const int newest = newest_ptx(g.knobs.driver_version);
    if (major * 10 + minor > newest)
        return fail(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, format("Unsupported .version %d.%d; current version is '%d.%d'",
                                                               major, minor, newest / 10, newest % 10));
    if (sm > g.knobs.compute || ((arch == 'a' || arch == 'f') && sm != g.knobs.compute))
        return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, format("SM version specified by .target is higher than default SM version "
                                                         "assumed: sm_%d%s on compute capability %d.%d",
                                                         sm, arch == 'a' || arch == 'f' ? std::string(1, arch).c_str() : "",
                                                         g.knobs.compute / 10, g.knobs.compute % 10));
    m->ptx_version = major * 10 + minor;
    m->target = sm;
    for (size_t i = s.find(".entry"); i != std::string::npos; i = s.find(".entry", i)) {
        i += 6;
        EntryPoint e;
        e.name = word_at(s, &i);
        std::string directives, body;
        if (e.name.empty() || !params(s, &i, &e) || !body_of(s, &i, &directives, &body))
            return fail(CUDA_ERROR_INVALID_PTX, "Parsing error near '" + e.name + "': syntax error");
        e.static_shared = variables_of(".shared", s, body);  // they may stand before the entry point too
        e.local = variables_of(".local", body, body);
        e.max_threads = max_threads_of(directives);
        m->entries.push_back(e);
    }
    return CUDA_SUCCESS;
}

}  // namespace fake
