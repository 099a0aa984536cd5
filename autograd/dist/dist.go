package dist

import (
	stderrors "errors"
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/plural"
	"github.com/cistern-ml/cistern/tensor"
)

// ErrArgument is what every *ArgumentError matches with errors.Is.
var ErrArgument = stderrors.New("invalid argument of a distribution")

// ArgumentError says that a distribution cannot have a parameter, or a method an argument. It is the graph's error.
type ArgumentError struct {
	Distribution string // as in "Normal"
	Detail       string // the argument, its value or shape, and what is allowed
}

func (e *ArgumentError) Error() string { return "dist: " + e.Distribution + ": " + e.Detail }

// Unwrap returns ErrArgument.
func (e *ArgumentError) Unwrap() error { return ErrArgument }

// Distribution is a batch of distributions. Those of this package are values that are copied freely, and live as long as their graph.
type Distribution interface {
	// Sample draws values of the given shape for each of the batch. No gradients flow through them.
	Sample(shape ...int) *autograd.Variable
	// LogProb is the logarithm of the density, or of the probability, of value.
	LogProb(value *autograd.Variable) *autograd.Variable
	// Entropy is the entropy in nats.
	Entropy() *autograd.Variable
	// BatchShape is the shape of the batch, and so that of the entropy.
	BatchShape() tensor.Shape
	// Graph is the graph of the parameters, nil of a zero value.
	Graph() *autograd.Graph
}

// Reparametrized is a distribution whose samples are a function of its parameters and of noise.
type Reparametrized interface {
	Distribution
	// RSample is Sample with gradients for the parameters.
	RSample(shape ...int) *autograd.Variable
}

// Option changes how a distribution is made.
type Option func(*options)

type options struct{ validate bool }

// Validate looks at the values of parameters, and of what LogProb is given, and waits for the device to do so.
func Validate() Option { return func(o *options) { o.validate = true } }

// base is what all distributions have.
type base struct {
	name  string
	g     *autograd.Graph
	shape tensor.Shape // of the batch
	dt    tensor.DType
	opts  options
}

// newBase checks the types and shapes of parameters, whose last dimensions belong to the values.
func newBase(name string, last int, opts []Option, params ...*autograd.Variable) base {
	b := base{name: name}
	for _, o := range opts {
		if o != nil {
			o(&b.opts)
		}
	}
	for _, p := range params {
		if p != nil && b.g == nil {
			b.g = p.Graph()
		}
	}
	if b.g == nil || b.g.Err() != nil {
		return b
	}
	var err error
	for i, p := range params {
		if p == nil {
			b.refuse("parameter %d is nil", i)
			return b
		}
		if dt := p.DType(); !float(dt) {
			b.refuse("parameter %d is of type %v; want a float type", i, dt)
			return b
		}
		if len(p.Shape()) < last {
			b.refuse("parameter %d has shape %v; want at least %s", i, p.Shape(), plural.Of(last, "dimension"))
			return b
		}
		shape := p.Shape()[:len(p.Shape())-last]
		if i == 0 {
			b.shape, b.dt = shape.Clone(), p.DType()
			continue
		}
		b.dt = tensor.Promote(b.dt, p.DType())
		was := b.shape
		if b.shape, err = tensor.BroadcastShapes(was, shape); err != nil {
			b.refuse("parameters of shapes %v and %v do not broadcast", was, shape)
			return b
		}
	}
	return b
}

func float(dt tensor.DType) bool {
	return dt == tensor.Float32 || dt == tensor.Float64 || dt == tensor.Float16 || dt == tensor.BFloat16
}

// refuse makes an *ArgumentError the graph's.
func (b *base) refuse(format string, args ...any) *autograd.Variable {
	err := &ArgumentError{b.name, fmt.Sprintf(format, args...)}
	return b.g.Refuse("dist."+b.name, err)
}

// require refuses values of which, with Validate, one does not meet a condition. NaN meets none.
func (b *base) require(what, want string, v *autograd.Variable, holds func(v *autograd.Variable) *autograd.Variable) {
	if !b.opts.validate || b.g.Err() != nil || v == nil {
		return
	}
	all, err := b.quiet(func() *autograd.Variable { return holds(v.Detach()).All(nil, false).To(tensor.Float32) }).Item()
	if err == nil && all == 0 {
		b.refuse("%s, of shape %v, has elements that are not %s", what, v.Shape(), want)
	}
}

// BatchShape is the shape of the batch.
func (b base) BatchShape() tensor.Shape { return b.shape.Clone() }

// Graph is the graph of the parameters, nil of a zero value.
func (b base) Graph() *autograd.Graph { return b.g }

// scoped runs f, of which only the result stays.
func (b *base) scoped(f func() *autograd.Variable) *autograd.Variable {
	if b.g == nil {
		return nil
	}
	return b.g.Scope(f)
}

// quiet is scoped without recording.
func (b *base) quiet(f func() *autograd.Variable) *autograd.Variable {
	return b.scoped(func() *autograd.Variable { return b.g.NoGrad(f) })
}

// full is v in the shape of the batch.
func (b *base) full(v *autograd.Variable) *autograd.Variable {
	if b.g == nil || b.g.Err() != nil || v == nil || v.Shape().Equal(b.shape) {
		return v
	}
	return v.Expand(b.shape...)
}

// of is the shape of samples.
func (b *base) of(shape []int) []int { return append(append([]int{}, shape...), b.shape...) }

// rand are uniform numbers in [0, 1) for samples, of float32 at least: rounded to half precision some would be 1.
func (b *base) rand(shape []int) *autograd.Variable {
	return b.g.Rand(tensor.Promote(b.dt, tensor.Float32), b.of(shape)...)
}

// randN are standard normal numbers.
func (b *base) randN(shape []int) *autograd.Variable { return b.g.RandN(b.dt, b.of(shape)...) }

func positive(v *autograd.Variable) *autograd.Variable { return v.GtScalar(0) }

func inUnit(v *autograd.Variable) *autograd.Variable { return v.GeScalar(0).And(v.LeScalar(1)) }

// real is that of PyTorch: not NaN, but infinities too, such as the logits of classes that are ruled out.
func real(v *autograd.Variable) *autograd.Variable { return v.IsNaN().Not() }
