package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file take a part of v. Their results share its memory, and they save nothing. The gradient of v is
// that of the part, among zeros.

// Slice takes every step-th element from start up to but not including end along dim, as Python's v[start:end:step].
func (v *Variable) Slice(dim, start, end, step int) *Variable {
	return slice.apply(sliceArg{dim, start, end, step}, v)
}

type sliceArg struct{ dim, start, end, step int }

var slice = define("slice", sliceForward, partRule(sliceOf))

func sliceForward(n *node) (*tensor.Tensor, error) { return sliceOf(n.arg, n.tensor(0)) }

func sliceOf(arg any, t *tensor.Tensor) (*tensor.Tensor, error) {
	a := arg.(sliceArg)
	return t.Slice(a.dim, a.start, a.end, a.step)
}

// Narrow takes length elements from start on along dim.
func (v *Variable) Narrow(dim, start, length int) *Variable {
	return narrow.apply(narrowArg{dim, start, length}, v)
}

type narrowArg struct{ dim, start, length int }

var narrow = define("narrow", narrowForward, partRule(narrowOf))

func narrowForward(n *node) (*tensor.Tensor, error) { return narrowOf(n.arg, n.tensor(0)) }

func narrowOf(arg any, t *tensor.Tensor) (*tensor.Tensor, error) {
	a := arg.(narrowArg)
	return t.Narrow(a.dim, a.start, a.length)
}

// Select takes element index along dim, and drops the dimension.
func (v *Variable) Select(dim, index int) *Variable { return selectOp.apply(selectArg{dim, index}, v) }

type selectArg struct{ dim, index int }

var selectOp = define("select", selectForward, partRule(selectOf))

func selectForward(n *node) (*tensor.Tensor, error) { return selectOf(n.arg, n.tensor(0)) }

func selectOf(arg any, t *tensor.Tensor) (*tensor.Tensor, error) {
	a := arg.(selectArg)
	return t.Select(a.dim, a.index)
}

// partRule is the rule of operations that view a part of their input: after the first gradient, only the part is touched.
func partRule(part func(arg any, t *tensor.Tensor) (*tensor.Tensor, error)) rule {
	add := func(n *node, _ int, g, into *tensor.Tensor) error {
		window, err := part(n.arg, into)
		if err != nil {
			return err
		}
		defer window.Release()
		return window.AddInPlace(g, 1)
	}
	return rule{grad: partGrad(part), add: add}
}

// partGrad is the gradient of operations that view a part of their input: g is written to the same part of zeros.
func partGrad(part func(arg any, t *tensor.Tensor) (*tensor.Tensor, error)) func(*node, int, *tensor.Tensor) (*tensor.Tensor, error) {
	return func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
		full, err := tensor.Zeros(g.Exec(), g.DType(), n.in[0].Shape()...)
		if err != nil {
			return nil, err
		}
		window, err := part(n.arg, full)
		if err == nil {
			err = window.CopyFrom(g)
			window.Release()
		}
		if err != nil {
			full.Release()
			return nil, err
		}
		return full, nil
	}
}
