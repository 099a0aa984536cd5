package dist

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/tensor"
)

// Mixture is a batch of mixtures of distributions of one family.
type Mixture struct {
	base
	mixing Categorical
	of     Distribution
	dims   int // of a value
}

// NewMixture makes mixtures of components with the batch [batch..., K], of which mixing, with classes [batch..., K], chooses
// (torch.distributions.MixtureSameFamily). Values of the components may have a dimension, as those of MultivariateNormal and of Independent.
func NewMixture(mixing Categorical, components Distribution) Mixture {
	d := Mixture{base: base{name: "Mixture", g: mixing.g, opts: mixing.opts}, mixing: mixing, of: components}
	if isnil.Value(components) || components.Graph() == nil || mixing.g == nil {
		if d.g != nil && d.g.Err() == nil {
			d.refuse("there are no components")
		} else if d.g == nil {
			d.of = nil
		}
		return d
	}
	if d.g.Err() != nil {
		return d
	}
	d.dims, d.dt = valueDims(components), mixing.dt
	shape := components.BatchShape()
	if want := append(mixing.shape.Clone(), mixing.classes); !shape.Equal(want) {
		d.refuse("components of batch %v; want %v, that of the classes", shape, want)
		return d
	}
	d.shape = mixing.shape
	return d
}

// valueDims is the number of dimensions of a value.
func valueDims(d Distribution) int {
	if v, ok := d.(interface{ valueDims() int }); ok {
		return v.valueDims()
	}
	return 0
}

func (d Mixture) valueDims() int { return d.dims }

// Sample draws values of shape [shape..., batch..., value...].
func (d Mixture) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.mixing.logits
		}
		chosen, all := d.mixing.Sample(shape...), d.of.Sample(shape...)
		if d.g.Err() != nil {
			return all
		}
		at := len(shape) + len(d.shape)
		index := chosen.Unsqueeze(-1)
		sizes := all.Shape().Clone()
		sizes[at] = 1
		for range d.dims {
			index = index.Unsqueeze(-1)
		}
		return all.Gather(at, index.Expand(sizes...)).Squeeze(at)
	})
}

// LogProb is the logarithm of the density or probability of value.
func (d Mixture) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.mixing.logits
		}
		if value == nil {
			return d.of.LogProb(value)
		}
		if value.NDim() < d.dims {
			return d.refuse("LogProb of shape %v; a value has %s", value.Shape(), plural.Of(d.dims, "dimension"))
		}
		each := d.of.LogProb(value.Unsqueeze(-1 - d.dims))
		return each.Add(d.mixing.logits).LogSumExp([]int{-1}, false)
	})
}

// Entropy is an *ArgumentError of the graph: it has no closed form.
func (d Mixture) Entropy() *autograd.Variable {
	if d.g == nil {
		return nil
	}
	return d.refuse("its entropy has no closed form: take the mean of -log prob of samples")
}

// Mean is that of the components' means. Of components without one it is an *ArgumentError of the graph.
func (d Mixture) Mean() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.mixing.logits
		}
		m, ok := d.of.(interface{ Mean() *autograd.Variable })
		if !ok {
			return d.refuse("Mean: %s has none", fmt.Sprintf("%T", d.of))
		}
		return d.mixed(m.Mean())
	})
}

// Variance is the mean of the components' variances and the variance of their means. Of components without one it is an *ArgumentError of the graph.
func (d Mixture) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		if d.g.Err() != nil {
			return d.mixing.logits
		}
		m, ok := d.of.(interface {
			Mean() *autograd.Variable
			Variance() *autograd.Variable
		})
		if !ok {
			return d.refuse("Variance: %s has none", fmt.Sprintf("%T", d.of))
		}
		means := m.Mean()
		apart := means.Sub(d.mixed(means).Unsqueeze(-1 - d.dims))
		return d.mixed(m.Variance().Add(apart.Square()))
	})
}

// mixed is the mean of what each component has.
func (d Mixture) mixed(each *autograd.Variable) *autograd.Variable {
	weights := d.mixing.chances()
	if d.g.Err() != nil {
		return each
	}
	for range d.dims {
		weights = weights.Unsqueeze(-1)
	}
	return each.Mul(weights).Sum([]int{-1 - d.dims}, false)
}

var _ = []Distribution{Exponential{}, Laplace{}, LogNormal{}, Geometric{}, Poisson{}, Gamma{}, Dirichlet{}, Beta{}, MultivariateNormal{}, Mixture{}}

// BatchShape is the shape of the batch.
func (d Mixture) BatchShape() tensor.Shape { return d.shape.Clone() }
