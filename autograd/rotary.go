package autograd

import "github.com/cistern-ml/cistern/tensor"

// RotaryEmbedding turns pairs of elements of v, [..., L, D], by angles whose cosines and sines broadcast to [..., L, R/2]; elements from R on stay.
// pairs says which elements are turned together. Saves cos and sin, through which no gradients flow. See tensor.Tensor.RotaryEmbedding, and
// nn.RotaryEmbedding, which has tables of them.
func (v *Variable) RotaryEmbedding(cos, sin *Variable, pairs tensor.RotaryPairs) *Variable {
	return rotary.apply(pairs, v, cos, sin)
}

const anglesHaveNone = "cosines and sines are of positions, which are numbers"

var rotary = define("rotary_embedding", rotaryForward, rule{uses: input(1) | input(2), grad: rotaryGrad},
	notDifferentiable(anglesHaveNone), notDifferentiable(anglesHaveNone))

func rotaryForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).RotaryEmbedding(n.tensor(1), n.tensor(2), n.arg.(tensor.RotaryPairs))
}

// rotaryGrad turns back.
func rotaryGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	return inOwn(n.savedInput(2).Neg())(func(back *tensor.Tensor) (*tensor.Tensor, error) {
		return g.RotaryEmbedding(n.savedInput(1), back, n.arg.(tensor.RotaryPairs))
	})
}

func init() {
	each(rotary, func(r *rerun, g *Variable) *Variable {
		return g.RotaryEmbedding(r.input(1), r.input(2).Neg(), r.n.arg.(tensor.RotaryPairs))
	})
}
