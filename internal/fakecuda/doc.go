// Package fakecuda is a CUDA driver without a GPU, for tests: a shared library that exports the functions of libcuda.so.1
// and runs them on the processor. The library is written in C++ (folder src) and built by the tests that want it, once;
// where there is no compiler, or another system than linux/amd64, those tests are skipped and say why.
//
// It is a driver as its callers see it, and stricter than the real one. Streams are threads and run behind the caller.
// Contexts are current to threads. Memory is used once, ends at a page that cannot be touched, and is poisoned when fresh.
// Stale handles, double frees, accesses out of bounds and leaks are found, and named after the call that made them. Each
// call, and each piece of work on a stream, can be made to fail, and streams can be held to prove that a caller does not
// rely on luck. README.md lists the functions, their limits, and all settings.
//
//	path := fakecuda.Build(t)              // compiles the library or finds it in the cache
//	lib := fakecuda.Open(t, path)          // turns its knobs; the code under test opens the same path
//	lib.Fail("cuMemAlloc_v2", 2, 2)        // the second allocation from now answers CUDA_ERROR_OUT_OF_MEMORY
//	...
//	lib.RequireClean()                     // nothing leaked, nothing found
//
// Kernels are the CUDA sources themselves, compiled for the processor by BuildKernels with an emulation header
// (kernels/cuda/emu) and given to the library with LoadKernels; or the PTX that was made of them, run by an interpreter that is part of
// the library (knob "ptx").
//
// The library's state is that of the process: tests that use it do not run in parallel.
package fakecuda
