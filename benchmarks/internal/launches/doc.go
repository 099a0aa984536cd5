// Package launches counts what a program puts on the streams of a CUDA device: kernels, products of cuBLAS and cuBLASLt, copies and
// fills, and the bytes that they move at least. It needs no GPU, and nothing is computed.
//
// A Device is a simulated device's memory under the name of a CUDA device. The kernels of package kernels/cuda are planned for it as for a
// GPU, call by call, with their grids, their workspaces and their choices between ways to compute; only the launch at the end is a number
// that goes up. Products go to a library that takes what cuBLAS and cuBLASLt take (blas.Product.Plain and HasEpilogue).
//
//	d := launches.New(80 << 30)
//	... warm up ...
//	d.Begin()
//	... what is to be counted ...
//	counts := d.End()
//
// # What is counted
//
// Each launch of a kernel, each product, copy and fill is one operation. A call of package kernels that takes two kernels, as a sum down
// columns, is two operations. The bytes of a call are those of its operands and results, each element once: what a kernel reads again, and
// its workspace, are not among them. Of a table that is read by rows only as much counts as is read.
package launches
