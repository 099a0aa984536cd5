package autograd

import "github.com/cistern-ml/cistern/tensor"

// Dropout sets each element to 0 with probability p and divides the others by 1-p, so that the expectation stays. It draws
// from the graph's generator. It saves nothing of the size of v: backward draws the same numbers again. What is dropped does not depend
// on the memory format. p is in 0..1; with 0 it returns v itself, and draws nothing.
func (v *Variable) Dropout(p float64) *Variable {
	if p == 0 && v.check(dropout.name) == nil && v.dtype.IsFloat() {
		return v
	}
	return dropout.apply(&dropped{p: p}, v)
}

// dropped is the argument of a run of dropout: the probability, and the generator's state before it drew.
type dropped struct {
	p     float64
	state tensor.GeneratorState
}

var dropout = define("dropout", dropoutForward, rule{grad: dropoutGrad})

func dropoutForward(n *node) (*tensor.Tensor, error) {
	d, gen := n.arg.(*dropped), n.g.Generator()
	d.state = gen.State()
	return n.tensor(0).Dropout(gen, d.p)
}

func dropoutGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	d := n.arg.(*dropped)
	gen := tensor.NewGenerator(0)
	gen.SetState(d.state)
	return g.Dropout(gen, d.p)
}
