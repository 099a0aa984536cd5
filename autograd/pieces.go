package autograd

import "github.com/cistern-ml/cistern/tensor"

// The functions in this file cut a variable into pieces that share its memory. The gradients of the pieces are added, piece by piece, to
// one gradient of the whole.

// unknown is how many pieces there are where an error leaves open how many there would have been. None of them has a value, but
// a program that takes one of the first finds it, goes on, and learns of the error where it asks for it.
const unknown = 64

// Split cuts v along dim into pieces of size elements; the last may have fewer. After an error there are as many pieces as there
// would have been, or 64 if that is not known, because v has no shape or the arguments are wrong; none of them has a value. Likewise
// for the functions below.
func (v *Variable) Split(size, dim int) []*Variable {
	if !v.verify("split", func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.Split(size, dim) }) {
		return v.failed(unknown)
	}
	n := v.along(dim)
	sizes := []int{min(n, size)}
	for done := size; done < n; done += size {
		sizes = append(sizes, min(size, n-done))
	}
	return v.pieces(sizes, dim)
}

// SplitSizes cuts v along dim into pieces of the given sizes, which must add up to the dimension.
func (v *Variable) SplitSizes(sizes []int, dim int) []*Variable {
	if !v.verify("split", func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.SplitSizes(sizes, dim) }) {
		return v.failed(len(sizes))
	}
	return v.pieces(sizes, dim)
}

// Chunk cuts v along dim into n pieces of one size, but for the last. There may be fewer than n, as in PyTorch.
func (v *Variable) Chunk(n, dim int) []*Variable {
	if !v.verify("chunk", func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.Chunk(n, dim) }) {
		if n < 1 || n > tooMany {
			n = unknown
		}
		return v.failed(n)
	}
	if all := v.along(dim); all > 0 {
		return v.Split((all-1)/n+1, dim)
	}
	return v.pieces(make([]int, n), dim)
}

// tooMany is a number of pieces that nobody names one by one.
const tooMany = 1 << 10

// mostPieces is how many pieces there may be, as in package tensor: a dimension of nothing may have as many elements as there are numbers.
const mostPieces = 1 << 18

// Unbind is each slice of v along dim, without that dimension.
func (v *Variable) Unbind(dim int) []*Variable {
	if !v.verify("unbind", func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.Unbind(dim) }) {
		return v.failed(unknown)
	}
	vs := make([]*Variable, v.along(dim))
	for i := range vs {
		vs[i] = v.Select(dim, i)
	}
	return vs
}

// failed is n variables without values.
func (v *Variable) failed(n int) []*Variable {
	vs := make([]*Variable, n)
	if v != nil && v.g != nil {
		for i := range vs {
			vs[i] = v.g.poison
		}
	}
	return vs
}

// along is the number of elements along dim, and 0 where there is no such dimension.
func (v *Variable) along(dim int) int {
	if v == nil {
		return 0
	}
	return v.Dim(dim)
}

// pieces narrows v to pieces of the given sizes, which verify has let pass.
func (v *Variable) pieces(sizes []int, dim int) []*Variable {
	vs := make([]*Variable, len(sizes))
	start := 0
	for i, n := range sizes {
		vs[i] = v.Narrow(dim, start, n)
		start += n
	}
	return vs
}

// verify lets package tensor check the arguments on v's value, and reports whether they are good. What it refuses is the graph's
// error.
func (v *Variable) verify(name string, cut func(*tensor.Tensor) ([]*tensor.Tensor, error)) bool {
	if v == nil || v.g == nil || !v.g.ready(name) {
		return false
	}
	err := v.unusable(name)
	if err == nil {
		var ts []*tensor.Tensor
		ts, err = cut(v.tensor())
		for _, t := range ts {
			t.Release()
		}
	}
	if err != nil {
		v.g.Refuse(name, err, v)
	}
	return err == nil
}

// MoveDim brings dimension from to place to; the others keep their order.
func (v *Variable) MoveDim(from, to int) *Variable { return moveDim.apply([2]int{from, to}, v) }

var moveDim = define("movedim", func(n *node) (*tensor.Tensor, error) {
	a := n.arg.([2]int)
	return n.tensor(0).MoveDim(a[0], a[1])
}, rule{grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	a := n.arg.([2]int)
	return g.MoveDim(a[1], a[0])
}})

// SwapAxes is Transpose.
func (v *Variable) SwapAxes(a, b int) *Variable { return v.Transpose(a, b) }
