package dist

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Independent is a batch of distributions of several independent numbers.
type Independent struct {
	of   Distribution
	last int
}

// NewIndependent makes the last n dimensions of the batch of d those of one value, so that LogProb, Entropy and KL are sums over them
// (torch.distributions.Independent). n is from 0 to the number of the batch's dimensions.
func NewIndependent(d Distribution, n int) Independent {
	if isnil.Value(d) {
		return Independent{}
	}
	if dims := len(d.BatchShape()); n < 0 || n > dims {
		err := &ArgumentError{"Independent", fmt.Sprintf("%d of the batch's dimensions; there are %d", n, dims)}
		d.Graph().Refuse("dist.Independent", err)
		n = 0
	}
	return Independent{d, n}
}

// summed sums over the dimensions of a value.
func (d Independent) summed(f func() *autograd.Variable) *autograd.Variable {
	if d.of == nil || d.of.Graph() == nil {
		return nil
	}
	if d.last == 0 {
		return f()
	}
	return d.of.Graph().Scope(func() *autograd.Variable {
		dims := make([]int, d.last)
		for i := range dims {
			dims[i] = -1 - i
		}
		return f().Sum(dims, false)
	})
}

// Sample draws values of shape [shape..., batch..., value...].
func (d Independent) Sample(shape ...int) *autograd.Variable {
	if d.of == nil {
		return nil
	}
	return d.of.Sample(shape...)
}

// RSample is Sample with gradients. Of distributions that cannot do that it is an *ArgumentError of the graph.
func (d Independent) RSample(shape ...int) *autograd.Variable {
	if d.of == nil {
		return nil
	}
	if r, ok := d.of.(Reparametrized); ok {
		return r.RSample(shape...)
	}
	return d.Graph().Refuse("dist.Independent", &ArgumentError{"Independent", fmt.Sprintf("RSample: %T has none", d.of)})
}

// LogProb is the logarithm of the density or probability of each value.
func (d Independent) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.summed(func() *autograd.Variable { return d.of.LogProb(value) })
}

// Entropy is the entropy of each of the batch.
func (d Independent) Entropy() *autograd.Variable {
	return d.summed(func() *autograd.Variable { return d.of.Entropy() })
}

// Mean is that of each number. Of distributions without one it is an *ArgumentError of the graph.
func (d Independent) Mean() *autograd.Variable {
	if d.of == nil || d.of.Graph() == nil {
		return nil
	}
	if m, ok := d.of.(interface{ Mean() *autograd.Variable }); ok {
		return m.Mean()
	}
	return d.Graph().Refuse("dist.Independent", &ArgumentError{"Independent", fmt.Sprintf("Mean: %T has none", d.of)})
}

// Variance is that of each number. Of distributions without one it is an *ArgumentError of the graph.
func (d Independent) Variance() *autograd.Variable {
	if d.of == nil || d.of.Graph() == nil {
		return nil
	}
	if m, ok := d.of.(interface{ Variance() *autograd.Variable }); ok {
		return m.Variance()
	}
	return d.Graph().Refuse("dist.Independent", &ArgumentError{"Independent", fmt.Sprintf("Variance: %T has none", d.of)})
}

// valueDims counts those of the values that became one.
func (d Independent) valueDims() int { return d.last + valueDims(d.of) }

// BatchShape is the shape of the batch.
func (d Independent) BatchShape() tensor.Shape {
	if d.of == nil {
		return nil
	}
	shape := d.of.BatchShape()
	return shape[:len(shape)-d.last]
}

// Graph is the graph of the parameters, nil of a zero value.
func (d Independent) Graph() *autograd.Graph {
	if d.of == nil {
		return nil
	}
	return d.of.Graph()
}

// KL is the Kullback-Leibler divergence of p from q, KL(p || q), for each of the batch (torch.distributions.kl_divergence): both are of the
// same family, any of this package but TanhNormal and Mixture, or Independent over as many dimensions. Other pairs are an *ArgumentError of the graph.
func KL(p, q Distribution) *autograd.Variable {
	if isnil.Value(p) || isnil.Value(q) || p.Graph() == nil || q.Graph() == nil {
		return nil
	}
	if a, ok := p.(Independent); ok {
		if b, ok := q.(Independent); ok && a.last == b.last {
			return a.summed(func() *autograd.Variable { return KL(a.of, b.of) })
		}
		return noKL(p, q)
	}
	return p.Graph().Scope(func() *autograd.Variable {
		switch a := p.(type) {
		case Normal:
			if b, ok := q.(Normal); ok {
				return klNormal(a, b)
			}
		case Categorical:
			if b, ok := q.(Categorical); ok {
				return klCategorical(a, b)
			}
		case Bernoulli:
			if b, ok := q.(Bernoulli); ok {
				return klBernoulli(a, b)
			}
		case Uniform:
			if b, ok := q.(Uniform); ok {
				return klUniform(a, b)
			}
		case Exponential:
			if b, ok := q.(Exponential); ok {
				return klExponential(a, b)
			}
		case Laplace:
			if b, ok := q.(Laplace); ok {
				return klLaplace(a, b)
			}
		case LogNormal:
			if b, ok := q.(LogNormal); ok {
				return klNormal(a.normal, b.normal)
			}
		case Geometric:
			if b, ok := q.(Geometric); ok {
				return klGeometric(a, b)
			}
		case Poisson:
			if b, ok := q.(Poisson); ok {
				return klPoisson(a, b)
			}
		case Gamma:
			if b, ok := q.(Gamma); ok {
				return klGamma(a, b)
			}
		case Dirichlet:
			if b, ok := q.(Dirichlet); ok {
				return klDirichlet(a, b)
			}
		case Beta:
			if b, ok := q.(Beta); ok {
				return klDirichlet(a.pair, b.pair)
			}
		case MultivariateNormal:
			if b, ok := q.(MultivariateNormal); ok {
				return klMultivariate(a, b)
			}
		}
		return noKL(p, q)
	})
}

func noKL(p, q Distribution) *autograd.Variable {
	return p.Graph().Refuse("dist.KL", &ArgumentError{"KL", fmt.Sprintf("of %T and %T: there is no formula", p, q)})
}
