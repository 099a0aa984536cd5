// Package matrix has inverses, solutions of linear systems, determinants and decompositions of variables, with gradients: those of package
// tensor/linalg, which says what they take, where they run (on the host, also for a GPU's tensors) and what their errors are. The errors are
// the graph's.
//
//	x := matrix.Solve(a, b)
//	_, logDet := matrix.SlogDet(covariance)
//
// # Gradients
//
// The rules are those of Giles, "Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation" (2008), and for
// the Cholesky factor of Murray, "Differentiation of the Cholesky decomposition" (2016). They have no gradients of their own: CreateGraph
// through them is an error (autograd.ErrHigherOrder). Those of Trace, MultiDot, MatrixPower of a positive power and of MatrixNorm but for the orders of
// singular values are made of other operations, and have. Gradients of symmetric matrices are symmetric.
package matrix
