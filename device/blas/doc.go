// Package blas is what kernels and a device agree on about matrix products that a library of the device's maker computes: cuBLAS
// on a CUDA device. Package kernels/cuda asks the device for it (Multiplier) and uses its own kernels where there is none.
//
// It stands below both: kernels know no driver and no library, devices know no operations. Neither allocates: the device says how
// much workspace the library wants, kernels pass that on as op.Row.Workspace, and the caller's allocator provides it, in stream
// order, for the time of one call. So the workspace is counted like all other memory, and in a graph capture comes from the
// capture's pool.
package blas
