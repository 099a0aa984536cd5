package autograd

import "github.com/cistern-ml/cistern/tensor"

// The functions in this file cut a variable into pieces that share its memory. The gradients of the pieces are added, piece by piece, to
// one gradient of the whole.

// Split cuts v along dim into pieces of size elements; the last may have fewer. After an error there are as many pieces as v's shape
// allows, without values, and none if v has no shape. Likewise for the functions below.
func (v *Variable) Split(size, dim int) []*Variable {
	n := v.along(dim)
	sizes := []int{min(n, size)}
	for done := size; size > 0 && done < n; done += size {
		sizes = append(sizes, min(size, n-done))
	}
	return v.pieces("split", sizes, dim, func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.Split(size, dim) })
}

// SplitSizes cuts v along dim into pieces of the given sizes, which must add up to the dimension.
func (v *Variable) SplitSizes(sizes []int, dim int) []*Variable {
	return v.pieces("split", sizes, dim, func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.SplitSizes(sizes, dim) })
}

// Chunk cuts v along dim into n pieces of one size, but for the last. There may be fewer than n, as in PyTorch.
func (v *Variable) Chunk(n, dim int) []*Variable {
	size := 0
	if n > 0 {
		size = (v.along(dim) + n - 1) / n
	}
	if size > 0 {
		return v.Split(size, dim)
	}
	return v.pieces("chunk", make([]int, max(n, 0)), dim, func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.Chunk(n, dim) })
}

// Unbind is each slice of v along dim, without that dimension.
func (v *Variable) Unbind(dim int) []*Variable {
	vs := make([]*Variable, v.along(dim))
	v.verify("unbind", func(t *tensor.Tensor) ([]*tensor.Tensor, error) { return t.Unbind(dim) })
	for i := range vs {
		vs[i] = v.Select(dim, i)
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

// pieces narrows v to pieces of the given sizes, after cut has checked the arguments.
func (v *Variable) pieces(name string, sizes []int, dim int, cut func(*tensor.Tensor) ([]*tensor.Tensor, error)) []*Variable {
	v.verify(name, cut)
	vs := make([]*Variable, len(sizes))
	start := 0
	for i, n := range sizes {
		vs[i] = v.Narrow(dim, start, n)
		start += n
	}
	return vs
}

// verify lets package tensor check the arguments on v's value. What it refuses is the graph's error.
func (v *Variable) verify(name string, cut func(*tensor.Tensor) ([]*tensor.Tensor, error)) {
	if v == nil || !v.g.ready(name) {
		return
	}
	err := v.check(name)
	if err == nil {
		var ts []*tensor.Tensor
		ts, err = cut(v.tensor())
		for _, t := range ts {
			t.Release()
		}
	}
	if err != nil {
		v.g.Fail(&OpError{Op: name, Operands: []Operand{v.operand()}, Site: callSite(), Err: err})
	}
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
