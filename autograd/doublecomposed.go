package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// Operations that compute in one kernel what could be composed of others: with CreateGraph the composition is recorded, from what the
// operation saved, and the gradients are those of the composition. It takes the memory that the kernel saves its users, for as long as the
// gradients of gradients need it.

func init() {
	for _, l := range []norms{layerNorms, rmsNorms, batchNorms, groupNorms, instanceNorms} {
		for _, o := range l {
			if o != nil {
				composed(o, normalized)
			}
		}
	}
	composed(nll, func(r *rerun, in []*Variable) *Variable { return r.n.arg.(classLoss).composeNLL(r, in) })
	composed(crossEntropy, func(r *rerun, in []*Variable) *Variable {
		return r.n.arg.(classLoss).compose(in, in[0].LogSoftmax(1))
	})
	composed(attend, func(r *rerun, in []*Variable) *Variable {
		return r.n.arg.(*attention).compose(r, in[0], in[1], in[2], in[3:])
	})
	composed(selfAttend, func(r *rerun, in []*Variable) *Variable { return r.n.arg.(*attention).composePacked(r, in[0], in[1:]) })
}

// composed differentiates the gradients of an operation by way of f, which computes the same from its inputs.
func composed(o *op, f func(r *rerun, in []*Variable) *Variable) {
	kernelOf(o, func(r *rerun, gs []*Variable) []*Variable {
		in, from := r.inputs(), r.n.g.nodes
		return r.through(from, []*Variable{f(r, in)}, gs)
	}, reading{})
}

// through are the gradients of the inputs, by way of results that nodes from a number on have computed of them.
func (r *rerun) through(from uint64, outs, gs []*Variable) []*Variable {
	g := r.n.g
	if g.err != nil {
		return nil
	}
	p := &recording{g: g, from: from, wanted: r.asks}
	var roots, seeds []*Variable
	for i, out := range outs {
		if gs[i] != nil && out != nil {
			roots, seeds = append(roots, out), append(seeds, gs[i])
		}
	}
	p.collect(roots)
	if err := p.run(roots, seeds); err != nil {
		g.Fail(err)
		return nil
	}
	return p.of(r.n.in)
}

// of are the gradients of variables, of which one that is there twice has all at its first place.
func (p *recording) of(list []*Variable) []*Variable {
	in := make([]*Variable, len(list))
	for i, v := range list {
		in[i] = p.grads[v]
		delete(p.grads, v)
	}
	return in
}

// asks reports whether v is an input whose gradient is wanted.
func (r *rerun) asks(v *Variable) bool {
	for i, in := range r.n.in {
		if in == v && r.needs(i) {
			return true
		}
	}
	return false
}

// inputs are all inputs. Those whose values were not saved, because no gradient depends on them, are zeros.
func (r *rerun) inputs() []*Variable {
	in := make([]*Variable, len(r.n.in))
	for i, v := range r.n.in {
		switch {
		case r.saved(input(i)) != nil || v.val != nil && v.next == nil:
			in[i] = r.input(i)
		default:
			z := r.n.g.zerosLike(v)
			if r.n.g.err != nil {
				return in
			}
			in[i] = v.as(z.val)
		}
	}
	return in
}

// zerosLike is one 0, repeated without taking memory, of v's shape and type.
func (g *Graph) zerosLike(v *Variable) *Variable {
	return g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		z, err := tensor.Zeros(e.Owned(), v.dtype)
		if err != nil {
			return nil, err
		}
		return after(z, func(z *tensor.Tensor) (*tensor.Tensor, error) { return z.Expand(v.Shape()...) })
	})
}

// normalized is layer, RMS, batch, group and instance norm.
func normalized(r *rerun, in []*Variable) *Variable {
	v := in[0]
	var y *Variable
	across := false
	switch a := r.n.arg.(type) {
	case rowNorm:
		y = a.compose(v)
	case batchNorm:
		y, across = a.compose(r, v), true
	case groupNorm:
		y, across = a.compose(v), true
	}
	for i, x := range in[1:] {
		if across {
			x = acrossChannels(v)(x)
		}
		if i == 0 {
			y = y.Mul(x)
		} else {
			y = y.Add(x)
		}
	}
	return y
}

// standard is (v - mean) / sqrt(variance + eps) over dims.
func (v *Variable) standard(dims []int, eps float64) *Variable {
	d := v.Sub(v.Mean(dims, true))
	return d.Mul(d.Square().Mean(dims, true).AddScalar(eps).Rsqrt())
}

func (a rowNorm) compose(v *Variable) *Variable {
	dims := make([]int, len(a.shape))
	for i := range dims {
		dims[i] = -1 - i
	}
	if !a.plain {
		return v.standard(dims, a.eps)
	}
	eps := a.eps
	if eps == DefaultEps {
		eps = tensor.Epsilon(v.dtype)
	}
	return v.Mul(v.Square().Mean(dims, true).AddScalar(eps).Rsqrt())
}

func (a batchNorm) compose(r *rerun, v *Variable) *Variable {
	if a.training {
		dims := []int{0}
		for i := 2; i < v.NDim(); i++ {
			dims = append(dims, i)
		}
		return v.standard(dims, a.eps)
	}
	spread := acrossChannels(v)
	return v.Sub(spread(r.stash(0))).Mul(spread(r.stash(1).AddScalar(a.eps).Rsqrt()))
}

func (a groupNorm) compose(v *Variable) *Variable {
	groups := a.groups
	if a.instance {
		groups = v.Dim(1)
	}
	rows := v.Reshape(v.Dim(0), groups, v.Len()/max(v.Dim(0)*groups, 1))
	return rows.standard([]int{2}, a.eps).Reshape(v.Shape()...)
}

// compose is the loss of classes of logarithms of probabilities.
func (c classLoss) compose(in []*Variable, logp *Variable) *Variable {
	classes := in[1]
	ignored := classes.EqScalar(float64(c.ignore))
	index := classes.MaskedFill(ignored, 0)
	rows := logp.Gather(1, index.Unsqueeze(1)).Squeeze(1).Neg()
	weight := ignored.Not().To(rows.dtype)
	if len(in) > 2 {
		weight = in[2].IndexSelect(0, index)
		rows = rows.Mul(weight)
	}
	weight = weight.MaskedFill(ignored, 0)
	if c.smoothing > 0 {
		each := logp
		if len(in) > 2 {
			each = each.Mul(in[2])
		}
		even := each.Sum([]int{1}, false).MulScalar(-c.smoothing / float64(logp.Dim(1)))
		rows = rows.MulScalar(1 - c.smoothing).Add(even)
	}
	rows = rows.MaskedFill(ignored, 0)
	return c.average(rows, weight)
}

// average reduces the losses of rows.
func (c classLoss) average(rows, weight *Variable) *Variable {
	if c.reduction == MeanReduction {
		return rows.Sum(nil, false).Div(weight.Sum(nil, false))
	}
	return rows.reduced(c.reduction)
}

// composeNLL is compose of an operation that has saved the weights of rows instead of those of classes.
func (c classLoss) composeNLL(r *rerun, in []*Variable) *Variable {
	ignored := in[1].EqScalar(float64(c.ignore))
	rows := in[0].Gather(1, in[1].MaskedFill(ignored, 0).Unsqueeze(1)).Squeeze(1).Neg()
	weight := ignored.Not().To(rows.dtype)
	if len(in) > 2 {
		weight = r.stash(0)
	}
	return c.average(rows.Mul(weight), weight)
}

// compose is attention with the whole matrix of scores. A query that sees no key gives 0.
func (a *attention) compose(r *rerun, q, k, v *Variable, mask []*Variable) *Variable {
	if a.EnableGQA && q.NDim() > 2 {
		k, v = k.headsOf(q), v.headsOf(q)
	}
	scale := a.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dim(-1)))
	}
	scores := q.MatMul(k.Transpose(-2, -1)).MulScalar(scale)
	var hidden *Variable
	switch {
	case a.IsCausal:
		hidden = scores.Detach().MulScalar(0).AddScalar(1).Triu(1).NeScalar(0)
	case a.IsCausalLowerRight:
		hidden = scores.Detach().MulScalar(0).AddScalar(1).Triu(1 + k.Dim(-2) - q.Dim(-2)).NeScalar(0)
	case len(mask) > 0 && !mask[0].dtype.IsFloat():
		hidden = mask[0].Not()
	case len(mask) > 0:
		hidden = mask[0].EqScalar(math.Inf(-1))
		scores = scores.Add(mask[0].MaskedFill(hidden, 0))
	}
	if hidden == nil {
		return a.dropped(r, scores.Softmax(-1)).MatMul(v)
	}
	// Of a row of lowest numbers softmax is even, and the second mask makes it 0.
	lowest := -1e30
	if scores.dtype == tensor.Float16 {
		lowest = -65504 // there is no lower finite number
	}
	return a.dropped(r, scores.MaskedFill(hidden, lowest).Softmax(-1).MaskedFill(hidden, 0)).MatMul(v)
}

// dropped sets the same weights to 0 as the kernel did: those that it sets to 0 when all are even.
func (a *attention) dropped(r *rerun, weights *Variable) *Variable {
	if a.DropoutP <= 0 || !weights.Alive() {
		return weights
	}
	kept := r.n.g.New(func(tensor.Exec) (*tensor.Tensor, error) { return a.kept(weights.tensor()) })
	return weights.Mul(kept.NeScalar(0).To(weights.dtype).DivScalar(1 - a.DropoutP))
}

// kept is not 0 where the kernel with dropout keeps a weight, [..., H, T, S]: its result for queries and keys of zeros, and for the
// identity as values.
func (a *attention) kept(weights *tensor.Tensor) (*tensor.Tensor, error) {
	var w work
	shape := weights.Shape()
	n := len(shape)
	queries := w.do(w.do(tensor.Zeros(weights.Exec(), weights.DType(), 1)).Expand(append(shape[:n-1].Clone(), 1)...))
	keys := w.do(w.do(tensor.Zeros(weights.Exec(), weights.DType(), 1)).Expand(append(shape[:n-2].Clone(), shape[n-1], 1)...))
	ones := w.do(tensor.Ones(weights.Exec(), weights.DType(), shape[n-1]))
	values := w.do(w.do(ones.DiagEmbed(0)).Expand(append(shape[:n-2].Clone(), shape[n-1], shape[n-1])...))
	if w.err != nil {
		return w.result(nil, nil)
	}
	out, lse, err := gradients.AttentionForward(queries, keys, values, tensor.Attention{DropoutP: a.DropoutP, Random: a.Random})
	lse.Release()
	return w.result(out, err)
}

// headsOf repeats each head as often as several of q's share it.
func (v *Variable) headsOf(q *Variable) *Variable {
	if times := q.Dim(-3) / max(v.Dim(-3), 1); times > 1 {
		return v.RepeatInterleave(times, -3)
	}
	return v
}

// composePacked is compose of queries, keys and values that lie beside each other.
func (a *attention) composePacked(r *rerun, v *Variable, mask []*Variable) *Variable {
	shape := v.Shape().Clone()
	all := a.heads + 2*a.groups
	t, width := shape[len(shape)-2], shape[len(shape)-1]/all
	parts := v.Reshape(v.Len()/max(t*shape[len(shape)-1], 1), t, all, width).Transpose(1, 2).SplitSizes([]int{a.heads, a.groups, a.groups}, 1)
	out := a.compose(r, parts[0], parts[1], parts[2], mask)
	shape[len(shape)-1] = a.heads * width
	return out.Transpose(1, 2).Reshape(shape...)
}
