package autograd

import "github.com/cistern-ml/cistern/tensor"

// constant is a variable of what f makes of the values of variables, through which no gradients flow. Unlike what apply runs it is no
// operation that a caster knows, and nothing is recorded. Errors name op.
func constant(op string, f func(ts []*tensor.Tensor) (*tensor.Tensor, error), in ...*Variable) *Variable {
	out := constants(op, func(ts []*tensor.Tensor) ([]*tensor.Tensor, error) {
		t, err := f(ts)
		return []*tensor.Tensor{t}, err
	}, 1, in...)
	return out[0]
}

// constants is constant for count results.
func constants(op string, f func(ts []*tensor.Tensor) ([]*tensor.Tensor, error), count int, in ...*Variable) []*Variable {
	g := graphOf(in)
	results := make([]*Variable, count)
	for i := range results {
		results[i] = g.failed()
	}
	if g == nil || !g.ready(op) {
		return results
	}
	n := &node{g: g, in: in}
	ts := make([]*tensor.Tensor, len(in))
	err := n.checkInputs()
	for i := 0; err == nil && i < len(in); i++ {
		ts[i] = in[i].tensor()
	}
	var made []*tensor.Tensor
	if err == nil {
		made, err = f(ts)
	}
	if err != nil {
		g.Refuse(op, err, in...)
		return results
	}
	for i, t := range made {
		results[i] = g.newVariable(t)
	}
	return results
}
