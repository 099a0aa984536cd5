package tensor

import "github.com/cistern-ml/cistern/kernels/op"

// LinearWeightType is the type of the gradients that LinearWeight makes of g.
func (gradients) LinearWeightType(g *Tensor) DType { return op.ComputeType(g.DType()) }

// LinearWeight are the gradients of weight and, if it is asked for, bias of Linear: gᵀ @ x, [N, K], and the sum of g's rows, [N], where g [M, N] is the
// gradient of the result and x [M, K] its input. They have the type that g is computed with: float32 for half types, of which the weight's is not rounded to half
// precision in between. It runs under g's Exec.
func (gradients) LinearWeight(g, x *Tensor, bias bool) (weight, sum *Tensor, err error) {
	const name = "LinearGradWeight"
	if err := sameFloat(name, g, x); err != nil {
		return nil, nil, err
	}
	if g.NDim() != 2 || x.NDim() != 2 || g.Dim(0) != x.Dim(0) {
		return nil, nil, shapeErr(name, []Shape{g.Shape(), x.Shape()}, "needs matrices of as many rows")
	}
	dt := op.ComputeType(g.dtype)
	of := func(dims ...int) (*Tensor, error) {
		l, err := newLayout(name, dims)
		if err != nil {
			return nil, err
		}
		return alloc(name, g.exec, dt, &l)
	}
	if weight, err = of(g.Dim(1), x.Dim(1)); err != nil {
		return nil, nil, err
	}
	if bias {
		if sum, err = of(g.Dim(1)); err != nil {
			weight.Release()
			return nil, nil, err
		}
	}
	if weight.Len() > 0 || sum != nil && sum.Len() > 0 {
		if err := launchLinearWeight(name, g, x, weight, sum); err != nil {
			weight.Release()
			sum.Release()
			return nil, nil, err
		}
	}
	return weight, sum, nil
}

func launchLinearWeight(name string, g, x, weight, sum *Tensor) error {
	c := begin(op.LinearWeightGrad, g.exec)
	c.out(weight, &weight.layout)
	if sum != nil {
		c.out(sum, &sum.layout)
	}
	c.in(g, &g.layout)
	c.in(x, &x.layout)
	return c.run(name)
}
