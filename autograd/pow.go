package autograd

import "github.com/cistern-ml/cistern/tensor"

// powScalarGrad is g * p*v^(p-1), and 0 for p = 0, where v^(p-1) may be infinite.
func powScalarGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	p := n.arg.(float64)
	if p == 0 {
		return tensor.Zeros(g.Exec(), g.DType(), g.Shape()...)
	}
	var w work
	d := w.do(w.do(n.savedInput(0).PowScalar(p - 1)).MulScalar(p))
	return w.result(g.Mul(d))
}

// powGradBase is g * u*v^(u-1), and 0 where u is 0.
func powGradBase(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	v, u := n.savedInput(0), n.savedInput(1)
	d := w.do(u.Mul(w.do(v.Pow(w.do(u.SubScalar(1))))))
	return w.result(zeroWhere(w.do(u.EqScalar(0)), w.do(g.Mul(d))))
}

// powGradExponent is g * v^u*log(v), and 0 where v is 0 and u is not negative: the limit, which 0*log(0) would miss. A g that is NaN
// stays NaN there.
func powGradExponent(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	v, u := n.savedInput(0), n.savedInput(1)
	d := w.do(n.savedOutput().Mul(w.do(v.Log())))
	limit := w.do(w.do(v.EqScalar(0)).And(w.do(u.GeScalar(0))))
	return w.result(g.Mul(w.do(zeroWhere(limit, d))))
}
