package autograd

import (
	"math"

	"github.com/cistern-ml/cistern/tensor"
)

// The gradients of reductions and of running sums and products as variables.

func init() {
	multilinear(sum, mean, cumSum)
	each(maxOp, extremeShare)
	each(minOp, extremeShare)
	kernel(prod, eachOf(prodDouble))
	kernel(cumProd, eachOf(cumProdDouble))
	kernel(variance, eachOf(func(r *rerun, g *Variable) *Variable { return r.n.arg.(moment).spreadFrom(r.input(0), g) }))
	kernel(std, eachOf(func(r *rerun, g *Variable) *Variable {
		return r.n.arg.(moment).spreadFrom(r.input(0), g.over(r.output().MulScalar(2)))
	}))
	kernel(norm, eachOf(normDouble))
	kernel(logSumExp, eachOf(func(r *rerun, g *Variable) *Variable {
		a, x := r.n.arg.(reduction), r.input(0)
		return a.back(g, x.Shape()).Mul(x.Sub(a.back(r.output(), x.Shape())).Exp())
	}))
	kernel(softmax, eachOf(func(r *rerun, g *Variable) *Variable {
		y := r.output()
		p := g.Mul(y)
		return p.Sub(y.Mul(p.Sum([]int{r.n.arg.(int)}, true)))
	}))
	kernel(logSoftmax, eachOf(func(r *rerun, g *Variable) *Variable {
		return g.Sub(r.output().Exp().Mul(g.Sum([]int{r.n.arg.(int)}, true)))
	}))
	for _, o := range []*op{maxDim, minDim, sortOp, topK} {
		each(o, chosenDouble)
	}
}

// over is v / u, and 0 where u is 0, also the gradients.
func (v *Variable) over(u *Variable) *Variable {
	zero := u.EqScalar(0)
	return v.Div(u.MaskedFill(zero, 1)).MaskedFill(zero, 0)
}

// back is v, of the shape of the result, with the reduced dimensions put back, of one element each.
func (r reduction) back(v *Variable, shape tensor.Shape) *Variable {
	if r.keep {
		return v
	}
	kept := shape.Clone()
	for i := range kept {
		if r.reduces(i, len(shape)) {
			kept[i] = 1
		}
	}
	return v.Reshape(kept...)
}

// extremeShare gives the elements that equal the result even shares.
func extremeShare(r *rerun, g *Variable) *Variable {
	a, x := r.n.arg.(reduction), r.input(0)
	mask := x.Eq(a.back(r.output(), x.Shape())).To(g.dtype)
	return mask.Div(mask.Sum(a.dims, true)).Mul(a.back(g, x.Shape()))
}

// spreadFrom is the gradient of the variance: 2*(v - mean)/(count - correction) times g.
func (m moment) spreadFrom(v, g *Variable) *Variable {
	shape := v.Shape()
	scaled := m.back(g.MulScalar(2/(float64(m.count(shape))-float64(m.correction))), shape)
	return v.Sub(v.Mean(m.dims, true)).Mul(scaled)
}

// normDouble is the gradient of a norm, as vectorNormGrad. That of half precision is computed in float32, as there: its own derivatives have squares of
// the norm.
func normDouble(r *rerun, g *Variable) *Variable {
	a, x, y := r.n.arg.(powered), r.input(0), r.output()
	if dt := x.dtype; dt == tensor.Float16 || dt == tensor.BFloat16 {
		return a.slopes(x.To(tensor.Float32), y.To(tensor.Float32), g.To(tensor.Float32)).To(dt)
	}
	return a.slopes(x, y, g)
}

// slopes is g times the derivatives of the norm y of x.
func (a powered) slopes(x, y, g *Variable) *Variable {
	g, y = a.back(g, x.Shape()), a.back(y, x.Shape())
	switch {
	case a.p == 0:
		return x.MulScalar(0)
	case a.p == 1:
		return g.Mul(x.Sign())
	case a.p == 2:
		return g.over(y).Mul(x)
	case math.IsInf(a.p, 0):
		mask := x.Abs().Eq(y).To(x.dtype)
		return mask.Div(mask.Sum(a.dims, true)).Mul(x.Sign()).Mul(g)
	}
	size := x.Abs()
	gone := y.EqScalar(0)
	if a.p < 2 {
		gone = gone.Or(size.EqScalar(0))
	}
	ratio := size.MaskedFill(gone, 1).Div(y.MaskedFill(y.EqScalar(0), 1)).PowScalar(a.p - 1)
	return g.Mul(x.Sign()).Mul(ratio).MaskedFill(gone, 0)
}

// prodDouble is g times the product of the other elements: of those before and those behind, so that none is divided by.
func prodDouble(r *rerun, g *Variable) *Variable {
	a, x := r.n.arg.(reduction), r.input(0)
	shape := x.Shape()
	n := a.count(shape)
	switch {
	case x.Len() == 0:
		return x.MulScalar(0)
	case n <= 1:
		return a.back(g, shape)
	}
	order, back := a.reducedLast(len(shape))
	moved := x.Permute(order...)
	lists := moved.Reshape(x.Len()/n, n)
	ones := lists.g.Ones(lists.dtype, lists.Dim(0), 1)
	before := Cat([]*Variable{ones, lists.Narrow(1, 0, n-1)}, 1).CumProd(1)
	behind := Cat([]*Variable{lists.Narrow(1, 1, n-1), ones}, 1).Flip(1).CumProd(1).Flip(1)
	others := before.Mul(behind).Reshape(moved.Shape()...).Permute(back...)
	return a.back(g, shape).Mul(others)
}

// cumProdDouble is, for element k, the product of those before it times the sum over i >= k of g[i] and the product of those between. The sum
// is computed from the end: what it is for k is g[k] and the next element times what it is for the next one. So zeros need no care.
func cumProdDouble(r *rerun, g *Variable) *Variable {
	x, dim := r.input(0), r.n.arg.(int)
	if x.NDim() == 0 || x.Len() == 0 {
		return g
	}
	n := x.Dim(dim)
	sums := make([]*Variable, n)
	sums[n-1] = g.Narrow(dim, n-1, 1)
	for k := n - 2; k >= 0; k-- {
		sums[k] = g.Narrow(dim, k, 1).Add(x.Narrow(dim, k+1, 1).Mul(sums[k+1]))
	}
	if n == 1 {
		return sums[0]
	}
	shape := x.Shape().Clone()
	shape[(dim+len(shape))%len(shape)] = 1
	ones := x.g.Ones(x.dtype, shape...)
	before := Cat([]*Variable{ones, x.Narrow(dim, 0, n-1).CumProd(dim)}, dim)
	return before.Mul(Cat(sums, dim))
}

// chosenDouble puts g where the elements came from, among zeros.
func chosenDouble(r *rerun, g *Variable) *Variable {
	c, indices, v := r.n.arg.(*choice), r.stash(0), r.n.in[0]
	if c.drops && v.NDim() > 0 {
		dim := c.dim
		if dim < 0 {
			dim += v.NDim()
		}
		g, indices = g.Unsqueeze(dim), indices.Unsqueeze(dim)
	}
	return r.zeros(0).Scatter(c.dim, indices, g)
}

// zeros are zeros of the shape and type of input i, through which no gradient flows.
func (r *rerun) zeros(i int) *Variable {
	v := r.n.in[i]
	return r.n.g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e.Owned(), v.dtype, v.Shape()...) })
}
