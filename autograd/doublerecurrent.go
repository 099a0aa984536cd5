package autograd

func init() {
	for _, o := range []*op{lstm, lstmBias, gru, gruBias} {
		kernelOf(o, recurrentDouble, reading{all: true})
	}
}

// recurrentDouble records a pass over the sequence step by step, of single operations, and takes the gradients of that. It needs the values
// of all inputs, also of those that were not saved.
func recurrentDouble(r *rerun, gs []*Variable) []*Variable {
	in := make([]*Variable, len(r.n.in))
	for i := range in {
		in[i] = r.input(i)
	}
	from := r.n.g.nodes
	a := r.n.arg.(recurrentArg)
	if a.gru {
		return r.through(from, a.composeGRU(in), gs)
	}
	return r.through(from, a.composeLSTM(in), gs)
}

// affine is v @ weightᵀ, plus bias if there is one.
func affine(v, weight *Variable, biases []*Variable, i int) *Variable {
	if len(biases) == 0 {
		return v.Linear(weight, nil)
	}
	return v.Linear(weight, biases[i])
}

// walk calls step for each element of the sequence in the order of the pass, and stacks what it returns in the sequence's own order.
func (a recurrentArg) walk(x *Variable, step func(x *Variable) *Variable) *Variable {
	outs := make([]*Variable, x.Dim(0))
	for i := range outs {
		t := i
		if a.reverse {
			t = len(outs) - 1 - i
		}
		outs[t] = step(x.Select(0, t))
	}
	return Stack(outs, 0)
}

// composeLSTM is a pass of PyTorch's LSTM: the gates are i, f, g and o.
func (a recurrentArg) composeLSTM(in []*Variable) []*Variable {
	h, c := in[1], in[2]
	out := a.walk(in[0], func(x *Variable) *Variable {
		gates := affine(x, in[3], in[5:], 0).Add(affine(h, in[4], in[5:], 1)).Chunk(4, -1)
		c = gates[1].Sigmoid().Mul(c).Add(gates[0].Sigmoid().Mul(gates[2].Tanh()))
		h = gates[3].Sigmoid().Mul(c.Tanh())
		return h
	})
	return []*Variable{out, h, c}
}

// composeGRU is a pass of PyTorch's GRU: the gates are r, z and n.
func (a recurrentArg) composeGRU(in []*Variable) []*Variable {
	h := in[1]
	out := a.walk(in[0], func(x *Variable) *Variable {
		of, state := affine(x, in[2], in[4:], 0).Chunk(3, -1), affine(h, in[3], in[4:], 1).Chunk(3, -1)
		reset, update := of[0].Add(state[0]).Sigmoid(), of[1].Add(state[1]).Sigmoid()
		next := of[2].Add(reset.Mul(state[2])).Tanh()
		h = next.Add(update.Mul(h.Sub(next)))
		return h
	})
	return []*Variable{out, h}
}
