package autograd

import "github.com/cistern-ml/cistern/tensor"

// IndexSelect takes the elements of v along dim that index names: one dimension of type int64. Saves index.
func (v *Variable) IndexSelect(dim int, index *Variable) *Variable {
	return indexSelect.apply(dim, v, index)
}

var indexSelect = define("index_select", indexSelectForward,
	rule{uses: input(1), grad: indexSelectGrad, add: indexSelectAdd},
	notDifferentiable("an index is a number, not a quantity"))

func indexSelectForward(n *node) (*tensor.Tensor, error) {
	return n.tensor(0).IndexSelect(n.arg.(int), n.tensor(1))
}

// indexSelectGrad adds each part of g to where it was taken from, among zeros.
func indexSelectGrad(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
	full, err := tensor.Zeros(g.Exec(), g.DType(), n.in[0].Shape()...)
	if err != nil {
		return nil, err
	}
	if err := full.IndexAddInPlace(n.arg.(int), n.savedInput(1), g); err != nil {
		full.Release()
		return nil, err
	}
	return full, nil
}

// indexSelectAdd adds each part of g to where it was taken from.
func indexSelectAdd(n *node, _ int, g, into *tensor.Tensor) error {
	return into.IndexAddInPlace(n.arg.(int), n.savedInput(1), g)
}
