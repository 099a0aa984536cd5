package main

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

const (
	width      = 1024           // of a row
	vocabulary = 32768          // of a row of logits
	leastBytes = 4 * vocabulary // of which sizes are multiples
	padding    = 16             // elements by which the rows of a wider matrix are apart
	ignored    = -100           // the class of rows that have no loss: none here
)

// operation is what is measured. Bytes are in matrices of the given size, of which it reads and writes so many.
type operation struct {
	name     string
	matrices float64
	only     tensor.DType // or any
	// start makes what the operation needs besides the matrix. A call makes a result, if it has one, and releases it.
	start func(s *scene) (call func() error, err error)
}

// made is an operation that makes a tensor of the matrix.
func made(name string, matrices float64, f func(x *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return operation{name: name, matrices: matrices, start: func(s *scene) (func() error, error) {
		x, err := s.matrix(width)
		return func() error { return discard(f(x)) }, err
	}}
}

// madeOfTwo is an operation that makes a tensor of two such matrices.
func madeOfTwo(name string, matrices float64, f func(x, y *tensor.Tensor) (*tensor.Tensor, error)) operation {
	return operation{name: name, matrices: matrices, start: func(s *scene) (func() error, error) {
		x, err := s.matrix(width)
		if err != nil {
			return nil, err
		}
		y, err := s.matrix(width)
		return func() error { return discard(f(x, y)) }, err
	}}
}

func discard(t *tensor.Tensor, err error) error {
	t.Release()
	return err
}

// operations are all, in the order of the table. The script has the same names.
func operations() (list []operation) {
	list = append(list, copies()...)
	list = append(list, elementwise()...)
	list = append(list, rows()...)
	list = append(list, norms()...)
	list = append(list, images()...)
	list = append(list, losses()...)
	list = append(list, trained()...)
	return append(list, optimizers()...)
}

func elementwise() []operation {
	return []operation{
		made("mul scalar", 2, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.MulScalar(0.5) }),
		made("relu", 2, (*tensor.Tensor).ReLU),
		made("gelu", 2, (*tensor.Tensor).GELU),
		made("gelu tanh", 2, (*tensor.Tensor).GELUTanh),
		made("exp", 2, (*tensor.Tensor).Exp),
		madeOfTwo("add", 3, (*tensor.Tensor).Add),
		madeOfTwo("mul", 3, (*tensor.Tensor).Mul),
		madeOfTwo("gelu tanh gradient", 3, gradients.GELUTanh),
		{name: "add in place", matrices: 3, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			if err != nil {
				return nil, err
			}
			y, err := s.matrix(width)
			return func() error { return x.AddInPlace(y, 1e-6) }, err
		}},
		{name: "add row", matrices: 2, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			if err != nil {
				return nil, err
			}
			row, err := s.row(width)
			return func() error { return discard(x.Add(row)) }, err
		}},
		{name: "dropout", matrices: 2, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			return func() error { return discard(x.Dropout(s.gen, 0.1)) }, err
		}},
		{name: "random normal", matrices: 1, start: func(s *scene) (func() error, error) {
			return func() error { return discard(tensor.RandN(s.Exec, s.gen, s.dtype, s.rows(width), width)) }, nil
		}},
	}
}

func rows() []operation {
	return []operation{
		made("sum of all", 1, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Sum(nil, false) }),
		made("sum of rows", 1, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Sum([]int{1}, false) }),
		made("sum of columns", 1, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Sum([]int{0}, false) }),
		made("largest of rows", 1, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Max([]int{1}, false) }),
		made("softmax", 2, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Softmax(1) }),
		made("log softmax", 2, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.LogSoftmax(1) }),
		madeOfTwo("softmax gradient", 3, func(x, y *tensor.Tensor) (*tensor.Tensor, error) { return gradients.Softmax(x, y, 1) }),
	}
}

// copies are memory moved: by the driver, and by kernels that know layouts and types.
func copies() []operation {
	return []operation{
		{name: memcpy, matrices: 2, start: func(s *scene) (func() error, error) {
			from, err := s.block()
			if err != nil {
				return nil, err
			}
			to, err := s.block()
			return func() error { return s.Stream().Copy(to.Ptr(), from.Ptr(), s.bytes) }, err
		}},
		{name: "memset", matrices: 1, start: func(s *scene) (func() error, error) {
			to, err := s.block()
			return func() error { return s.Stream().Fill(to.Ptr(), 0, s.bytes) }, err
		}},
		{name: "copy of a narrower matrix", matrices: 2, start: func(s *scene) (func() error, error) {
			wide, err := s.keep(tensor.RandN(s.Exec, s.gen, s.dtype, s.rows(width), width+padding))
			if err != nil {
				return nil, err
			}
			x, err := s.keep(wide.Narrow(1, 0, width))
			return func() error { return discard(x.Clone()) }, err
		}},
		{name: "transposed copy", matrices: 2, start: func(s *scene) (func() error, error) {
			x, err := s.matrix(width)
			if err != nil {
				return nil, err
			}
			turned, err := s.keep(x.Transpose(0, 1))
			return func() error { return discard(turned.Contiguous()) }, err
		}},
		converted("to bfloat16", dtype.Float32, dtype.BFloat16, 1.5),
		converted("to float32", dtype.BFloat16, dtype.Float32, 3),
	}
}

func converted(name string, from, to tensor.DType, matrices float64) operation {
	o := made(name, matrices, func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.To(to) })
	o.only = from
	return o
}
