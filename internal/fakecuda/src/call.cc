// The door of every exported function: faults and delays that tests asked for, then what the real driver checks first.
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "fake.h"

namespace fake {

State& g = *new State;

std::string format(const char* f, ...) {
    char buf[1024];
    va_list args;
    va_start(args, f);
    vsnprintf(buf, sizeof buf, f, args);
    va_end(args);
    return buf;
}

void note(const std::string& message) { g.errors.push_back(message); }

Call::Call(const char* name, unsigned needs) : name(name), lock(g.mu) {
    if (uint64_t us = g.knobs.call_delay_us) {
        lock.unlock();
        usleep(us);
        lock.lock();
    }
    number = ++g.calls[name];
    ++g.total_calls;
    ++g.serial;
    if ((result = take_fault(name)) != CUDA_SUCCESS) {
        ContextRef c = current_context();
        if (c && is_sticky(result)) poison(c, result, std::string("injected into ") + name);
        return;
    }
    if (needs & INIT) {
        if (!g.initialised)
            result = CUDA_ERROR_NOT_INITIALIZED;
        else if (in_callback)
            result = fail(CUDA_ERROR_NOT_PERMITTED, "a host function on a stream must not call the driver");
    }
    if (result == CUDA_SUCCESS && (needs & CONTEXT & ~INIT)) {
        ctx = current_context();
        if (!ctx)
            result = CUDA_ERROR_INVALID_CONTEXT;
        else if (ctx->destroyed)
            result = fail(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
        else
            result = ctx->sticky;
    }
    if (result == CUDA_SUCCESS && (needs & UNSAFE)) result = capture_forbids(*this);
}

std::string Call::made_by() const { return format("%s, call %llu", name, (unsigned long long)number); }

CUresult Call::fail(CUresult code, const std::string& why) {
    note(format("%s: %s: %s", made_by().c_str(), result_name(code), why.c_str()));
    return code;
}

}  // namespace fake
