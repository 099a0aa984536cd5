package dist

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Exponential is a batch of exponential distributions.
type Exponential struct {
	base
	rate *autograd.Variable
}

// NewExponential makes exponential distributions of the given rates, which are greater than 0 (torch.distributions.Exponential).
func NewExponential(rate *autograd.Variable, opts ...Option) Exponential {
	d := Exponential{newBase("Exponential", 0, opts, rate), rate}
	d.require("rate", "greater than 0", rate, positive)
	return d
}

// Sample draws values of shape [shape..., batch...].
func (d Exponential) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients: noise/rate.
func (d Exponential) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d Exponential) draw(shape []int) *autograd.Variable {
	return d.rand(shape).Neg().Log1p().Neg().To(d.dt).Div(d.rate)
}

// LogProb is the logarithm of the density at value, which is not negative.
func (d Exponential) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		d.require("value", "at least 0", value, notNegative)
		return d.rate.Log().Sub(d.rate.Mul(value))
	})
}

// Entropy is the entropy of each of the batch.
func (d Exponential) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.rate.Log().RSubScalar(1) })
}

// Mean is 1/rate.
func (d Exponential) Mean() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.rate.Reciprocal() })
}

// Variance is 1/rate².
func (d Exponential) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.rate.Square().Reciprocal() })
}

// klExponential is the divergence of p from q.
func klExponential(p, q Exponential) *autograd.Variable {
	ratio := q.rate.Div(p.rate)
	return ratio.SubScalar(1).Sub(ratio.Log())
}

func notNegative(v *autograd.Variable) *autograd.Variable { return v.GeScalar(0) }

// Laplace is a batch of Laplace distributions.
type Laplace struct {
	base
	loc, scale *autograd.Variable
}

// NewLaplace makes Laplace distributions of the given means and scales, which broadcast (torch.distributions.Laplace). scale is greater than 0.
func NewLaplace(loc, scale *autograd.Variable, opts ...Option) Laplace {
	d := Laplace{newBase("Laplace", 0, opts, loc, scale), loc, scale}
	d.require("loc", "numbers", loc, real)
	d.require("scale", "greater than 0", scale, positive)
	return d
}

// Sample draws values of shape [shape..., batch...].
func (d Laplace) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients: loc + scale*noise.
func (d Laplace) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

// draw takes the size of the noise and its sign from one uniform number u in [-1, 1), whose logarithm is finite: that of 1-|u| is not taken at -1.
func (d Laplace) draw(shape []int) *autograd.Variable {
	u := d.rand(shape).MulScalar(2).SubScalar(1)
	least := tensor.Epsilon(u.DType()) - 1
	noise := u.Sign().Mul(u.Clamp(least, math.Inf(1)).Abs().Neg().Log1p()).Neg()
	return d.loc.Add(d.scale.Mul(noise.To(d.dt)))
}

// LogProb is the logarithm of the density at value.
func (d Laplace) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		return value.Sub(d.loc).Abs().Div(d.scale).Add(d.scale.MulScalar(2).Log()).Neg()
	})
}

// Entropy is the entropy of each of the batch.
func (d Laplace) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.full(d.scale.MulScalar(2).Log().AddScalar(1)) })
}

// Mean is loc, in the shape of the batch.
func (d Laplace) Mean() *autograd.Variable { return d.full(d.loc) }

// Variance is twice the square of scale, in the shape of the batch.
func (d Laplace) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.full(d.scale.Square().MulScalar(2)) })
}

// klLaplace is the divergence of p from q.
func klLaplace(p, q Laplace) *autograd.Variable {
	apart, ratio := p.loc.Sub(q.loc).Abs(), p.scale.Div(q.scale)
	return apart.Div(q.scale).Add(ratio.Mul(apart.Div(p.scale).Neg().Exp())).Sub(ratio.Log()).SubScalar(1)
}

// LogNormal is a batch of distributions of exp(x) of a normally distributed number.
type LogNormal struct{ normal Normal }

// NewLogNormal makes distributions of exp(x) for x of the given means and standard deviations, which broadcast (torch.distributions.LogNormal).
func NewLogNormal(loc, scale *autograd.Variable, opts ...Option) LogNormal {
	d := NewNormal(loc, scale, opts...)
	d.name = "LogNormal"
	return LogNormal{d}
}

// Sample draws values of shape [shape..., batch...].
func (d LogNormal) Sample(shape ...int) *autograd.Variable {
	return d.normal.quiet(func() *autograd.Variable { return d.normal.draw(shape).Exp() })
}

// RSample is Sample with gradients.
func (d LogNormal) RSample(shape ...int) *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable { return d.normal.draw(shape).Exp() })
}

// LogProb is the logarithm of the density at value, which is greater than 0.
func (d LogNormal) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable {
		d.normal.require("value", "greater than 0", value, positive)
		x := value.Log()
		return d.normal.LogProb(x).Sub(x)
	})
}

// Entropy is the entropy of each of the batch.
func (d LogNormal) Entropy() *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable { return d.normal.Entropy().Add(d.normal.loc) })
}

// Mean is exp(loc + scale²/2).
func (d LogNormal) Mean() *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable { return d.normal.loc.Add(d.normal.scale.Square().MulScalar(0.5)).Exp() })
}

// Variance is (exp(scale²) - 1) * exp(2*loc + scale²).
func (d LogNormal) Variance() *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable {
		s := d.normal.scale.Square()
		return s.Expm1().Mul(d.normal.loc.MulScalar(2).Add(s).Exp())
	})
}

// BatchShape is the shape of the batch.
func (d LogNormal) BatchShape() tensor.Shape { return d.normal.BatchShape() }

// Graph is the graph of the parameters, nil of a zero value.
func (d LogNormal) Graph() *autograd.Graph { return d.normal.Graph() }
