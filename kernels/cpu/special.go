package cpu

import "math"

// The gamma function's logarithm and its derivatives, in float64.

// lgamma64 is log(|gamma(x)|), positive infinite at both ends.
func lgamma64(x float64) float64 {
	switch {
	case math.IsInf(x, -1):
		return math.Inf(1)
	case x != 0 && math.Abs(x) < 0x1p-70: // math.Log is wrong for denormal numbers
		return -log64(math.Abs(x))
	}
	y, _ := math.Lgamma(x)
	return y
}

// digamma64 is the derivative of log(gamma(x)): of negative x by reflection, else of x + n >= 10 by its asymptotic series.
func digamma64(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), -x)
	case math.IsInf(x, 1):
		return x
	}
	r := 0.0
	if x < 0 {
		if math.Trunc(x) == x {
			return math.NaN()
		}
		r = -math.Pi / math.Tan(math.Pi*(x-math.RoundToEven(x)))
		x = 1 - x
	}
	for ; x < 10; x++ {
		r -= 1 / x
	}
	z := 1 / x
	s := z * z
	p := 1.0 / 12
	for _, c := range [...]float64{-691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12} { // Bernoulli's numbers B(2k)/2k
		p = float64(p*s) + c
	}
	return r + (math.Log(x) - float64(0.5*z) - float64(s*p))
}

// polygammaTail is B(2k)/(2k)! for k = 8, 7, ... 1.
var polygammaTail = [...]float64{
	-3617.0 / 10670622842880000, 1.0 / 74724249600, -691.0 / 1307674368000, 1.0 / 47900160, -1.0 / 1209600, 1.0 / 30240, -1.0 / 720, 1.0 / 12,
}

// polygamma64 is derivative number order, at least 1, of digamma: (-1)^(n+1) * n! * (1/x^(n+1) + 1/(x+1)^(n+1) + ...), whose tail Euler and
// Maclaurin's formula gives from x + k > 10 + 1.5*n on. It gives those of the many terms before a large negative x comes near 0, too: they are a difference of two tails.
func polygamma64(order, x float64) float64 {
	n := int64(order)
	if math.IsNaN(x) {
		return x
	}
	sign := 1 - 2*float64(1-n&1)
	switch {
	case x <= 0 && math.Trunc(x) == x:
		return math.Inf(int(sign))
	case math.IsInf(x, 1):
		return 0 * sign
	}
	sum, from := 0.0, 10+float64(1.5*order)
	if whole := math.Floor(-x - from); whole > 0 {
		sum = powerTail(order, -x-whole+1) - powerTail(order, -x+1)
		if n&1 == 0 {
			sum = -sum
		}
		x += whole
	}
	for ; x < from; x++ {
		t := naturalPower(1/math.Abs(x), n+1)
		if x < 0 && n&1 == 0 {
			t = -t
		}
		sum += t
	}
	return sign * math.Gamma(order+1) * (sum + powerTail(order, x))
}

// powerTail is 1/x^(n+1) + 1/(x+1)^(n+1) + ... for x > 10 + 1.5*n: the integral, half of the first term, and B(2k)/(2k)! * (n+1)*...*(n+2k-1) / x^(n+2k).
func powerTail(order, x float64) float64 {
	z := 1 / x
	s, tail, m := z*z, naturalPower(z, int64(order)), order+1
	t := 0.0
	for i, c := range polygammaTail {
		k := float64(15 - 2*i)
		t = float64(float64(t*s)*((m+k)*(m+k+1))) + c
	}
	return tail/order + float64(0.5*tail*z) + float64(tail*s*m*t)
}

func naturalPower(x float64, n int64) float64 {
	r := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r *= x
		}
		x *= x
	}
	return r
}

// asin64 is accurate near -1 and 1, where math.Asin takes the root of a difference that has lost digits.
func asin64(x float64) float64 { return math.Atan2(x, math.Sqrt((1-x)*(1+x))) }

// acos64 is accurate near 1, where the angle is small.
func acos64(x float64) float64 { return 2 * math.Atan2(math.Sqrt(1-x), math.Sqrt(1+x)) }

// logit64 is log(x/(1-x)) of x between eps and 1-eps, and of x itself if eps is negative.
func logit64(x, eps float64) float64 {
	if eps >= 0 {
		x = min(max(x, eps), 1-eps)
	}
	if x > 0.25 && x < 0.75 { // the quotient is near 1, and its logarithm near 0
		return math.Log1p((2*x - 1) / (1 - x))
	}
	return log64(x / (1 - x))
}

func logitGrad64(g, x, eps float64) float64 {
	switch {
	case eps < 0 && (x < 0 || x > 1):
		return math.NaN()
	case eps >= 0 && (x < eps || x > 1-eps):
		return 0
	}
	return g / (x * (1 - x))
}

// xlogy64 is x*log(y), and 0 for an x of 0 unless y is NaN.
func xlogy64(x, y float64) float64 {
	if x == 0 && !math.IsNaN(y) {
		return 0
	}
	return x * log64(y)
}

func xlogyGrad64(g, x, y float64) float64 {
	if x == 0 && y <= 0 {
		return 0
	}
	return xlogy64(g, y)
}
