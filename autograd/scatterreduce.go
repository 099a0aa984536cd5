package autograd

import "github.com/cistern-ml/cistern/tensor"

// ScatterReduce is v with the elements of src joined by how where index says, and with what is in that place if self is set; see
// tensor.Tensor.ScatterReduce. The gradient of a greatest or least element is divided among those that are equal to it, and is 0 for infinite
// ones. Types without gradients are joined as package tensor does.
//
// It is made of other operations, whose gradients are its own. A product saves about log2(n) tensors of src's size for n indices along dim.
func (v *Variable) ScatterReduce(dim int, index, src *Variable, how tensor.ScatterReduction, self bool) *Variable {
	const name = "scatter_reduce"
	in := []*Variable{v, index, src}
	return graphOf(in).namedOne(name, in, func() *Variable {
		all := constant(name, func(ts []*tensor.Tensor) (*tensor.Tensor, error) {
			return ts[0].ScatterReduce(dim, ts[1], ts[2], how, self)
		}, v, index, src)
		if !all.Alive() || !v.dtype.IsFloat() || index.Len() == 0 {
			return all.joined(v)
		}
		part := src
		for d, n := range index.Shape() {
			part = part.Narrow(d, 0, n)
		}
		switch how {
		case tensor.ScatterSum, tensor.ScatterMean:
			return v.scatterSum(dim, index, part, how == tensor.ScatterMean, self)
		case tensor.ScatterProd:
			return v.scatterProd(dim, index, part, self)
		}
		return v.scatterExtreme(dim, index, part, all, self)
	})
}

// joined is the result of ScatterReduce where no elements are joined: v itself, if gradients flow to it.
func (v *Variable) joined(of *Variable) *Variable {
	if v.Alive() && of.dtype.IsFloat() {
		return of.AddScalar(0)
	}
	return v
}

func (v *Variable) scatterSum(dim int, index, src *Variable, mean, self bool) *Variable {
	base := v
	if !self {
		base = v.ScatterValue(dim, index, 0)
	}
	sum := base.ScatterAdd(dim, index, src)
	if !mean {
		return sum
	}
	counts := v.ZerosLike()
	if self {
		counts = v.OnesLike()
	}
	return sum.Div(counts.ScatterAdd(dim, index, src.OnesLike()).Clamp(1, float64(v.Len()+src.Len()+1)))
}

// scatterProd goes along dim as package tensor does: elements are sorted by index, and each is joined with those before it that have the same one.
func (v *Variable) scatterProd(dim int, index, src *Variable, self bool) *Variable {
	if v.NDim() == 0 {
		return v.Reshape(1).scatterProd(0, index.Reshape(1), src.Reshape(1), self).Reshape()
	}
	keys := index.To(tensor.Int64)
	order := keys.ArgSort(dim, false)
	keys, x := keys.Gather(dim, order), src.Gather(dim, order)
	for d := 1; d < keys.Dim(dim); d *= 2 {
		n := keys.Dim(dim) - d
		same := keys.Narrow(dim, d, n).Eq(keys.Narrow(dim, 0, n))
		before := WhereScalar(same, x.Narrow(dim, 0, n), 1) // not the product of both: 0 times a stranger's infinity would be in its gradient
		x = Cat([]*Variable{x.Narrow(dim, 0, d), before.Mul(x.Narrow(dim, d, n))}, dim)
	}
	last := keys.last(dim)
	x = Where(last, x, x.Detach())
	if self {
		x = x.Mul(WhereScalar(last, v.Gather(dim, keys), 1))
	}
	return v.Scatter(dim, keys, x)
}

// last reports of each element of v whether the next one along dim is another: Scatter keeps what is there, and the gradient is that of it alone.
func (v *Variable) last(dim int) *Variable {
	n := v.Dim(dim) - 1
	more := v.Narrow(dim, 1, n).Ne(v.Narrow(dim, 0, n))
	end := v.g.Ones(tensor.Bool, v.Narrow(dim, n, 1).Shape()...)
	return Cat([]*Variable{more, end}, dim)
}

// scatterExtreme adds to what package tensor found, all, what is 0 and has the gradient: each element that was chosen less itself, divided by
// the number of such elements.
func (v *Variable) scatterExtreme(dim int, index, src, all *Variable, self bool) *Variable {
	own := v.Eq(all)
	if !self {
		untouched := v.g.Ones(tensor.Bool, v.Shape()...).ScatterValue(dim, index, 0)
		own = own.And(untouched)
	}
	chosen := src.Eq(all.Gather(dim, index))
	counts := own.To(v.dtype).ScatterAdd(dim, index, chosen.To(v.dtype)).Clamp(1, float64(v.Len()+src.Len()+1))
	part := Where(own, v.nothing(), v.ZerosLike()).Div(counts)
	parts := Where(chosen, src.nothing(), src.ZerosLike()).Div(counts.Gather(dim, index))
	return all.Add(part.ScatterAdd(dim, index, parts))
}

// nothing is 0 with the gradient of v where v is finite.
func (v *Variable) nothing() *Variable {
	return Where(v.IsFinite(), v.Sub(v.Detach()), v.ZerosLike())
}
