package autograd

import "github.com/cistern-ml/cistern/tensor"

// LinearReLU is Linear followed by ReLU, in one pass over the result. It saves what these two save: v, weight and the result.
func (v *Variable) LinearReLU(weight, bias *Variable) *Variable {
	return v.linearAct(weight, bias, tensor.ActReLU, relu)
}

// LinearGELU is Linear followed by GELU, in one pass over the result. It saves what these two save: v, weight and the result of
// Linear, which is computed only if a gradient is needed.
func (v *Variable) LinearGELU(weight, bias *Variable) *Variable {
	return v.linearAct(weight, bias, tensor.ActGELU, gelu)
}

// LinearGELUTanh is LinearGELU with the tanh approximation.
func (v *Variable) LinearGELUTanh(weight, bias *Variable) *Variable {
	return v.linearAct(weight, bias, tensor.ActGELUTanh, geluTanh)
}

// fusion is the argument of two operations that are computed together, by the first of them. In the graph they are two, with
// the rules, names and casts that they have alone; the second finds its result made.
type fusion struct {
	activation tensor.Activation
	out        *tensor.Tensor // of the second; nil when it has been taken, or if there will be no second
}

func (v *Variable) linearAct(weight, bias *Variable, f tensor.Activation, second *op) *Variable {
	fused := &fusion{activation: f}
	var y *Variable
	if bias == nil {
		y = linear.apply(fused, v, weight)
	} else {
		y = linearBias.apply(fused, v, weight, bias)
	}
	if fused.out == nil { // an error, or no gradient: then y is the whole result
		return y
	}
	defer func() { fused.out.Release() }()
	z := second.apply(fused, y)
	y.Release() // the second has saved it, if it needs it
	return z
}

// forward computes both. Without a gradient the result is that of the second, and there is no second operation. Otherwise it is
// that of the first; ReLU does not need it, and it is a stand-in then.
func (f *fusion) forward(n *node, bias *tensor.Tensor) (*tensor.Tensor, error) {
	x, w := n.tensor(0), n.tensor(1)
	if !n.differentiable() {
		return tensor.LinearAct(x, w, bias, f.activation)
	}
	if f.activation == tensor.ActReLU {
		out, err := tensor.LinearAct(x, w, bias, f.activation)
		if err != nil {
			return nil, err
		}
		f.out = out
		return out.Retain(), nil
	}
	out, pre, err := gradients.LinearActPre(x, w, bias, f.activation)
	f.out = out
	return pre, err
}

// made is the result of a second operation that the first has computed, or nil. A caster may have changed the input's type.
func made(n *node) *tensor.Tensor {
	f, ok := n.arg.(*fusion)
	if !ok || f.out == nil || f.out.DType() != n.in[0].dtype {
		return nil
	}
	out := f.out
	f.out = nil
	return out
}
