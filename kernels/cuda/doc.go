// Package cuda has the kernels for NVIDIA GPUs. Like kernels/cpu it exports one list, Rows; package kernels puts it in its
// table. It knows no driver: a device that can launch compiled kernels (device.Launcher) is all that it needs.
//
// # From source to launch
//
//	src/*.cu          CUDA C++, one file for each module; headers are shared. emu/gk.h is the language
//	gen               go generate ./kernels/cuda: clang compiles each source to PTX, without the CUDA SDK
//	ptx/*.ptx.lzma    what came out, packed, committed and embedded: users need no compiler
//	modules.go        written by gen: the modules and their kernels
//	library.go        a kernel is cut out of its module (image.go) and loaded into a device when it is first launched there
//	params.go, ...    a call becomes parameters and a grid; no allocation on the Go heap
//
// The driver compiles PTX for its GPU at the first load, and caches that. A program waits for the kernels that it uses, and for no
// others. The PTX is for compute capability 8.0 and newer.
//
// # What kernels promise
//
// The specification is package op, and the kernels of package cpu are its text in Go. Every kernel here is also compiled for
// the processor, under an emulation of blocks, warps and barriers, and run through kernels/kerneltest, so that a machine
// without a GPU tests all of this package. The committed PTX passes the same cases on a PTX interpreter (ptx_test.go), which also
// looks for races in shared memory. Results do not depend on timing: there are no atomic additions, reductions are
// planned from the call alone, and IndexAdd, Scatter, ScatterAdd and the gradient of EmbeddingBag sort. float32 kernels compute
// in float32, half precision too; both round as the processor's within the tolerance of kerneltest.
//
// Which bits to expect:
//
//   - The same call on the same GPU gives the same bits in every run.
//   - Element-wise kernels and reductions are IEEE operations in an order that the call alone fixes. All GPUs and the emulation give
//     the same bits, but for reciprocals inside of activations: a GPU approximates them (rcp.approx) to 1 ulp, each generation in
//     its own way, as it does the exponentials of attention on tensor cores (ex2.approx, to 2^-22).
//   - Products on tensor cores (mma.sync: those of half types, attention, convolutions) are not the same bits on other generations
//     of GPUs, nor on the emulation. The hardware aligns the products of one mma.sync with the largest, cuts off what lies a few bits below a
//     float32 of that size, and adds in an order that it does not promise; the emulation, of sources and of PTX, adds in double
//     precision and rounds once. Fasi, Higham, Mikaitis and Pranesh measured it (Numerical behavior of NVIDIA tensor cores, PeerJ
//     Computer Science, 2021), Khattak and Mikaitis on Hopper. What is promised, and what kerneltest checks of a MatMul, is a bound: the
//     error is at most half an ulp of the result in its type, plus 2 ulps, in float32, of (1 + k/2) * |alpha| * sum(|a*b|) + |beta*c|
//     for sums of k products. Tests that compare bits of products use numbers whose sums are exact.
//   - cuBLAS promises the same bits for one version of it on GPUs of one architecture with as many multiprocessors.
//
// Kernels that only wait for memory read and write 16 bytes at a time, several of them on their way, wherever operands lie so;
// docs/kernels-bandwidth.md has what their machine code lets one expect.
//
// Each barrier is on a line of its own, outside of macros, so that a test can take it out (.ci/run mutation): a case of kerneltest
// must then fail, or the barrier is not needed. barriers.md has the result.
//
// # Memory
//
// Reductions of few outputs, sums over channels, products and gradients that are summed in parts, running sums of few long rows, steps of optimizers that are counted in device memory, and what sorts need workspace;
// Row.Workspace says how much. Convolutions unfold no image: what a tile needs of it is gathered into shared memory. Those of many channels, of half types, first
// write image and kernel, or image and gradient, to the workspace with the channels last.
//
// # Matrix products
//
// MatMul and MatMulAct go to the device's library of products, cuBLAS, if it has one that takes them (package device/blas); its
// workspace is Row.Workspace's too. Otherwise our own kernels compute them: matmul_vector.cu where one side is a vector,
// matmul_tensor.h on tensor cores for half types whose rows are aligned, in tiles of three sizes (matmul_large.cu and its like),
// matmul_strip.cu for those of them with 64 results or sums of 64 along one side, and matmul.cu for all else. Where a product would fill only part of a GPU its sums are cut into slices, which are added up in their
// order. Slices are planned from the call alone; the tile is chosen for the device, and makes no difference to the result.
// LinearWeightGrad wants float32 of half types, and the sums that a bias's gradient is: one call of cuBLASLt. Our own kernels leave the sums
// of a slice, which are float32, as the result.
//
// # Errors
//
// Losses of classes and all operations with indices check them on the device. A kernel that finds one out of range leaves a note
// in memory that the host can read too (device.Reporter), and goes on without it; the next wait for any work of the device
// returns the op.ErrIndex. Nothing waits for that. The outputs of such a call are partly written, unlike the processor's.
package cuda

//go:generate go run ./gen
