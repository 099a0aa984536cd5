package autograd

import "github.com/cistern-ml/cistern/tensor"

// reduction is the argument of operations that reduce dimensions: none means all. keep leaves them with one element.
type reduction struct {
	dims []int
	keep bool
}

// Sum adds the elements along dims, or all if there are none. keep leaves the reduced dimensions with one element. Saves
// nothing.
func (v *Variable) Sum(dims []int, keep bool) *Variable { return sum.apply(reduction{dims, keep}, v) }

var sum = define("sum", sumForward, rule{grad: sumGrad})

func sumForward(n *node) (*tensor.Tensor, error) {
	r := n.arg.(reduction)
	return n.tensor(0).Sum(r.dims, r.keep)
}

// sumGrad repeats g over the reduced dimensions, without copying it.
func sumGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.arg.(reduction).spread(g, n.in[0].Shape())
}

// Mean is the sum divided by the number of elements that are summed. Saves nothing.
func (v *Variable) Mean(dims []int, keep bool) *Variable { return mean.apply(reduction{dims, keep}, v) }

var mean = define("mean", meanForward, rule{grad: meanGrad})

func meanForward(n *node) (*tensor.Tensor, error) {
	r := n.arg.(reduction)
	return n.tensor(0).Mean(r.dims, r.keep)
}

// meanGrad is g/count, repeated. The division comes first: it is on fewer elements.
func meanGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	r, shape := n.arg.(reduction), n.in[0].Shape()
	d, err := g.DivScalar(float64(r.count(shape)))
	if err != nil {
		return nil, err
	}
	return after(d, func(d *tensor.Tensor) (*tensor.Tensor, error) { return r.spread(d, shape) })
}

// reduces reports whether dimension i of a shape with ndim dimensions is reduced.
func (r reduction) reduces(i, ndim int) bool {
	for _, d := range r.dims {
		if d == i || d+ndim == i {
			return true
		}
	}
	return len(r.dims) == 0
}

// count is how many elements go into one element of the result.
func (r reduction) count(shape tensor.Shape) int {
	n := 1
	for i, d := range shape {
		if r.reduces(i, len(shape)) {
			n *= d
		}
	}
	return n
}

// restore is a view of t, which has the shape of the result, with the reduced dimensions put back, of one element each.
func (r reduction) restore(t *tensor.Tensor, shape tensor.Shape) (*tensor.Tensor, error) {
	if t == nil {
		return nil, tensor.ErrReleased
	}
	if r.keep {
		return t.Retain(), nil
	}
	kept := shape.Clone()
	for i := range kept {
		if r.reduces(i, len(shape)) {
			kept[i] = 1
		}
	}
	return t.Reshape(kept...)
}

// spread is restore, with the reduced dimensions repeated to their size before the reduction.
func (r reduction) spread(t *tensor.Tensor, shape tensor.Shape) (*tensor.Tensor, error) {
	kept, err := r.restore(t, shape)
	if err != nil {
		return nil, err
	}
	return after(kept, func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Expand(shape...) })
}
