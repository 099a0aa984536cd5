package dist

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Normal is a batch of normal distributions.
type Normal struct {
	base
	loc, scale *autograd.Variable
}

// NewNormal makes normal distributions of the given means and standard deviations, which broadcast (torch.distributions.Normal). scale is
// greater than 0.
func NewNormal(loc, scale *autograd.Variable, opts ...Option) Normal {
	d := Normal{newBase("Normal", 0, opts, loc, scale), loc, scale}
	d.require("loc", "numbers", loc, real)
	d.require("scale", "greater than 0", scale, positive)
	return d
}

// Sample draws values of shape [shape..., batch...].
func (d Normal) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients: loc + scale*noise.
func (d Normal) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d Normal) draw(shape []int) *autograd.Variable { return d.loc.Add(d.scale.Mul(d.randN(shape))) }

// LogProb is the logarithm of the density at value.
func (d Normal) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		z := value.Sub(d.loc).Div(d.scale)
		return z.Square().MulScalar(-0.5).Sub(d.scale.Log()).SubScalar(math.Log(2*math.Pi) / 2)
	})
}

// Entropy is the entropy of each of the batch.
func (d Normal) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.full(d.scale.Log().AddScalar(0.5 + math.Log(2*math.Pi)/2)) })
}

// Mean is loc, in the shape of the batch.
func (d Normal) Mean() *autograd.Variable { return d.full(d.loc) }

// StdDev is scale, in the shape of the batch.
func (d Normal) StdDev() *autograd.Variable { return d.full(d.scale) }

// Variance is the square of scale, in the shape of the batch.
func (d Normal) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.full(d.scale.Square()) })
}

// klNormal is the divergence of p from q.
func klNormal(p, q Normal) *autograd.Variable {
	ratio := p.scale.Div(q.scale).Square()
	distance := p.loc.Sub(q.loc).Div(q.scale).Square()
	return ratio.Add(distance).SubScalar(1).Sub(ratio.Log()).MulScalar(0.5)
}

// TanhNormal is a batch of distributions of the tanh of a normally distributed number.
type TanhNormal struct{ normal Normal }

// NewTanhNormal makes distributions of tanh(x) for normally distributed x: the policy of soft actor-critic
// (torch.distributions.TransformedDistribution of a Normal and a TanhTransform). It has no Entropy that can be written down, nor Mean.
func NewTanhNormal(loc, scale *autograd.Variable, opts ...Option) TanhNormal {
	d := NewNormal(loc, scale, opts...)
	d.name = "TanhNormal"
	return TanhNormal{d}
}

// Sample draws values in (-1, 1), of shape [shape..., batch...].
func (d TanhNormal) Sample(shape ...int) *autograd.Variable {
	return d.normal.quiet(func() *autograd.Variable { return d.normal.draw(shape).Tanh() })
}

// RSample is Sample with gradients.
func (d TanhNormal) RSample(shape ...int) *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable { return d.normal.draw(shape).Tanh() })
}

// RSampleLogProb is RSample and the logarithms of the densities there, from the numbers before tanh: near -1 and 1, where LogProb is not finite
// any more, they are exact.
func (d TanhNormal) RSampleLogProb(shape ...int) (value, logProb *autograd.Variable) {
	if d.normal.g == nil {
		return nil, nil
	}
	both := d.normal.g.Scopes(func() []*autograd.Variable {
		x := d.normal.draw(shape)
		return []*autograd.Variable{x.Tanh(), d.logProbOf(x)}
	})
	return both[0], both[1]
}

// LogProb is the logarithm of the density at value, which is in (-1, 1).
func (d TanhNormal) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.normal.scoped(func() *autograd.Variable {
		return d.logProbOf(value.Log1p().Sub(value.Neg().Log1p()).MulScalar(0.5))
	})
}

// logProbOf is the logarithm of the density at tanh(x). The logarithm of tanh's derivative is 2*(log 2 - x - softplus(-2x)).
func (d TanhNormal) logProbOf(x *autograd.Variable) *autograd.Variable {
	slope := x.Add(x.MulScalar(-2).Softplus(1, 20)).RSubScalar(math.Ln2).MulScalar(2)
	return d.normal.LogProb(x).Sub(slope)
}

// Entropy is an *ArgumentError of the graph: it has no closed form. The mean of -RSampleLogProb estimates it.
func (d TanhNormal) Entropy() *autograd.Variable {
	if d.normal.g == nil {
		return nil
	}
	return d.normal.refuse("its entropy has no closed form: take the mean of -log prob of samples")
}

// BatchShape is the shape of the batch.
func (d TanhNormal) BatchShape() tensor.Shape { return d.normal.BatchShape() }

// Graph is the graph of the parameters, nil of a zero value.
func (d TanhNormal) Graph() *autograd.Graph { return d.normal.Graph() }
