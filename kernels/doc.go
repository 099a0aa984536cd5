// Package kernels chooses the kernel for a call: one table of operation, element type and kind of device, filled from the
// explicit lists that kernels/cpu (and kernels/cuda) export. What an operation means is written once, in kernels/op; what
// every implementation must pass is kernels/kerneltest.
//
//	kernels/op           operations, views, calls: the contract
//	kernels/cpu          plain Go and a little assembly, for host and simulated devices
//	kernels/cuda         CUDA C++, as PTX, for NVIDIA's GPUs
//	kernels/kerneltest   the conformance suite
//	kernels              the table, and Launch
//
// # The walk of a Launch
//
// Launch looks at the stream of the call. A stream that executes Go code (device.Executor: host and simulated devices) gets
// the processor's kernel. With ExecInline it is called on the spot, without an allocation; the call's error is the
// kernel's. With ExecQueued a copy of the call is enqueued on the stream; an error comes out of a later wait, and element-wise operations
// that wait behind each other run as one pass over memory (chain.go). With ExecDiscard
// there is no storage to compute on: the row must exist, and a function that does nothing is enqueued on the stream, so that the
// launch is counted and costs what a launch costs.
//
// Kernels never allocate device memory: an operation that needs workspace says how much (Workspace), and the caller passes
// it in Call.Work. Kernels for the processor need none; what they need besides comes from Go's own pools.
//
// # Errors
//
// A missing row is a *MissingError. Errors of the operation itself are *op.Error, for which errors.Is finds op.ErrIndex (an
// index outside its dimension) or op.ErrCall (a malformed call; checked in builds with the invariants tag). Both leave the
// outputs unwritten.
package kernels
