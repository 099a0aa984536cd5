package autograd

import "github.com/cistern-ml/cistern/tensor"

// The gradients of operations that move elements, and of products, as variables.

func init() {
	multilinear(transpose, matrixT, permute, slice, narrow, selectOp, diagonal, diagEmbed, moveDim, flip, roll, tril, triu, padOp, repeat,
		repeatInterleave, indexSelect, gather, takeAlongDim, upsampleNearest2d, upsampleBilinear2d, avgPool1d, avgPool2d, adaptiveAvgPool1d,
		adaptiveAvgPool2d)
	multilinear(embedding)
	rows := embedding.double
	embedding.double = func(r *rerun, gs []*Variable) []*Variable {
		in := rows(r, gs)
		if a := r.n.arg.(embeddingArg); a.pads {
			in[0] = in[0].MaskedFill(r.paddingRow(a), 0)
		}
		return in
	}
	multilinear(matMul, dot, mv, mm, bmm, outer, einsum, tensorDot, linear, conv1d, conv2d, convTranspose1d, convTranspose2d)

	reshaped := func(r *rerun, g *Variable) *Variable { return g.Reshape(r.n.in[0].Shape()...) }
	for _, o := range []*op{reshape, view, flatten, squeeze, unsqueeze} {
		each(o, reshaped)
	}
	cat.double = func(r *rerun, gs []*Variable) []*Variable {
		in, start, dim := make([]*Variable, len(r.n.in)), 0, r.n.arg.(*catArg).dim
		for i, v := range r.n.in {
			if r.needs(i) {
				in[i] = gs[0].Narrow(dim, start, v.Dim(dim))
			}
			start += v.Dim(dim)
		}
		return in
	}
	stack.double = func(r *rerun, gs []*Variable) []*Variable {
		in := make([]*Variable, len(r.n.in))
		for i := range in {
			if r.needs(i) {
				in[i] = gs[0].Select(r.n.arg.(int), i)
			}
		}
		return in
	}

	each(scatter,
		func(r *rerun, g *Variable) *Variable { return g.ScatterValue(r.n.arg.(int), r.input(1), 0) }, nil, scattersSource)
	each(scatterValue, func(r *rerun, g *Variable) *Variable {
		return g.ScatterValue(r.n.arg.(scatterValueArg).dim, r.input(1), 0)
	})
	each(scatterAdd, pass, nil, scattersSource)
	each(indexAdd, pass, nil, func(r *rerun, g *Variable) *Variable { return g.IndexSelect(r.n.arg.(int), r.input(1)) })

	withBias(linearBias, linear, nil)
	channels := func(r *rerun, g *Variable) *Variable {
		var dims []int
		for d := range g.NDim() {
			if d != g.NDim()-(r.n.in[1].NDim()-1) {
				dims = append(dims, d)
			}
		}
		return g.Sum(dims, false)
	}
	withBias(conv1dBias, conv1d, channels)
	withBias(conv2dBias, conv2d, channels)
	withBias(convTranspose1dBias, convTranspose1d, channels)
	withBias(convTranspose2dBias, convTranspose2d, channels)

	for _, o := range []*op{addMM, bAddBMM} {
		each(o,
			func(r *rerun, g *Variable) *Variable { return g.MulScalar(r.n.arg.(scales).beta) },
			func(r *rerun, g *Variable) *Variable {
				return g.MatMul(r.input(2).Transpose(-2, -1)).MulScalar(r.n.arg.(scales).alpha)
			},
			func(r *rerun, g *Variable) *Variable {
				return r.input(1).Transpose(-2, -1).MatMul(g).MulScalar(r.n.arg.(scales).alpha)
			})
	}
	for o, dims := range map[*op]int{maxPool1d: 1, maxPool2d: 2, adaptiveMaxPool1d: 1, adaptiveMaxPool2d: 2} {
		each(o, func(r *rerun, g *Variable) *Variable {
			return maxUnpool.apply(&poolArg{dims, r.n.arg.(tensor.Pool), r.n.in[0].Shape().Clone()}, g, r.stash(0))
		})
	}
	each(maxUnpool, func(r *rerun, g *Variable) *Variable { return maxPick.apply(r.n.arg, g, r.input(1)) })
	each(maxPick, func(r *rerun, g *Variable) *Variable { return maxUnpool.apply(r.n.arg, g, r.input(1)) })
}

// withBias is an operation of two inputs and a bias, whose gradient is what sum makes of the incoming one, or that one as it is.
func withBias(o, plain *op, bias func(r *rerun, g *Variable) *Variable) {
	two := func(i int) func(r *rerun, g *Variable) *Variable {
		return func(r *rerun, g *Variable) *Variable {
			n := *r.n
			n.op, n.in = plain, r.n.in[:2]
			return (&rerun{n: &n, needs: r.needs}).adjoint(i, g)
		}
	}
	if bias == nil {
		bias = pass
	}
	each(o, two(0), two(1), bias)
}

// paddingRow is a column that holds at the padding row.
func (r *rerun) paddingRow(a embeddingArg) *Variable {
	rows := r.n.in[0].Dim(0)
	row, err := a.row(rows)
	if err != nil {
		return r.n.g.fail(called(r.n.op.name, err))
	}
	return r.n.g.Arange(0, float64(rows), 1, tensor.Int64).EqScalar(float64(row)).Unsqueeze(1)
}

// scattersSource takes from g what the elements of the source have become. Those that no index is for get 0.
func scattersSource(r *rerun, g *Variable) *Variable {
	part := g.Gather(r.n.arg.(int), r.input(1))
	var pad []int
	for d := part.NDim() - 1; d >= 0; d-- {
		pad = append(pad, 0, r.n.in[2].Dim(d)-part.Dim(d))
	}
	if part.Shape().Equal(r.n.in[2].Shape()) {
		return part
	}
	return part.Pad(pad, tensor.PadConstant, 0)
}

// poolArg is the argument of the two linear operations that the places of the largest elements make: maxPick takes what is there out of an
// image, and maxUnpool puts what it gets to these places, among zeros.
type poolArg struct {
	dims  int
	pool  tensor.Pool
	image tensor.Shape
}

func (a *poolArg) pick(t, from *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.MaxPoolPick(t, from, a.dims, a.pool)
}

func (a *poolArg) unpool(t, from *tensor.Tensor) (*tensor.Tensor, error) {
	return gradients.MaxPool(t, from, a.image, a.dims, a.pool)
}

var (
	maxPick   = placing("max_pool_pick", (*poolArg).pick, (*poolArg).unpool)
	maxUnpool = placing("max_pool_backward", (*poolArg).unpool, (*poolArg).pick)
)

func placing(name string, f, back func(a *poolArg, t, from *tensor.Tensor) (*tensor.Tensor, error)) *op {
	return &op{name: name,
		forward: func(n *node) (*tensor.Tensor, error) { return f(n.arg.(*poolArg), n.tensor(0), n.tensor(1)) },
		rules: []rule{{uses: input(1), grad: func(n *node, _ int, g *tensor.Tensor) (*tensor.Tensor, error) {
			return back(n.arg.(*poolArg), g, n.savedInput(1))
		}}, notDifferentiable(indexHasNone)}}
}
