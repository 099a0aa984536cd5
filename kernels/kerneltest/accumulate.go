package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// accumulator takes in elements one after the other.
type accumulator struct {
	count   int
	sum     compensated
	product float64
	size    float64 // of what was rounded
	i       int64
	best    value
	all     []float64 // for LogSumExp
}

// compensated is a sum with its rounding errors (Neumaier), exact enough to judge sums in float64.
type compensated struct{ sum, rest float64 }

func (c *compensated) add(v float64) {
	t := c.sum + v
	if math.Abs(c.sum) >= math.Abs(v) {
		c.rest += (c.sum - t) + v
	} else {
		c.rest += (v - t) + c.sum
	}
	c.sum = t
}

func (c *compensated) value() float64 {
	if math.IsInf(c.sum, 0) || math.IsNaN(c.sum) {
		return c.sum
	}
	return c.sum + c.rest
}

func (a *accumulator) add(m *maker, v value) {
	a.count++
	first := a.count == 1
	switch m.id {
	case op.Sum, op.Mean:
		a.sum.add(v.f)
		if !math.IsInf(v.f, 0) {
			a.size += math.Abs(v.f)
		}
		a.i += v.i
	case op.Prod:
		if first {
			a.product, a.i = 1, 1
		}
		a.product *= v.f
		a.i *= v.i
		a.size = math.Abs(a.product)
	case op.Norm1, op.Norm2, op.MeanSquare, op.NormMax, op.NormMin:
		a.addSize(m, math.Abs(v.f), first)
	case op.CountNonzero:
		a.best.i += b2i(v.f != 0 || v.i != 0)
	case op.LogSumExp:
		a.all = append(a.all, v.f)
	case op.Max, op.Any:
		if first || v.i > a.best.i || !(v.f <= a.best.f) && !math.IsNaN(a.best.f) {
			a.best = v
		}
	case op.Min, op.All:
		if first || v.i < a.best.i || !(v.f >= a.best.f) && !math.IsNaN(a.best.f) {
			a.best = v
		}
	}
}

// addSize takes in the size of an element, for norms.
func (a *accumulator) addSize(m *maker, s float64, first bool) {
	switch m.id {
	case op.NormMax, op.NormMin:
		if first || math.IsNaN(s) || (s > a.best.f) == (m.id == op.NormMax) && !math.IsNaN(a.best.f) {
			a.best.f = s
		}
		return
	case op.Norm2, op.MeanSquare:
		s *= s
	}
	a.sum.add(s)
	if !math.IsInf(s, 0) {
		a.size += s
	}
}

// result is the wanted element. Float sums may round at every addition: the scale grows as it does for sums in blocks.
func (a *accumulator) result(m *maker) result {
	r := result{value: a.best}
	spread := a.size * (1 + math.Log2(float64(a.count+1)) + math.Sqrt(float64(a.count))/8)
	switch m.id {
	case op.All:
		if a.count == 0 {
			r.i = 1
		}
	case op.Norm1:
		r = result{value: floatValue(a.sum.value()), scale: spread}
	case op.Norm2:
		root := math.Sqrt(a.sum.value())
		r = result{value: floatValue(root), scale: root * (2 + math.Log2(float64(a.count+1)))}
		if root < 1e-15 && root > 0 { // squares may vanish in float32
			return floatAny
		}
	case op.MeanSquare:
		n := float64(a.count)
		r = result{value: floatValue(a.sum.value() / n), scale: spread / n}
	case op.LogSumExp:
		return a.logSumExp()
	case op.Prod:
		if a.count == 0 {
			a.product, a.i = 1, 1
		}
		r = result{value: value{f: a.product, i: a.i}, scale: a.size * (2 + math.Sqrt(float64(a.count)))}
	case op.Sum, op.Mean:
		r = result{value: value{f: a.sum.value(), i: a.i}, scale: spread}
		if m.id == op.Mean {
			r.f /= float64(a.count)
			r.scale /= float64(a.count)
		}
	}
	r.any = m.overflows(a.size)
	return r
}

// floatAny is a result that is left open.
var floatAny = result{any: true}

// logSumExp is the wanted element of LogSumExp.
func (a *accumulator) logSumExp() result {
	most := math.Inf(-1)
	for _, v := range a.all {
		most = max(most, v)
	}
	if math.IsInf(most, 0) || math.IsNaN(most) {
		return exact(most)
	}
	var sum compensated
	for _, v := range a.all {
		sum.add(math.Exp(v - most))
	}
	growth := 2 + math.Log2(float64(a.count+1)) + math.Sqrt(float64(a.count))/8
	return scaled(most+math.Log(sum.value()), most, growth)
}

// overflows reports whether a sum of numbers of this size depends on the order of additions, because sums on the way may be
// too large.
func (m *maker) overflows(size float64) bool {
	computed := m.d
	if m.d == dtype.Float16 || m.d == dtype.BFloat16 {
		computed = dtype.Float32
	}
	return m.d.IsFloat() && size > largest(computed)/4
}
