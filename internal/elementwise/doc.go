// Package elementwise is the table of element-wise operations: one row says all that is particular to an operation, and the files that
// other packages need of it are generated. Nothing imports this package in a program; the generator and tests do.
//
// An operation with kernels takes a row in ops.go and, if it needs a function that is not there yet, that function in kernels/cpu or
// kernels/cuda/src/math.h. go generate ./internal/elementwise makes of the row
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
// What the rows of an operation have in common with others is written there by hand, and called by what is generated. An operation
// that is composed of others needs no row: it is a function of package autograd.
//
// docs/adding-an-op.md follows one operation through all of this.
package elementwise

//go:generate go run ./gen
