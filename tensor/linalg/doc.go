// Package linalg has decompositions and solutions of linear systems for tensors, with the names and numbers of torch.linalg. Package
// autograd/matrix has some for variables, with gradients.
//
//	x, err := linalg.Solve(a, b)
//
// # Shapes and types
//
// The last two dimensions are those of a matrix; all before are a batch, each of which is computed alone. Matrices are float32 or float64.
// Results are new tensors of the type, device and stream of the first argument, and the caller's.
//
// # Where it runs
//
// All of it runs on the host, in float64, by gonum, which is Go alone: tensors of a GPU are copied there and the results back, and every
// function waits for the device. It is for small matrices and few of them: covariances, whitening, Newton steps. Programs that do not
// import this package do not link gonum.
//
// # Errors
//
// Matrices that are singular, not positive definite, or have elements that are not finite where those have no result, are a *MatrixError,
// which says the first of the batch. Shapes and types are errors of package tensor.
package linalg
