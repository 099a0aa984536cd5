// The table of a library's kernels. The builder lists a source's kernels and writes, after including it,
//
//	static const gk_kernel kernels[] = {GK_ENTRY(add_f32), GK_ENTRY(add_f64)};
//	static gk::Registration registered(kernels, 2);
#pragma once

#include "../../../internal/fakecuda/src/kernel_abi.h"

namespace gk {

// run_launch runs the blocks of a launch on the calling OS thread; call unpacks the arguments and calls the kernel once for a
// thread. run is the kernel's in the table.
int run_launch(const gk_launch* l, void (*call)(void** args), int (*run)(const gk_launch*));

struct Registration {
    const gk_kernel* kernels;
    int count;
    Registration* next;
    Registration(const gk_kernel* kernels, int count);
};

template <int... I>
struct Indices {};
template <int N, int... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I>
struct MakeIndices<0, I...> {
    typedef Indices<I...> type;
};

// Entry derives number and sizes of a kernel's parameters from its type.
template <auto F>
struct Entry;
template <class... A, void (*F)(A...)>
struct Entry<F> {
    static constexpr int params = sizeof...(A);
    static constexpr uint32_t sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
    template <int... I>
    static void unpack(void** args, Indices<I...>) {
        F(*(A*)args[I]...);
    }
    static void call(void** args) { unpack(args, typename MakeIndices<sizeof...(A)>::type()); }
    static int run(const gk_launch* l) { return run_launch(l, call, run); }
};

}  // namespace gk

#define GK_ENTRY(name) {#name, gk::Entry<&name>::params, gk::Entry<&name>::sizes, gk::Entry<&name>::run}
