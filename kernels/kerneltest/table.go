package kerneltest

import (
	"math"
	"math/big"

	"github.com/cistern-ml/cistern/device/dtype"
)

// What the references of elementwise_gen.go need.

// tableGradient gives tame gradients, and for what the forward pass saved numbers of the range.
func tableGradient(lo, hi float64) func(m *maker, k int, d dtype.DType) func() value {
	return func(m *maker, k int, d dtype.DType) func() value {
		if k == 0 {
			return m.tame(d)
		}
		return m.within(d, lo, hi)
	}
}

// shifted gives bits, and numbers of places, of which a few are negative or more than there are bits.
func (m *maker) shifted(k int, d dtype.DType) func() value {
	wild := m.wild(d)
	return func() value {
		if k == 0 || m.rng.IntN(8) == 0 {
			return wild()
		}
		return intValue(wrap(d, int64(m.rng.IntN(8*d.Size()+4)-2)))
	}
}

// mishSlope is the derivative of x*tanh(s) with s = log(1+exp(x)).
func mishSlope(x float64) float64 {
	t := math.Tanh(math.Log1p(math.Exp(x)))
	return t + x*(1-t*t)*sigmoid(x)
}

// geluSlope is the derivative of x times the normal distribution function, 0 and 1 at infinities.
func geluSlope(x float64) float64 {
	density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
	if density != 0 {
		density *= x
	}
	return 0.5*math.Erfc(-x/math.Sqrt2) + density
}

func hardswishSlope(x float64) float64 {
	switch {
	case x <= -3:
		return 0
	case x >= 3:
		return 1
	}
	return x/3 + 0.5
}

// logAddExp is log(exp(a)+exp(b)).
func logAddExp(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if a == b {
		return a + math.Ln2
	}
	return a + math.Log1p(math.Exp(b-a))
}

// onlyIf is a gradient where a condition holds, else 0.
func onlyIf(holds bool, g float64) float64 {
	if holds {
		return g
	}
	return 0
}

func leakyGrad(g, x, slope float64) float64 {
	if x > 0 {
		return g
	}
	return g * slope
}

func softplus(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return x
	}
	return math.Log1p(math.Exp(x*beta)) / beta
}

func softplusSlope(x, beta, threshold float64) float64 {
	if x*beta > threshold {
		return 1
	}
	return sigmoid(x * beta)
}

func elu(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x)
}

func eluSlope(x, alpha float64) float64 {
	if x > 0 {
		return 1
	}
	return alpha * math.Exp(x)
}

func geluTanhSlope(x float64) float64 {
	s := sigmoid(2 * geluArgument(x))
	return s + x*sigmoidSlope(2*geluArgument(x))*2*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
}

// remainder has the sign of b.
func remainder(a, b float64) float64 {
	r := math.Mod(a, b)
	if r != 0 && math.Signbit(r) != math.Signbit(b) {
		return r + b
	}
	return r
}

func intRemainder(a, b int64) int64 {
	r := intMod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// intMod is Go's remainder, and 0 where b is 0.
func intMod(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a % b
}

// bounded is a+b, open where b alone may be too large for float32.
func bounded(a, b float64) result {
	r := scaled(a+b, a, b)
	r.any = math.Abs(b) > math.MaxFloat32/2 && !math.IsInf(b, 0)
	return r
}

func celu(x, alpha float64) float64 {
	if x > 0 {
		return x
	}
	return alpha * math.Expm1(x/alpha)
}

func celuSlope(x, alpha float64) float64 { return math.Exp(math.Min(x, 0) / alpha) }

func thresholdOf(x, threshold, value float64) float64 {
	if x <= threshold {
		return value
	}
	return x
}

func softShrunk(x, lambda float64) float64 {
	if math.IsNaN(x) {
		return x
	}
	return math.Max(x-lambda, 0) + math.Min(x+lambda, 0)
}

// floorDivide is exact: the integer below the quotient of two numbers, whatever their quotient is rounded to.
func floorDivide(a, b float64) float64 {
	if b == 0 || math.IsInf(a, 0) || math.IsInf(b, 0) || math.IsNaN(a) || math.IsNaN(b) {
		return floorDivideWild(a, b)
	}
	exact := new(big.Float).SetPrec(2200).Quo(new(big.Float).SetFloat64(a), new(big.Float).SetFloat64(b))
	down, _ := exact.Int(nil)
	if exact.Sign() < 0 && !exact.IsInt() {
		down.Sub(down, big.NewInt(1))
	}
	f, _ := new(big.Float).SetInt(down).Float64()
	return f
}

// floorDivideWild is what PyTorch gives.
func floorDivideWild(a, b float64) float64 {
	switch {
	case b == 0 || math.IsNaN(a) || math.IsNaN(b):
		return a / b
	case math.IsInf(b, 0) && a != 0 && (a < 0) != (b < 0) && !math.IsInf(a, 0):
		return -1
	case math.IsInf(b, 0) && !math.IsInf(a, 0):
		return a * 0
	}
	return math.NaN()
}

func intFloorDivide(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	q, r := a/b, a%b
	if r != 0 && (r < 0) != (b < 0) {
		q--
	}
	return q
}

func logitOf(x, eps float64) float64 {
	if eps >= 0 {
		x = math.Min(math.Max(x, eps), 1-eps)
	}
	return logOf(x) - math.Log1p(-x)
}

func logitSlope(x, eps float64) float64 {
	if eps >= 0 && (x < eps || x > 1-eps) {
		return 0
	}
	return 1/x + 1/(1-x)
}

func xlogyOf(x, y float64) float64 {
	if x == 0 && !math.IsNaN(y) {
		return 0
	}
	return x * logOf(y)
}

func xlogySlope(g, x, y float64) float64 {
	if x == 0 && y <= 0 {
		return 0
	}
	return xlogyOf(g, y)
}

func lgammaOf(x float64) float64 {
	switch {
	case math.IsInf(x, -1):
		return math.Inf(1)
	case x != 0 && math.Abs(x) < 1e-300:
		return -logOf(math.Abs(x))
	}
	y, _ := math.Lgamma(x)
	return y
}

// digammaOf and polygammaOf add up 1/(x+k)^m for many k, and the rest by the first terms of Euler and Maclaurin's formula.
func digammaOf(x float64) float64 {
	const n = 60
	y := x + n
	terms := []float64{math.Log(y), -1 / (2 * y), -1 / (12 * y * y), 1 / (120 * math.Pow(y, 4)), -1 / (252 * math.Pow(y, 6)), 1 / (240 * math.Pow(y, 8))}
	for k := range n {
		terms = append(terms, -1/(x+float64(k)))
	}
	return sumOf(terms)
}

func polygammaOf(order, x float64) float64 {
	const n = 40
	y, m := x+n, order+1
	terms := []float64{math.Pow(y, -order) / order, math.Pow(y, -m) / 2, m * math.Pow(y, -m-1) / 12, -m * (m + 1) * (m + 2) * math.Pow(y, -m-3) / 720,
		m * (m + 1) * (m + 2) * (m + 3) * (m + 4) * math.Pow(y, -m-5) / 30240,
		-m * (m + 1) * (m + 2) * (m + 3) * (m + 4) * (m + 5) * (m + 6) * math.Pow(y, -m-7) / 1209600}
	for k := range n {
		terms = append(terms, math.Pow(x+float64(k), -m))
	}
	return math.Pow(-1, m) * math.Gamma(m) * sumOf(terms)
}

// sumOf adds with what rounding takes of each sum (Kahan).
func sumOf(terms []float64) float64 {
	var sum, lost float64
	for _, t := range terms {
		t -= lost
		next := sum + t
		lost = (next - sum) - t
		sum = next
	}
	return sum
}
