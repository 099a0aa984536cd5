package autograd

import "github.com/cistern-ml/cistern/tensor"

// Clamp is v brought into lo..hi; an infinity leaves its side open. The gradient passes where v lies in the range, its ends
// included. Saves v.
func (v *Variable) Clamp(lo, hi float64) *Variable { return clamp.apply(bounds{lo, hi}, v) }

type bounds struct{ lo, hi float64 }

var clamp = define("clamp", clampForward, rule{uses: input(0), grad: clampGrad})

func clampForward(n *node) (*tensor.Tensor, error) {
	b := n.arg.(bounds)
	return n.tensor(0).Clamp(b.lo, b.hi)
}

func clampGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	b, in := n.arg.(bounds), n.savedInput(0)
	return n.over(g, func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.ClampGrad(in, b.lo, b.hi) })
}
