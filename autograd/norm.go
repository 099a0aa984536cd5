package autograd

import "github.com/cistern-ml/cistern/tensor"

// What layer norm, RMS norm, group norm, instance norm and batch norm share: their inputs are a tensor, and a weight and a bias if
// they are there; all gradients come from one rule, which makes those of weight and bias in one pass.

// normalizer is the argument of a normalisation.
type normalizer interface {
	// forward computes the result, and the moments, which the caller takes over.
	forward(n *node, weight, bias *tensor.Tensor) (*tensor.Tensor, tensor.Moments, error)
	// saved are the moments of which tensors were stashed, in the order of Mean and what comes after it.
	saved(stashed func(at int) *tensor.Tensor) tensor.Moments
	// grad computes the gradient of the input; product and sum are what sums gave, nil if that was not asked for.
	grad(g, t *tensor.Tensor, m tensor.Moments, weight, product, sum *tensor.Tensor) (*tensor.Tensor, error)
	// sums computes the gradients of weight and bias.
	sums(g, t *tensor.Tensor, m tensor.Moments) (weight, bias *tensor.Tensor, err error)
	// biasGrad computes the gradient of the bias alone, which has this shape.
	biasGrad(g *tensor.Tensor, shape tensor.Shape) (*tensor.Tensor, error)
	// inputNeedsSums reports whether grad takes the results of sums.
	inputNeedsSums() bool
}

// norms are the operations of one normalisation, by the number of inputs.
type norms [4]*op

// defineNorm makes the operations name, name_weight and, unless there is never a bias, name_affine.
func defineNorm(name string, bias bool) (list norms) {
	first, weight := rule{uses: input(0) | input(1) | stash}, rule{uses: input(0) | stash}
	list[1] = define(name, normForward, rule{uses: input(0) | stash})
	list[2] = define(name+"_weight", normForward, first, weight)
	if bias {
		list[3] = define(name+"_affine", normForward, first, weight, rule{})
	}
	for _, o := range list {
		if o != nil {
			o.joint = normGrad
		}
	}
	return list
}

// takeAnyGrad marks operations whose kernels read gradients in half precision too.
func (l norms) takeAnyGrad() norms {
	for _, o := range l {
		if o != nil {
			takesAnyGrad(o)
		}
	}
	return l
}

// apply runs the operation for the inputs that are there. A bias without a weight is added afterwards: spread gives it the
// dimensions to be broadcast by.
func (l norms) apply(a normalizer, v, weight, bias *Variable, spread func(bias *Variable) *Variable) *Variable {
	switch {
	case weight != nil && bias != nil:
		return l[3].apply(a, v, weight, bias)
	case weight != nil:
		return l[2].apply(a, v, weight)
	case bias == nil || v == nil:
		return l[1].apply(a, v)
	}
	return v.g.namedOne(l[1].name, []*Variable{v, bias}, func() *Variable { return l[1].apply(a, v).Add(spread(bias)) })
}

// acrossChannels is spread for biases of channels, the second dimension of v.
func acrossChannels(v *Variable) func(bias *Variable) *Variable {
	return func(bias *Variable) *Variable {
		shape := []int{bias.Len()}
		for i := 2; i < v.NDim(); i++ {
			shape = append(shape, 1)
		}
		return bias.Reshape(shape...)
	}
}

func normForward(n *node) (*tensor.Tensor, error) {
	var weight, bias *tensor.Tensor
	if len(n.in) > 1 {
		weight = n.tensor(1)
	}
	if len(n.in) > 2 {
		bias = n.tensor(2)
	}
	out, m, err := n.arg.(normalizer).forward(n, weight, bias)
	if err != nil {
		return nil, err
	}
	for _, t := range []*tensor.Tensor{m.Mean, m.Rstd, m.Var} {
		if t != nil {
			n.stash(t)
		}
	}
	return out, nil
}

// normGrad computes what is needed of the gradients of input, weight and bias.
func normGrad(n *node, g *tensor.Tensor) (ts []*tensor.Tensor, err error) {
	a := n.arg.(normalizer)
	flows := func(i int) bool { return i < len(n.in) && n.flows(i) }
	ts = make([]*tensor.Tensor, max(3, len(n.in)))
	if !flows(0) && !flows(1) {
		wide, err := g.To(n.in[2].dtype) // of half precision the sum would be rounded; else it is g itself
		if err != nil {
			return nil, err
		}
		defer wide.Release()
		ts[2], err = a.biasGrad(wide, n.in[2].Shape())
		return ts[:len(n.in)], err
	}
	t, m := n.savedInput(0), a.saved(n.stashed)
	if flows(1) || flows(2) || a.inputNeedsSums() {
		if ts[1], ts[2], err = a.sums(g, t, m); err != nil {
			return nil, err
		}
	}
	if flows(0) {
		var weight *tensor.Tensor
		if len(n.in) > 1 {
			weight = n.savedInput(1)
		}
		var product, sum *tensor.Tensor
		if a.inputNeedsSums() {
			product, sum = ts[1], ts[2]
		}
		if n.landed, err = n.addNormGrad(a, g, t, m, weight); err == nil && !n.landed {
			ts[0], err = a.grad(g, t, m, weight, product, sum)
		}
	}
	for i, t := range ts {
		if err != nil || !flows(i) {
			t.Release()
			ts[i] = nil
		}
	}
	return ts[:len(n.in)], err
}

// addNormGrad adds the gradient of the input to those that have arrived there before, and reports whether it has.
func (n *node) addNormGrad(a normalizer, g, t *tensor.Tensor, m tensor.Moments, weight *tensor.Tensor) (bool, error) {
	adds, ok := a.(interface {
		gradAdded(into, g, t *tensor.Tensor, m tensor.Moments, weight *tensor.Tensor) (bool, error)
	})
	v := n.in[0]
	if b := n.g.pass; !ok || b == nil || b.create || !b.addable(n, v) || !v.buf.t.IsContiguous() {
		return false, nil
	}
	return adds.gradAdded(v.buf.t, g, t, m, weight)
}
