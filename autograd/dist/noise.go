package dist

import (
	"math"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// noise draws on the host, for distributions whose numbers are rejected until one fits.
type noise struct{ *rand.Rand }

// newNoise takes its seed from the graph's generator, so that a seed gives the same numbers on every device.
func newNoise(g *autograd.Graph) *noise {
	s := g.Generator().Reserve(1)
	return &noise{rand.New(rand.NewPCG(s.Seed, s.Offset^0x9E3779B97F4A7C15))}
}

// onHost makes values of shape [shape..., the parameter's...] of what draw makes of each of the parameter's elements, broadcast to the batch.
func (b *base) onHost(shape []int, parameter *autograd.Variable, draw func(r *noise, p float64) float64) *autograd.Variable {
	for _, n := range shape {
		if n < 0 {
			return b.refuse("Sample of shape %v; sizes must not be negative", shape)
		}
	}
	if b.g.Err() != nil {
		return parameter
	}
	elements, err := parameter.Detach().Float64s()
	if err != nil {
		b.g.Fail(err)
		return parameter
	}
	of := append(append([]int{}, shape...), parameter.Shape()...)
	if b.room(of); b.g.Err() != nil {
		return parameter
	}
	values, r := make([]float64, tensor.Shape(of).Len()), newNoise(b.g)
	for i := range values {
		values[i] = draw(r, elements[i%len(elements)])
	}
	return autograd.FromSlice(b.g, values, of...).To(b.dt)
}

// room fails the graph if the device has no memory for so many numbers: then they are not made on the host either.
func (b *base) room(shape []int) {
	b.g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Empty(e.Owned(), tensor.Float64, shape...) }).Release()
}

// gammas draws from gamma distributions of rate 1, with gradients for the concentration: to the number is added 0, whose derivative is the number's.
func (b *base) gammas(shape []int, concentration *autograd.Variable) *autograd.Variable {
	if b.g.Err() == nil && len(concentration.Shape()) < len(b.shape) || b.g.Err() == nil && b.name == "Gamma" && !concentration.Shape().Equal(b.shape) {
		concentration = concentration.Expand(b.shape...)
	}
	least := tiny(b.dt)
	var slopes []float64
	graded := b.g.Err() == nil && b.g.GradEnabled() && concentration.RequiresGrad()
	values := b.onHost(shape, concentration, func(r *noise, a float64) float64 {
		v := r.gamma(a)
		if graded {
			slopes = append(slopes, gammaSlope(a, v))
		}
		return max(v, least)
	})
	if !graded || b.g.Err() != nil {
		return values
	}
	slope := autograd.FromSlice(b.g, slopes, values.Shape()...).To(b.dt)
	return values.Add(concentration.Sub(concentration.Detach()).Mul(slope))
}

// tiny is the smallest positive number of a type that is not denormal: what would be 0 has no logarithm.
func tiny(dt tensor.DType) float64 {
	switch dt {
	case tensor.Float64:
		return 0x1p-1022
	case tensor.Float16:
		return 0x1p-14
	}
	return 0x1p-126
}

// gamma is a number of a gamma distribution of rate 1 (Marsaglia and Tsang, 2000).
func (r *noise) gamma(a float64) float64 {
	if !(a > 0) {
		return math.NaN()
	}
	if math.IsInf(a, 1) {
		return a
	}
	boost := 1.0
	if a < 1 {
		boost = math.Pow(1-r.Float64(), 1/a)
		a++
	}
	d := a - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		u := 1 - r.Float64()
		if math.Log(u) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return boost * d * v
		}
	}
}

// gammaSlope is the derivative for a of a number z of a gamma distribution, if its quantile stays: -(dF/da)/f, where F is the distribution function, whose
// series has positive terms, and f the density.
func gammaSlope(a, z float64) float64 {
	if z == 0 || math.IsNaN(z) {
		return z
	}
	if a > 1e5 { // z is a*(1 - 1/(9a) + x/(3*sqrt(a)))^3 for a normal number x (Wilson and Hilferty)
		root := math.Cbrt(z / a)
		x := (root - 1 + 1/(9*a)) * 3 * math.Sqrt(a)
		return root*root*root + 3*a*root*root*(1/(9*a*a)-x/(6*math.Pow(a, 1.5)))
	}
	log, psi, term, sum := math.Log(z), digamma(a+1), z/a, 0.0
	for k := 0.0; ; k++ {
		part := term * (log - psi)
		sum += part
		if k > z-a && math.Abs(part) <= 1e-17*math.Abs(sum) || k > 1e7 {
			return -sum
		}
		psi += 1 / (a + k + 1)
		term *= z / (a + k + 1)
	}
}

// digamma is the derivative of the logarithm of the gamma function, of positive numbers.
func digamma(x float64) float64 {
	shift := 0.0
	for ; x < 10; x++ {
		shift -= 1 / x
	}
	y := 1 / (x * x)
	return shift + math.Log(x) - 0.5/x - y*(1.0/12-y*(1.0/120-y*(1.0/252-y*(1.0/240-y*(1.0/132)))))
}

// poisson is a number of events: of exponential waits for small rates, else by the transformed rejection of Hörmann (1993).
func (r *noise) poisson(rate float64) float64 {
	switch {
	case !(rate >= 0):
		return math.NaN()
	case rate < 10:
		n := 0.0
		for sum := r.ExpFloat64(); sum < rate; sum += r.ExpFloat64() {
			n++
		}
		return n
	}
	b := 0.931 + 2.53*math.Sqrt(rate)
	a, inverse, vr, log := -0.059+0.02483*b, 1.1239+1.1328/(b-3.4), 0.9277-3.6224/(b-2), math.Log(rate)
	for {
		u, v := r.Float64()-0.5, 1-r.Float64()
		us := 0.5 - math.Abs(u)
		k := math.Floor((2*a/us+b)*u + rate + 0.43)
		if us >= 0.07 && v <= vr {
			return k
		}
		if k < 0 || us < 0.013 && v > us {
			continue
		}
		lg, _ := math.Lgamma(k + 1)
		if math.Log(v)+math.Log(inverse)-math.Log(a/(us*us)+b) <= k*log-rate-lg {
			return k
		}
	}
}
