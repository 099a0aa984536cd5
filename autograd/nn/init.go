package nn

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// The initializers of torch.nn.init. "fan in" is the number of inputs of one output, "fan out" the number of outputs that one
// input goes to: dimensions 1 and 0 of a weight, each times the dimensions after them.

// Gains, by which the standard deviation is scaled to make up for what an activation does to it (torch.nn.init.calculate_gain).
// That of a linear layer and of Sigmoid is 1.
const (
	TanhGain = 5.0 / 3
	ReLUGain = math.Sqrt2
)

// LeakyReLUGain is the gain of LeakyReLU.
func LeakyReLUGain(slope float64) float64 { return math.Sqrt(2 / (1 + slope*slope)) }

// Zeros starts with 0.
func Zeros(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
	return tensor.Zeros(e, dt, shape...)
}

// Ones starts with 1.
func Ones(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
	return tensor.Ones(e, dt, shape...)
}

// Constant starts with v.
func Constant(v float64) autograd.Initializer {
	return func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		return tensor.Full(e, v, dt, shape...)
	}
}

// Uniform starts with uniform numbers in [lo, hi).
func Uniform(lo, hi float64) autograd.Initializer {
	return func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		return tensor.Uniform(e, gen, lo, hi, dt, shape...)
	}
}

// Normal starts with normal numbers.
func Normal(mean, std float64) autograd.Initializer {
	return func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		return tensor.Normal(e, gen, mean, std, dt, shape...)
	}
}

// XavierUniform starts uniform in ±gain*sqrt(6/(fan in + fan out)) (Glorot and Bengio, 2010).
func XavierUniform(gain float64) autograd.Initializer {
	return byFan("XavierUniform", gain, func(in, out float64) autograd.Initializer { return symmetric(gain * math.Sqrt(6/(in+out))) })
}

// XavierNormal starts normal with standard deviation gain*sqrt(2/(fan in + fan out)).
func XavierNormal(gain float64) autograd.Initializer {
	return byFan("XavierNormal", gain, func(in, out float64) autograd.Initializer { return Normal(0, gain*math.Sqrt(2/(in+out))) })
}

// Fan says which fan an initializer goes by.
type Fan bool

// FanIn keeps the variance in the forward pass, FanOut in the backward pass.
const (
	FanIn  Fan = false
	FanOut Fan = true
)

func (f Fan) of(in, out float64) float64 {
	if f == FanOut {
		return out
	}
	return in
}

// KaimingUniform starts uniform in ±gain*sqrt(3/fan) (He et al., 2015).
func KaimingUniform(fan Fan, gain float64) autograd.Initializer {
	return byFan("KaimingUniform", gain, func(in, out float64) autograd.Initializer { return symmetric(gain * math.Sqrt(3/fan.of(in, out))) })
}

// KaimingNormal starts normal with standard deviation gain/sqrt(fan).
func KaimingNormal(fan Fan, gain float64) autograd.Initializer {
	return byFan("KaimingNormal", gain, func(in, out float64) autograd.Initializer { return Normal(0, gain/math.Sqrt(fan.of(in, out))) })
}

func symmetric(bound float64) autograd.Initializer { return Uniform(-bound, bound) }

// byFan makes an initializer, called name, that depends on the fans of the shape. Shapes of fewer than two dimensions have none.
func byFan(name string, gain float64, choose func(in, out float64) autograd.Initializer) autograd.Initializer {
	return func(e tensor.Exec, gen *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		if !(gain >= 0 && gain <= math.MaxFloat64) {
			return nil, argumentErr(name, "a gain of %v; it must be at least 0, and finite", gain)
		}
		if len(shape) < 2 {
			return nil, argumentErr(name, "fan in and fan out of %s, which has fewer than two dimensions", tensor.Shape(shape))
		}
		if tensor.Shape(shape).Len() == 0 {
			return tensor.Empty(e, dt, shape...)
		}
		field := float64(tensor.Shape(shape[2:]).Len())
		return choose(float64(shape[1])*field, float64(shape[0])*field)(e, gen, dt, shape...)
	}
}
