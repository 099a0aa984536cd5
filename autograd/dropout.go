package autograd

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// Dropout sets each element to 0 with probability p and divides the others by 1-p, so that the expectation stays. It draws
// from the graph's generator. Saves which elements stayed, one byte each. p is in 0..1.
func (v *Variable) Dropout(p float64) *Variable { return dropout.apply(p, v) }

var dropout = define("dropout", dropoutForward, rule{uses: stash, grad: dropoutGrad})

func dropoutForward(n *node) (*tensor.Tensor, error) {
	p, t := n.arg.(float64), n.tensor(0)
	if !(p >= 0 && p <= 1) {
		return nil, fmt.Errorf("probability %v is not in 0..1", p)
	}
	stays, err := tensor.Bernoulli(t.Exec(), n.g.Generator(), 1-p, tensor.Bool, t.Shape()...)
	if err != nil {
		return nil, err
	}
	n.stash(stays)
	return masked(t, stays, p)
}

func dropoutGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return masked(g, n.stashed(0), n.arg.(float64))
}

// masked is t/(1-p) where stays holds, else 0. If nothing stays the factor does not matter.
func masked(t, stays *tensor.Tensor, p float64) (*tensor.Tensor, error) {
	factor := 1.0
	if p < 1 {
		factor = 1 / (1 - p)
	}
	scaled, err := t.MulScalar(factor)
	if err != nil {
		return nil, err
	}
	return after(scaled, func(t *tensor.Tensor) (*tensor.Tensor, error) { return keepWhere(stays, t) })
}
