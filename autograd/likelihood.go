package autograd

import "math"

// The negative logarithms of likelihoods of numbers. They are made of other operations, whose gradients are theirs.

var (
	poissonNLL  = composite{name: "poisson_nll_loss", wide: true}
	gaussianNLL = composite{name: "gaussian_nll_loss"}
)

// PoissonNLL is how PoissonNLLLoss computes. The zero value is PyTorch's default.
type PoissonNLL struct {
	Rates bool    // predictions are the rates themselves, not their logarithms (log_input=False)
	Full  bool    // with Stirling's approximation of the term that depends on the target alone
	Eps   float64 // added to rates before their logarithm is taken; 0 is 1e-8
}

// PoissonNLLLoss is exp(v) - target*v for logarithms v of rates, or v - target*log(v + eps) for rates, reduced: less a constant, the negative
// logarithm of the probability of target. The two broadcast.
func (v *Variable) PoissonNLLLoss(target *Variable, p PoissonNLL, r Reduction) *Variable {
	in := []*Variable{v, target}
	return poissonNLL.loss(r, in, func() error {
		return firstError(poissonNLL.floats(v), poissonNLL.broadcast(in...))
	}, func(in []*Variable) *Variable {
		x, target := in[0], in[1].To(in[0].dtype)
		var loss *Variable
		if p.Rates {
			loss = x.Sub(target.Mul(x.AddScalar(defaultTo(p.Eps, 1e-8)).Log()))
		} else {
			loss = x.Exp().Sub(target.Mul(x))
		}
		if !p.Full {
			return loss
		}
		few := target.LeScalar(1)
		some := target.MaskedFill(few, 1) // so that logarithms are finite, and have gradients
		stirling := some.Mul(some.Log()).Sub(some).Add(some.MulScalar(2 * math.Pi).Log().MulScalar(0.5))
		return loss.Add(stirling.MaskedFill(few, 0))
	})
}

// GaussianNLL is how GaussianNLLLoss computes. The zero value is PyTorch's default.
type GaussianNLL struct {
	Full bool    // with the constant, log(2π)/2
	Eps  float64 // the least variance; 0 is 1e-6
}

// GaussianNLLLoss is (log(variance) + (v - target)²/variance) / 2, reduced. A variance is v's shape, or has one number for the last dimension, also without
// naming it. Variances count as at least Eps, which their gradients do not see; negative ones are not refused, as PyTorch refuses them, because
// that waits for the device.
func (v *Variable) GaussianNLLLoss(target, variance *Variable, p GaussianNLL, r Reduction) *Variable {
	in := []*Variable{v, target, variance}
	each := false // the last dimension shares a variance
	return gaussianNLL.loss(r, in, func() error {
		shape, n := variance.Shape(), v.NDim()
		each = n > 0 && !shape.Equal(v.Shape()) && shape.Equal(v.Shape()[:n-1])
		one := n > 0 && variance.NDim() == n && variance.Dim(-1) == 1 && shape[:n-1].Equal(v.Shape()[:n-1])
		if !each && !one && !shape.Equal(v.Shape()) {
			return gaussianNLL.shapes("there is a variance for each element, or for each row", v, variance)
		}
		return firstError(gaussianNLL.floats(v, variance), gaussianNLL.broadcast(v, target))
	}, func(in []*Variable) *Variable {
		variance := in[2]
		if each {
			variance = variance.Unsqueeze(-1)
		}
		variance = variance.atLeast(defaultTo(p.Eps, 1e-6))
		loss := variance.Log().Add(in[0].Sub(in[1]).Square().Div(variance)).MulScalar(0.5)
		if p.Full {
			return loss.AddScalar(0.5 * math.Log(2*math.Pi))
		}
		return loss
	})
}
