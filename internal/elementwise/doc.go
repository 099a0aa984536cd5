// Package elementwise is the table of element-wise operations: one row says all that is particular to an operation, and the files that
// other packages need of it are generated. Nothing imports this package in a program; the generator and tests do.
//
// An operation with kernels takes a row in the file of its family and, if it needs a function that is not there yet, that function in
// kernels/cpu, kernels/cuda/src/math.h or, for references, kernels/kerneltest/table.go. go generate ./internal/elementwise makes of the row
//
//	kernels/op            the identifiers and what calls must look like
//	kernels/cpu           loops and rows
//	kernels/cuda          functions, kernels and rows, which go generate ./kernels/cuda then compiles
//	kernels/kerneltest    the reference that both are compared with
//	tensor                the function, and its gradients; their samples among the tests
//	autograd              the operation with its rules; cases for finite differences, for PyTorch's numbers, for released tensors
//	amp                   the class for autocast, and its case among the tests
//	ops.json              the operation for scripts that run PyTorch: autograd/testdata/elementwise.py, and internal/torchtest
//
// What an operation has in common with others is written there by hand, and called by what is generated. So is what it has alone: the
// row names it, as a kernel with vector instructions or a rule that computes the gradient of other operations, or says in ByHand that
// tensor or autograd has a function of its own.
//
// An operation that is composed of others, or that has the kernel of another one, needs no row: it is a function of package autograd or
// tensor. Where moves bits, whatever their type, and the losses of elements are differences of a prediction and a target with
// reductions behind them: both have kernels of other kinds.
//
// docs/adding-an-op.md follows one operation through all of this.
package elementwise

//go:generate go run ./gen
