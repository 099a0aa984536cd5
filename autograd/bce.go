package autograd

import "github.com/cistern-ml/cistern/tensor"

// BCEWithLogitsLoss is the binary cross-entropy between sigmoid(v) and target, whose elements are in 0..1, reduced. It is
// computed without overflow. Saves v and target.
func (v *Variable) BCEWithLogitsLoss(target *Variable, r Reduction) *Variable {
	return bce.apply(r, v, target)
}

var bce = define("binary_cross_entropy_with_logits", bceForward,
	rule{uses: input(0) | input(1), grad: bceGradInput},
	rule{uses: input(0), grad: bceGradTarget})

// From this on log(1+exp(x)) is x in float64: exp(-40) is less than half a unit in the last place of 40.
const softplusLinear = 40

// bceForward is log(1+exp(v)) - v*target.
func bceForward(n *node) (*tensor.Tensor, error) {
	var w work
	v, target := n.tensor(0), n.tensor(1)
	loss, err := w.result(w.do(v.Softplus(1, softplusLinear)).Sub(w.do(v.Mul(target))))
	if err != nil {
		return nil, err
	}
	return n.arg.(Reduction).reduce(loss)
}

// bceGradInput is g * (sigmoid(v) - target).
func bceGradInput(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	d := w.do(w.do(n.savedInput(0).Sigmoid()).Sub(n.savedInput(1)))
	if w.err != nil {
		return w.result(nil, nil)
	}
	return w.result(d.Mul(w.do(n.arg.(Reduction).scale(g, d.Len()))))
}

// bceGradTarget is -g * v.
func bceGradTarget(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	v := n.savedInput(0)
	s := w.do(n.arg.(Reduction).scale(g, v.Len()))
	return w.result(w.do(v.Neg()).Mul(s))
}
