package linalg

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/cistern-ml/cistern/tensor"
)

// stack is matrices of one shape on the host.
type stack struct {
	op         string
	e          tensor.Exec
	dt         tensor.DType
	shape      tensor.Shape
	batch      []int
	n          int // how many
	rows, cols int
	data       []float64
}

// read brings the matrices of a tensor to the host.
func read(op string, t *tensor.Tensor) (*stack, error) {
	if dt := t.DType(); !t.Released() && dt != tensor.Float32 && dt != tensor.Float64 {
		return nil, &tensor.DTypeError{Op: op, DTypes: []tensor.DType{dt}, Detail: "matrices must be float32 or float64: convert with To"}
	}
	if !t.Released() && t.NDim() < 2 {
		return nil, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{t.Shape().Clone()}, Detail: "a matrix has two dimensions"}
	}
	data, err := t.Float64s()
	if err != nil {
		return nil, fmt.Errorf("linalg: %s: %w", op, err)
	}
	shape := t.Shape().Clone()
	last := len(shape) - 2
	s := &stack{op: op, e: t.Exec(), dt: t.DType(), shape: shape, batch: shape[:last:last], rows: shape[last], cols: shape[last+1], data: data}
	s.n = tensor.Shape(s.batch).Len()
	return s, nil
}

// square is read of square matrices.
func square(op string, t *tensor.Tensor) (*stack, error) {
	s, err := read(op, t)
	if err == nil && s.rows != s.cols {
		return nil, &tensor.ShapeError{Op: op, Shapes: []tensor.Shape{s.shape}, Detail: "the matrix must be square"}
	}
	return s, err
}

// finite refuses matrices for which iterations would not end well.
func (s *stack) finite() error {
	for i, v := range s.data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return s.failed(i/(s.rows*s.cols), ErrNotFinite)
		}
	}
	return nil
}

func (s *stack) failed(batch int, err error) error {
	return &MatrixError{Op: s.op, Shape: s.shape, Batch: batch, Err: err}
}

// at is matrix i, in the stack's memory.
func (s *stack) at(i int) blas64.General {
	size := s.rows * s.cols
	return general(s.data[i*size:(i+1)*size], s.rows, s.cols)
}

func general(data []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: max(1, cols), Data: data}
}

func zeros(rows, cols int) blas64.General { return general(make([]float64, rows*cols), rows, cols) }

// each calls f for every matrix of a stack that is not empty. A panic of gonum's is an error: it has those for arguments that it did not
// expect.
func (s *stack) each(f func(i int, m blas64.General) error) (err error) {
	if s.rows == 0 || s.cols == 0 { // of any number
		return nil
	}
	at := 0
	defer func() {
		if p := recover(); p != nil {
			err = s.failed(at, fmt.Errorf("%w: %v", ErrNoConvergence, p))
		}
	}()
	for at = range s.n {
		if err := f(at, s.at(at)); err != nil {
			return s.failed(at, err)
		}
	}
	return nil
}

// room makes zeros on the host for a result of dims for each of the batch. The device must have memory for it, as it will need: what has more elements than
// the matrices could be any number of them.
func (s *stack) room(dims ...int) ([]float64, error) {
	shape := append(append(tensor.Shape{}, s.batch...), dims...)
	t, err := tensor.Empty(s.e, s.dt, shape...)
	if err != nil {
		return nil, fmt.Errorf("linalg: %s: %w", s.op, err)
	}
	t.Release()
	return make([]float64, shape.Len()), nil
}

// tensor makes a result: dims for each of the batch.
func (s *stack) tensor(data []float64, dims ...int) (*tensor.Tensor, error) {
	shape := append(append([]int{}, s.batch...), dims...)
	var t *tensor.Tensor
	var err error
	if s.dt == tensor.Float64 {
		t, err = tensor.FromSlice(s.e, data, shape...)
	} else {
		narrow := make([]float32, len(data))
		for i, v := range data {
			narrow[i] = float32(v)
		}
		t, err = tensor.FromSlice(s.e, narrow, shape...)
	}
	if err != nil {
		return nil, fmt.Errorf("linalg: %s: %w", s.op, err)
	}
	return t, nil
}

// result is one of several of an operation.
type result struct {
	data []float64
	dims []int
}

// tensors makes several results, or none.
func (s *stack) tensors(results ...result) ([]*tensor.Tensor, error) {
	var made []*tensor.Tensor
	for _, r := range results {
		t, err := s.tensor(r.data, r.dims...)
		if err != nil {
			for _, m := range made {
				m.Release()
			}
			return nil, err
		}
		made = append(made, t)
	}
	return made, nil
}
