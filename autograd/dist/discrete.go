package dist

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Categorical is a batch of distributions over the classes 0..K-1.
type Categorical struct {
	base
	logits  *autograd.Variable // logarithms of probabilities, [batch..., K]
	probs   *autograd.Variable // of one that was made of probabilities, whose logarithms are bounded
	classes int
}

// NewCategorical makes distributions of logits [batch..., K]: logarithms of probabilities but for a constant. It is
// torch.distributions.Categorical(logits=...); what PyTorch takes without a name are probabilities, which NewCategoricalProbs takes.
func NewCategorical(logits *autograd.Variable, opts ...Option) Categorical {
	d := Categorical{base: newBase("Categorical", 1, opts, logits)}
	d.require("logits", "numbers", logits, real)
	return d.normalized(logits, func() *autograd.Variable { return logits.LogSoftmax(-1) })
}

// NewCategoricalProbs makes distributions of probs [batch..., K], which are not negative, and are divided by their sum. As in PyTorch a
// probability counts as at least the type's epsilon in logarithms.
func NewCategoricalProbs(probs *autograd.Variable, opts ...Option) Categorical {
	d := Categorical{base: newBase("Categorical", 1, opts, probs)}
	d.require("probs", "at least 0", probs, func(v *autograd.Variable) *autograd.Variable { return v.GeScalar(0).And(v.IsFinite()) })
	d.probs = d.scoped(func() *autograd.Variable { return probs.Div(probs.Sum([]int{-1}, true)) })
	return d.normalized(probs, func() *autograd.Variable { return clampProbs(d.probs).Log() })
}

func (d Categorical) normalized(from *autograd.Variable, f func() *autograd.Variable) Categorical {
	if d.g != nil && d.g.Err() == nil {
		if d.classes = from.Dim(-1); d.classes == 0 {
			d.refuse("shape %v: there are no classes", from.Shape())
		}
	}
	d.logits = d.scoped(f)
	return d
}

// clampProbs keeps probabilities away from 0 and 1 by the type's epsilon.
func clampProbs(p *autograd.Variable) *autograd.Variable {
	if p == nil || p.Graph().Err() != nil {
		return p
	}
	eps := tensor.Epsilon(p.DType())
	return p.Clamp(eps, 1-eps)
}

// Logits are the logarithms of the probabilities, [batch..., K].
func (d Categorical) Logits() *autograd.Variable { return d.logits }

// Probs are the probabilities, [batch..., K].
func (d Categorical) Probs() *autograd.Variable {
	return d.scoped(d.chances)
}

func (d Categorical) chances() *autograd.Variable {
	if d.probs != nil {
		return d.probs
	}
	return d.logits.Exp()
}

// Sample draws classes, of type int64 and shape [shape..., batch...]. It waits for the device, as Multinomial does.
func (d Categorical) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable {
		n := 1
		for _, s := range shape {
			if s < 0 {
				return d.refuse("Sample of shape %v; sizes must not be negative", shape)
			}
			n *= s
		}
		if d.g.Err() != nil {
			return d.logits
		}
		if n == 0 || d.shape.Len() == 0 {
			return d.g.Zeros(tensor.Int64, d.of(shape)...)
		}
		rows := d.chances().Reshape(d.shape.Len(), d.classes)
		return rows.Multinomial(n, true).Transpose(0, 1).Reshape(d.of(shape)...)
	})
}

// LogProb is the logarithm of the probability of each of value, classes of type int64 that broadcast with the batch.
func (d Categorical) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if value == nil || d.g.Err() != nil {
			return d.logits.Gather(-1, value)
		}
		if value.DType() != tensor.Int64 {
			return d.refuse("LogProb of %v; classes are int64", value.DType())
		}
		shape, err := tensor.BroadcastShapes(value.Shape(), d.shape)
		if err != nil {
			return d.refuse("LogProb of shape %v does not broadcast with the batch %v", value.Shape(), d.shape)
		}
		d.require("value", "classes", value, func(v *autograd.Variable) *autograd.Variable {
			return v.GeScalar(0).And(v.LtScalar(float64(d.classes)))
		})
		index := value.Expand(shape...).Unsqueeze(-1)
		return d.logits.Expand(append(shape.Clone(), d.classes)...).Gather(-1, index).Squeeze(-1)
	})
}

// Entropy is the entropy of each of the batch. Classes of probability 0 count 0; made of probabilities they have a gradient, as in PyTorch.
func (d Categorical) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if d.probs != nil {
			return d.logits.Mul(d.probs).Sum([]int{-1}, false).Neg()
		}
		return weighted(d.logits, d.chances()).Sum([]int{-1}, false).Neg()
	})
}

// weighted is v times probabilities. What does not come counts 0, also in gradients, where v is infinite: it is replaced before it is multiplied.
func weighted(v, probs *autograd.Variable) *autograd.Variable {
	return v.MaskedFill(probs.EqScalar(0), 0).Mul(probs)
}

// impossible is t, infinite where p is not 0 and q is: a probability of which bounded logarithms do not tell. q is nil if they are not bounded.
func impossible(t, p, q *autograd.Variable) *autograd.Variable {
	if q == nil {
		return t
	}
	return t.MaskedFill(q.EqScalar(0).And(p.NeScalar(0)), math.Inf(1))
}

// klCategorical is the divergence of p from q, infinite where p has classes that q has not.
func klCategorical(p, q Categorical) *autograd.Variable {
	if p.classes != q.classes {
		return p.refuse("KL of distributions over %d and %d classes", p.classes, q.classes)
	}
	probs := p.chances()
	return impossible(weighted(p.logits.Sub(q.logits), probs), probs, q.probs).Sum([]int{-1}, false)
}

// Bernoulli is a batch of distributions over 0 and 1.
type Bernoulli struct {
	base
	logits *autograd.Variable
	probs  *autograd.Variable // as of Categorical
}

// NewBernoulli makes distributions of logits: 1 has the probability sigmoid(logit). It is torch.distributions.Bernoulli(logits=...); what PyTorch takes
// without a name are probabilities, which NewBernoulliProbs takes.
func NewBernoulli(logits *autograd.Variable, opts ...Option) Bernoulli {
	d := Bernoulli{base: newBase("Bernoulli", 0, opts, logits), logits: logits}
	d.require("logits", "numbers", logits, real)
	return d
}

// NewBernoulliProbs makes distributions of the probabilities of 1, in [0, 1]. As in PyTorch a probability counts as at least the type's epsilon
// in logarithms, and at most 1 less it.
func NewBernoulliProbs(probs *autograd.Variable, opts ...Option) Bernoulli {
	d := Bernoulli{base: newBase("Bernoulli", 0, opts, probs), probs: probs}
	d.require("probs", "in [0, 1]", probs, inUnit)
	d.logits = d.scoped(func() *autograd.Variable {
		p := clampProbs(probs)
		return p.Log().Sub(p.Neg().Log1p())
	})
	return d
}

// Sample draws zeros and ones, of the parameters' type and shape [shape..., batch...].
func (d Bernoulli) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.logits
		}
		return d.rand(shape).Lt(d.chances()).To(d.dt)
	})
}

// LogProb is the logarithm of the probability of each of value, zeros and ones of the parameters' type.
func (d Bernoulli) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		d.require("value", "0 or 1", value, func(v *autograd.Variable) *autograd.Variable { return v.EqScalar(0).Or(v.EqScalar(1)) })
		return value.Mul(d.logits).Sub(softplus(d.logits))
	})
}

// softplus is log(1 + exp(v)).
func softplus(v *autograd.Variable) *autograd.Variable { return v.Softplus(1, 40) }

// Entropy is the entropy of each of the batch.
func (d Bernoulli) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return softplus(d.logits).Sub(d.chances().Mul(d.logits)) })
}

// Mean is the probability of 1.
func (d Bernoulli) Mean() *autograd.Variable {
	return d.scoped(d.chances)
}

func (d Bernoulli) chances() *autograd.Variable {
	if d.probs != nil {
		return d.probs
	}
	return d.logits.Sigmoid()
}

// Variance is p*(1-p).
func (d Bernoulli) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		p := d.chances()
		return p.Mul(p.RSubScalar(1))
	})
}

// klBernoulli is the divergence of p from q, infinite where q rules out what p does not.
func klBernoulli(p, q Bernoulli) *autograd.Variable {
	one := p.chances()
	zero := one.RSubScalar(1)
	ones := weighted(softplus(q.logits.Neg()).Sub(softplus(p.logits.Neg())), one)
	zeros := weighted(softplus(q.logits).Sub(softplus(p.logits)), zero)
	if q.probs != nil {
		ones, zeros = impossible(ones, one, q.probs), impossible(zeros, zero, q.probs.RSubScalar(1))
	}
	return ones.Add(zeros)
}
