package linalg

import (
	stderrors "errors"
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// What a *MatrixError wraps.
var (
	ErrSingular            = stderrors.New("the matrix is singular")
	ErrNotPositiveDefinite = stderrors.New("the matrix is not positive definite")
	ErrNotFinite           = stderrors.New("the matrix has elements that are NaN or infinite")
	ErrNoConvergence       = stderrors.New("the iteration did not converge")
)

// MatrixError says that an operation has no result for a matrix.
type MatrixError struct {
	Op    string // as in "Inv"
	Shape tensor.Shape
	Batch int   // which matrix, counted through the batch from 0 on
	Err   error // ErrSingular, ErrNotPositiveDefinite, ErrNotFinite or ErrNoConvergence
}

// Error returns one line, as in "linalg: Inv: [2, 3, 3]: matrix 1: the matrix is singular".
func (e *MatrixError) Error() string {
	return fmt.Sprintf("linalg: %s: %v: matrix %d: %v", e.Op, e.Shape, e.Batch, e.Err)
}

// Unwrap returns the kind of the error.
func (e *MatrixError) Unwrap() error { return e.Err }
