package dist

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Gamma is a batch of gamma distributions.
type Gamma struct {
	base
	concentration, rate *autograd.Variable
}

// NewGamma makes gamma distributions of the given shapes and rates, which are greater than 0 and broadcast (torch.distributions.Gamma).
func NewGamma(concentration, rate *autograd.Variable, opts ...Option) Gamma {
	d := Gamma{newBase("Gamma", 0, opts, concentration, rate), concentration, rate}
	d.require("concentration", "greater than 0", concentration, positive)
	d.require("rate", "greater than 0", rate, positive)
	return d
}

// Sample draws values of shape [shape..., batch...]. It waits for the device: they are drawn on the host.
func (d Gamma) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients, those of the inverse of the distribution function (Figurnov, Mohamed and Mnih, 2018).
func (d Gamma) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d Gamma) draw(shape []int) *autograd.Variable {
	return d.gammas(shape, d.concentration).Div(d.rate)
}

// LogProb is the logarithm of the density at value, which is not negative.
func (d Gamma) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		d.require("value", "at least 0", value, notNegative)
		a := d.concentration
		return a.Xlogy(d.rate).Add(a.SubScalar(1).Xlogy(value)).Sub(d.rate.Mul(value)).Sub(a.Lgamma())
	})
}

// Entropy is the entropy of each of the batch.
func (d Gamma) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		a := d.concentration
		return a.Sub(d.rate.Log()).Add(a.Lgamma()).Add(a.RSubScalar(1).Mul(a.Digamma()))
	})
}

// Mean is concentration/rate.
func (d Gamma) Mean() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.concentration.Div(d.rate) })
}

// Variance is concentration/rate².
func (d Gamma) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.concentration.Div(d.rate.Square()) })
}

// klGamma is the divergence of p from q.
func klGamma(p, q Gamma) *autograd.Variable {
	a, b := p.concentration, q.concentration
	return b.Mul(p.rate.Div(q.rate).Log()).Add(b.Lgamma().Sub(a.Lgamma())).Add(a.Sub(b).Mul(a.Digamma())).
		Add(q.rate.Sub(p.rate).Mul(a.Div(p.rate)))
}

// Dirichlet is a batch of distributions over probabilities of K classes.
type Dirichlet struct {
	base
	concentration *autograd.Variable
}

// NewDirichlet makes distributions of concentrations [batch..., K], which are greater than 0 (torch.distributions.Dirichlet).
func NewDirichlet(concentration *autograd.Variable, opts ...Option) Dirichlet {
	d := Dirichlet{newBase("Dirichlet", 1, opts, concentration), concentration}
	d.require("concentration", "greater than 0", concentration, positive)
	return d
}

// Sample draws values of shape [shape..., batch..., K], whose sums are 1. It waits for the device: they are drawn on the host.
func (d Dirichlet) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients: those of numbers of gamma distributions that are divided by their sum.
func (d Dirichlet) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d Dirichlet) draw(shape []int) *autograd.Variable {
	all := d.gammas(shape, d.concentration)
	if d.g.Err() != nil {
		return all
	}
	return all.Div(all.Sum([]int{-1}, true))
}

// LogProb is the logarithm of the density at value, [..., K] of positive numbers whose sum is 1.
func (d Dirichlet) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		d.require("value", "probabilities whose sum is 1", value, simplex)
		a := d.concentration
		return sumLast(a.SubScalar(1).Xlogy(value)).Add(sumLast(a).Lgamma()).Sub(sumLast(a.Lgamma()))
	})
}

func simplex(v *autograd.Variable) *autograd.Variable {
	return v.GeScalar(0).All([]int{-1}, false).And(sumLast(v).SubScalar(1).Abs().LtScalar(1e-6))
}

func sumLast(v *autograd.Variable) *autograd.Variable { return v.Sum([]int{-1}, false) }

// Entropy is the entropy of each of the batch.
func (d Dirichlet) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		a := d.concentration
		total, k := sumLast(a), float64(max(1, a.Dim(-1)))
		return sumLast(a.Lgamma()).Sub(total.Lgamma()).Sub(total.RSubScalar(k).Mul(total.Digamma())).
			Sub(sumLast(a.SubScalar(1).Mul(a.Digamma())))
	})
}

// Mean is the concentration divided by its sum.
func (d Dirichlet) Mean() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.concentration.Div(d.concentration.Sum([]int{-1}, true)) })
}

// Variance is that of each of the K numbers.
func (d Dirichlet) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		a := d.concentration
		total := a.Sum([]int{-1}, true)
		return a.Mul(total.Sub(a)).Div(total.Square().Mul(total.AddScalar(1)))
	})
}

// valueDims says that a value has a dimension.
func (d Dirichlet) valueDims() int { return 1 }

// klDirichlet is the divergence of p from q.
func klDirichlet(p, q Dirichlet) *autograd.Variable {
	a, b := p.concentration, q.concentration
	total := a.Sum([]int{-1}, true)
	each := b.Lgamma().Sub(a.Lgamma()).Add(a.Sub(b).Mul(a.Digamma().Sub(total.Digamma())))
	return sumLast(total.Lgamma()).Sub(sumLast(b).Lgamma()).Add(sumLast(each))
}

// Beta is a batch of beta distributions.
type Beta struct{ pair Dirichlet }

// NewBeta makes beta distributions of the given concentrations of 1 and of 0, which are greater than 0 and broadcast (torch.distributions.Beta).
func NewBeta(one, zero *autograd.Variable, opts ...Option) Beta {
	b := newBase("Beta", 0, opts, one, zero)
	b.require("concentration1", "greater than 0", one, positive)
	b.require("concentration0", "greater than 0", zero, positive)
	d := Dirichlet{base: b}
	d.concentration = b.scoped(func() *autograd.Variable {
		if b.g.Err() != nil {
			return one
		}
		return autograd.Stack([]*autograd.Variable{b.full(one).To(b.dt), b.full(zero).To(b.dt)}, -1)
	})
	return Beta{d}
}

// Sample draws values in (0, 1), of shape [shape..., batch...]. It waits for the device: they are drawn on the host.
func (d Beta) Sample(shape ...int) *autograd.Variable {
	return d.pair.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients, those of Dirichlet.
func (d Beta) RSample(shape ...int) *autograd.Variable {
	return d.pair.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d Beta) draw(shape []int) *autograd.Variable {
	both := d.pair.draw(shape)
	if d.pair.g.Err() != nil {
		return both
	}
	return both.Select(-1, 0)
}

// LogProb is the logarithm of the density at value, which is in [0, 1].
func (d Beta) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.pair.scoped(func() *autograd.Variable {
		d.pair.require("value", "in [0, 1]", value, inUnit)
		rest := value.RSubScalar(1)
		if d.pair.g.Err() != nil {
			return rest
		}
		a := d.pair.concentration
		one, zero := a.Select(-1, 0), a.Select(-1, 1)
		return one.SubScalar(1).Xlogy(value).Add(zero.SubScalar(1).Xlogy(rest)).Add(sumLast(a).Lgamma()).Sub(sumLast(a.Lgamma()))
	})
}

// Entropy is the entropy of each of the batch.
func (d Beta) Entropy() *autograd.Variable { return d.pair.Entropy() }

// Mean is the concentration of 1 divided by the sum of both.
func (d Beta) Mean() *autograd.Variable { return d.first(d.pair.Mean) }

// Variance is that of the value.
func (d Beta) Variance() *autograd.Variable { return d.first(d.pair.Variance) }

func (d Beta) first(f func() *autograd.Variable) *autograd.Variable {
	return d.pair.scoped(func() *autograd.Variable {
		both := f()
		if d.pair.g.Err() != nil {
			return both
		}
		return both.Select(-1, 0)
	})
}

// BatchShape is the shape of the batch.
func (d Beta) BatchShape() tensor.Shape { return d.pair.BatchShape() }

// Graph is the graph of the parameters, nil of a zero value.
func (d Beta) Graph() *autograd.Graph { return d.pair.Graph() }
