package autograd

import "github.com/cistern-ml/cistern/tensor"

// The operations in this file have results of type bool or int64, through which no gradients flow. They save nothing.

const steps = "the result is constant between the places where it jumps"

// Eq, Ne, Lt, Le, Gt and Ge compare v and u element by element, with broadcasting. The result is of type bool.
func (v *Variable) Eq(u *Variable) *Variable { return eq.apply(nil, v, u) }

// Ne is v != u; see Eq.
func (v *Variable) Ne(u *Variable) *Variable { return ne.apply(nil, v, u) }

// Lt is v < u; see Eq.
func (v *Variable) Lt(u *Variable) *Variable { return lt.apply(nil, v, u) }

// Le is v <= u; see Eq.
func (v *Variable) Le(u *Variable) *Variable { return le.apply(nil, v, u) }

// Gt is v > u; see Eq.
func (v *Variable) Gt(u *Variable) *Variable { return gt.apply(nil, v, u) }

// Ge is v >= u; see Eq.
func (v *Variable) Ge(u *Variable) *Variable { return ge.apply(nil, v, u) }

var (
	eq = comparison("eq", (*tensor.Tensor).Eq)
	ne = comparison("ne", (*tensor.Tensor).Ne)
	lt = comparison("lt", (*tensor.Tensor).Lt)
	le = comparison("le", (*tensor.Tensor).Le)
	gt = comparison("gt", (*tensor.Tensor).Gt)
	ge = comparison("ge", (*tensor.Tensor).Ge)
)

func comparison(name string, f func(t, u *tensor.Tensor) (*tensor.Tensor, error)) *op {
	forward := func(n *node) (*tensor.Tensor, error) { return f(n.tensor(0), n.tensor(1)) }
	return define(name, forward, notDifferentiable(steps), notDifferentiable(steps))
}

// ArgMax is the index, of type int64, of the largest element along dim; the first of several. keep leaves the dimension
// with one element.
func (v *Variable) ArgMax(dim int, keep bool) *Variable { return argMax.apply(along{dim, keep}, v) }

// ArgMin is the index of the smallest element; see ArgMax.
func (v *Variable) ArgMin(dim int, keep bool) *Variable { return argMin.apply(along{dim, keep}, v) }

type along struct {
	dim  int
	keep bool
}

var (
	argMax = define("argmax", argMaxForward, notDifferentiable(steps))
	argMin = define("argmin", argMinForward, notDifferentiable(steps))
)

func argMaxForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(along)
	return n.tensor(0).ArgMax(a.dim, a.keep)
}

func argMinForward(n *node) (*tensor.Tensor, error) {
	a := n.arg.(along)
	return n.tensor(0).ArgMin(a.dim, a.keep)
}
