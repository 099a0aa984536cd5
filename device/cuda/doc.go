// Package cuda is the device for NVIDIA GPUs. It speaks to the driver (libcuda.so.1, nvcuda.dll), which comes with the GPU's
// driver package, and needs neither cgo nor the CUDA toolkit. A program that imports it for its effect can open "cuda:0":
//
//	import _ "github.com/cistern-ml/cistern/device/cuda"
//
// Without a driver or a GPU everything builds and runs, device.Count(device.CUDA) is 0, and Unavailable says why.
//
// # Libraries
//
// The driver library is looked for by its name, then in the folders where distributions keep it; CISTERN_CUDA_LIBRARY names a file
// or folders instead. Processes, and nothing else, wants NVIDIA's management library (libnvidia-ml.so.1, nvml.dll); it is looked
// for in the same places, or CISTERN_NVML_LIBRARY names the file.
//
// The driver itself opens its PTX compiler, libnvidia-ptxjitcompiler.so.1, by its name. If it says that it does not find it
// (CUDA_ERROR_JIT_COMPILER_NOT_FOUND), which happens when the driver lies where the system's loader does not search, the compiler
// beside the driver is opened, and the load tried once more.
//
// # Contexts and threads
//
// A device uses its primary context, the one that the CUDA runtime and the libraries on top of it use. It is made by the first
// call that needs it, because it costs some hundred megabytes and part of a second; looking at Properties does not make it.
// The context is set anew in each crossing to the driver, together with the calls that need it (package internal/driver), so
// any goroutine may call anything, on any thread.
//
// # Streams
//
// The default stream is the driver's legacy stream, 0. The others are non-blocking: they do not wait for the default stream
// nor it for them, other than through events.
//
// CopyToDevice lets its caller change the source at once. So the bytes first go to pinned memory of the stream's, two pieces
// of a megabyte that take turns. CopyToHost waits anyway and leaves the staging to the driver. The copies of
// device.AsyncCopier, from and to pinned memory, do neither.
//
// # Captures
//
// A graph is captured in the driver's relaxed mode: nothing is forbidden to other goroutines but what waits for a stream that is
// captured, or for the whole device, and that is refused before the driver sees it, because it would end the capture. A capture
// begins when the waits that have begun are over. Kernels may
// be loaded, memory may be taken and freed meanwhile. AllocAsync and FreeAsync on a captured stream become part of the graph.
//
// # Drivers
//
// Every function that is looked up is in drivers from 535 to 580; those up to CUDA 11.0 are required, the others make up
// features that are missing in older ones. Package internal/abi compares calls, numbers and layouts with the headers. The first load
// of a module compiles its PTX, for seconds if it is large; the driver keeps the result in ~/.nv/ComputeCache (CUDA_CACHE_PATH,
// CUDA_CACHE_MAXSIZE), and processes after that load it at once.
//
// # cuBLAS
//
// Matrix products of package kernels/cuda go to cuBLAS where the machine has it. It is looked for when the first product is
// computed, by the usual names in the usual places; CISTERN_CUBLAS_LIBRARY names another one, or "off". BLAS says whether it is
// used, and if not, why. Nobody needs it: package kernels/cuda has products of its own.
//
// # The end of a process
//
// device.Shutdown ends the devices of Open: it waits for their work, unloads modules and graphs, frees memory, and gives up the primary
// contexts. The driver destroys a context when nobody in the process uses it any more; a library that has retained it too, as the
// CUDA runtime inside cuBLAS may, keeps it. Profilers and compute-sanitizer see the end of a context, and not that of a Go process, which
// runs no functions that libraries registered for it. Every call of the driver counts itself in and out, so that none meets
// a context that is gone; a call after Shutdown is a device.ErrClosed.
//
// # Profiling
//
// CISTERN_CUDA_PROFILE=FILE (ProfileVariable) times every operation that a program enqueues on a stream, without NVIDIA's tools: kernels,
// products of cuBLAS, copies, fills and launches of graphs. FILE is a trace for chrome://tracing and Perfetto, FILE.txt has totals
// by name and shape; docs/profiling.md tells how to read them. In code, StartProfile does that for a region.
//
// Each operation is enqueued on its stream between two timing events, in one crossing. The events, some 4096 at most, are used again
// when they have been read, which waits do, and launches when half of them are under way. An operation that finds none waits for the
// oldest one. Goroutines that share a stream take turns meanwhile. What is captured is not timed but counted; the graph's launches
// are timed, each as one. While no profile runs, an operation pays one test of a pointer.
//
// The file is written by Close, also by that of a shared device, and by device.Shutdown. Go has no hook for the end of a program: one that
// calls neither, or ends by os.Exit, a signal or a panic before that, leaves no file.
//
// # Errors
//
// Each error is a *device.Error with the name of the driver's function that failed; errors.As finds its Result. Errors of work
// on the device show when somebody waits. The driver says only that something went wrong, so each stream remembers the names
// of the operations enqueued on it since it was last seen without error, and the error names them. With CUDA_LAUNCH_BLOCKING=1,
// which the driver reads, the list has one entry.
//
// After some errors (an illegal address, for one) the context is lost. The device then refuses everything with the first
// such error, and only a new process helps.
package cuda
