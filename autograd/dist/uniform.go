package dist

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
)

// Uniform is a batch of uniform distributions over intervals.
type Uniform struct {
	base
	low, high *autograd.Variable
}

// NewUniform makes uniform distributions over [low, high), which broadcast (torch.distributions.Uniform).
func NewUniform(low, high *autograd.Variable, opts ...Option) Uniform {
	d := Uniform{newBase("Uniform", 0, opts, low, high), low, high}
	d.require("high", "greater than low", high, func(v *autograd.Variable) *autograd.Variable { return v.Gt(low.Detach()) })
	return d
}

// Sample draws values of shape [shape..., batch...].
func (d Uniform) Sample(shape ...int) *autograd.Variable {
	return d.quiet(func() *autograd.Variable { return d.draw(shape) })
}

// RSample is Sample with gradients.
func (d Uniform) RSample(shape ...int) *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.draw(shape) })
}

func (d Uniform) draw(shape []int) *autograd.Variable {
	return d.low.Add(d.high.Sub(d.low).Mul(d.rand(shape).To(d.dt)))
}

// LogProb is the logarithm of the density at value, -Inf outside of the interval.
func (d Uniform) LogProb(value *autograd.Variable) *autograd.Variable {
	return d.scoped(func() *autograd.Variable {
		outside := value.Lt(d.low).Or(value.Ge(d.high))
		inside := value.Sub(value).Sub(d.high.Sub(d.low).Log()) // of the shape of both
		return inside.MaskedFill(outside, math.Inf(-1))
	})
}

// Entropy is the entropy of each of the batch.
func (d Uniform) Entropy() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.high.Sub(d.low).Log() })
}

// Mean is the middle of the interval.
func (d Uniform) Mean() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.low.Add(d.high).MulScalar(0.5) })
}

// Variance is the square of the length divided by 12.
func (d Uniform) Variance() *autograd.Variable {
	return d.scoped(func() *autograd.Variable { return d.high.Sub(d.low).Square().DivScalar(12) })
}

// klUniform is the divergence of p from q, infinite where p is not inside q.
func klUniform(p, q Uniform) *autograd.Variable {
	ratio := q.high.Sub(q.low).Div(p.high.Sub(p.low)).Log()
	return ratio.MaskedFill(q.low.Gt(p.low).Or(q.high.Lt(p.high)), math.Inf(1))
}
