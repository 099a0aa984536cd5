package dist

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// Geometric is a batch of distributions of the number of failures before the first success.
type Geometric struct {
	base
	probs *autograd.Variable
}

// NewGeometric makes distributions of the probabilities of a success, in (0, 1] (torch.distributions.Geometric).
func NewGeometric(probs *autograd.Variable, opts ...Option) Geometric {
	d := Geometric{newBase("Geometric", 0, opts, probs), probs}
	d.require("probs", "in (0, 1]", probs, func(v *autograd.Variable) *autograd.Variable { return v.GtScalar(0).And(v.LeScalar(1)) })
	return d
}

// Sample draws counts, of the parameters' type and shape [shape..., batch...].
func (d Geometric) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.probs
		}
		// The logarithm of 1-u, which is not 0, over that of 1-p; -0 where that is infinite.
		return d.rand(shape).Neg().Log1p().Div(d.probs.Neg().Log1p()).Floor().Abs().To(d.dt)
	})
}

// LogProb is the logarithm of the probability of each of value, whole numbers from 0 on.
func (d Geometric) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		d.require("value", "a count", value, count)
		return missed(value, d.probs).Add(d.probs.Log())
	})
}

// missed is value*log(1-p), and 0 where value is 0 and p is 1.
func missed(value, p *autograd.Variable) *autograd.Variable {
	none := value.EqScalar(0).And(p.EqScalar(1))
	q := p.Add(value.MulScalar(0)).MaskedFill(none, 0) // of the shape of both
	return q.Neg().Log1p().Mul(value)
}

func count(v *autograd.Variable) *autograd.Variable { return v.GeScalar(0).And(v.Eq(v.Floor())) }

// Entropy is the entropy of each of the batch.
func (d Geometric) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		p := clampProbs(d.probs)
		rest := p.RSubScalar(1)
		return p.Mul(p.Log()).Add(rest.Mul(p.Neg().Log1p())).Neg().Div(p)
	})
}

// Mean is 1/p - 1.
func (d Geometric) Mean() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.probs.Reciprocal().SubScalar(1) })
}

// Variance is (1/p - 1)/p.
func (d Geometric) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.probs.Reciprocal().SubScalar(1).Div(d.probs) })
}

// klGeometric is the divergence of p from q.
func klGeometric(p, q Geometric) *autograd.Variable {
	a, b := clampProbs(p.probs), clampProbs(q.probs)
	logit := b.Log().Sub(b.Neg().Log1p())
	return p.Entropy().Neg().Sub(b.Neg().Log1p().Div(a)).Sub(logit)
}

// Poisson is a batch of distributions of numbers of events.
type Poisson struct {
	base
	rate *autograd.Variable
}

// NewPoisson makes Poisson distributions of the given rates, which are not negative (torch.distributions.Poisson).
func NewPoisson(rate *autograd.Variable, opts ...Option) Poisson {
	d := Poisson{newBase("Poisson", 0, opts, rate), rate}
	d.require("rate", "at least 0", rate, notNegative)
	return d
}

// Sample draws counts, of the parameters' type and shape [shape..., batch...]. It waits for the device: they are drawn on the host.
func (d Poisson) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable {
		return d.onHost(shape, d.rate, func(r *noise, rate float64) float64 { return r.poisson(rate) })
	})
}

// LogProb is the logarithm of the probability of each of value, whole numbers from 0 on.
func (d Poisson) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		d.require("value", "a count", value, count)
		return value.Xlogy(d.rate).Sub(d.rate).Sub(value.AddScalar(1).Lgamma())
	})
}

// Entropy is an *ArgumentError of the graph: it has no closed form.
func (d Poisson) Entropy() *autograd.Variable {
	if d.g == nil {
		return nil
	}
	return d.refuse("its entropy has no closed form: take the mean of -log prob of samples")
}

// Mean is rate.
func (d Poisson) Mean() *autograd.Variable { return d.full(d.rate) }

// Variance is rate.
func (d Poisson) Variance() *autograd.Variable { return d.full(d.rate) }

// klPoisson is the divergence of p from q, infinite where q has no events and p has.
func klPoisson(p, q Poisson) *autograd.Variable {
	kl := p.rate.Mul(p.rate.Log().Sub(q.rate.Log())).Sub(p.rate.Sub(q.rate))
	none := p.rate.EqScalar(0).Or(q.rate.MulScalar(0).NeScalar(0)) // of the shape of both
	kl = autograd.Where(none, q.rate.Add(p.rate.MulScalar(0)), kl)
	return kl.MaskedFill(q.rate.EqScalar(0).And(p.rate.NeScalar(0)), math.Inf(1))
}
