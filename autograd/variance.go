package autograd

import "github.com/cistern-ml/cistern/tensor"

// moment is the argument of Var and Std.
type moment struct {
	reduction
	correction int
}

// Var is the variance along dims, or of all elements if there are none: the sum of squared distances from the mean, divided
// by their number less correction (1 is Bessel's, PyTorch's default). Saves v.
func (v *Variable) Var(dims []int, correction int, keep bool) *Variable {
	return variance.apply(moment{reduction{dims, keep}, correction}, v)
}

var variance = define("var", varForward, rule{uses: input(0), grad: varGrad})

func varForward(n *node) (*tensor.Tensor, error) {
	m := n.arg.(moment)
	return n.tensor(0).Var(m.dims, m.correction, m.keep)
}

func varGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return n.arg.(moment).grad(n.savedInput(0), g)
}

// Std is the square root of Var. Saves v and its result. Where the result is 0 the gradient is 0.
func (v *Variable) Std(dims []int, correction int, keep bool) *Variable {
	return std.apply(moment{reduction{dims, keep}, correction}, v)
}

var std = define("std", stdForward, rule{uses: input(0) | output, grad: stdGrad})

func stdForward(n *node) (*tensor.Tensor, error) {
	m := n.arg.(moment)
	return n.tensor(0).Std(m.dims, m.correction, m.keep)
}

// stdGrad is the gradient of the variance with g / (2*std).
func stdGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	out := w.do(widened(n.savedOutput()))
	d := w.do(w.do(widened(g)).Div(w.do(out.MulScalar(2))))
	d = w.do(zeroWhere(w.do(out.EqScalar(0)), d))
	return w.result(n.arg.(moment).grad(n.savedInput(0), d))
}

// grad is 2/(count-correction) * g * (v - mean), computed in float32 for types of two bytes. If count does not exceed correction the
// result is infinite or NaN, as the variance is. Their difference is a float64, since that of two ints may overflow.
func (m moment) grad(v, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	shape := v.Shape()
	x := w.do(widened(v))
	scaled := w.do(w.do(widened(g)).MulScalar(2 / (float64(m.count(shape)) - float64(m.correction))))
	scaled = w.do(m.restore(scaled, shape))
	d := w.do(w.do(x.Sub(w.do(x.Mean(m.dims, true)))).Mul(scaled))
	return w.result(d.To(v.DType()))
}
