package autograd

import "github.com/cistern-ml/cistern/tensor"

// The gradients of losses of elements as variables: each is a factor of the share that the element has of the incoming gradient.

func init() {
	differences := map[*op]func(a elementLoss, d *Variable) *Variable{
		mse: func(_ elementLoss, d *Variable) *Variable { return d.MulScalar(2) },
		l1:  func(_ elementLoss, d *Variable) *Variable { return d.Sign() },
		smoothL1: func(a elementLoss, d *Variable) *Variable {
			if a.scale == 0 {
				return d.Sign()
			}
			return Where(d.Abs().LtScalar(a.scale), d.DivScalar(a.scale), d.Sign())
		},
		huber: func(a elementLoss, d *Variable) *Variable {
			return Where(d.Abs().LtScalar(a.scale), d, d.Sign().MulScalar(a.scale))
		},
	}
	for o, slope := range differences {
		lossSlopes(o, func(a elementLoss, v, target *Variable) *Variable { return slope(a, v.Sub(target)) },
			func(a elementLoss, v, target *Variable) *Variable { return slope(a, v.Sub(target)).Neg() })
	}
	lossSlopes(klDiv,
		func(a elementLoss, _, target *Variable) *Variable {
			if a.log {
				return target.Exp().Neg()
			}
			return target.MaskedFill(target.LeScalar(0), 0).Neg()
		},
		func(a elementLoss, v, target *Variable) *Variable {
			if a.log {
				return target.Exp().Mul(target.Sub(v).AddScalar(1))
			}
			none := target.EqScalar(0)
			return target.MaskedFill(none, 1).Log().AddScalar(1).Sub(v).MaskedFill(none, 0)
		})
	lossSlopes(bce,
		func(_ elementLoss, v, target *Variable) *Variable { // no divisor is less than PyTorch's 1e-12
			return target.RSubScalar(1).Div(v.RSubScalar(1).AddScalar(1e-12)).Sub(target.Div(v.AddScalar(1e-12)))
		},
		func(_ elementLoss, v, _ *Variable) *Variable { return v.RSubScalar(1).Log().Sub(v.Log()) })
	lossSlopes(bceLogits,
		func(_ elementLoss, v, target *Variable) *Variable { return v.Sigmoid().Sub(target) },
		func(_ elementLoss, v, _ *Variable) *Variable { return v.Neg() })
}

// lossSlopes are the derivatives of the loss of an element by the prediction and by the target.
func lossSlopes(o *op, slopes ...func(a elementLoss, v, target *Variable) *Variable) {
	kernel(o, func(r *rerun, gs []*Variable) []*Variable {
		in := make([]*Variable, 2)
		for i, slope := range slopes {
			if r.needs(i) {
				in[i] = r.share(gs[0]).Mul(slope(r.n.arg.(elementLoss), r.quantity(0), r.quantity(1)))
			}
		}
		return in
	})
}

// share is the gradient of each element's loss.
func (r *rerun) share(g *Variable) *Variable {
	shape, err := tensor.BroadcastShapes(r.n.in[0].Shape(), r.n.in[1].Shape())
	if err != nil || r.n.arg.(elementLoss).Reduction != MeanReduction {
		return g
	}
	return g.DivScalar(float64(shape.Len()))
}
