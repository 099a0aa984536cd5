package kerneltest

import (
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

// edges are the values of a type at which kernels go wrong.
func edges(d dtype.DType) []value {
	var list []value
	switch {
	case d == dtype.Bool:
		return []value{intValue(0), intValue(1)}
	case d.IsInteger():
		for _, i := range []int64{0, 1, -1, 2, 127, 128, 255, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
			list = append(list, intValue(wrap(d, i)))
		}
		return list
	}
	f := formats[d]
	normal := math.Ldexp(1, f.least)
	for _, v := range []float64{0, 0.5, 1, 1 + math.Ldexp(1, -f.mantissa), 2, 20, 88.5, 104, 720, largest(d), math.Inf(1),
		normal, normal / 2, math.Ldexp(normal, -f.mantissa), math.Sqrt(largest(d)), 1e-3, 0.25, 9.5} {
		list = append(list, floatValue(round(d, v)), floatValue(round(d, -v)))
	}
	return append(list, floatValue(math.NaN()))
}

// wild gives edges and numbers of all sizes in turn.
func (m *maker) wild(d dtype.DType) func() value {
	e, tame := edges(d), m.tame(d)
	return func() value {
		if m.rng.IntN(3) > 0 {
			return e[m.rng.IntN(len(e))]
		}
		return tame()
	}
}

// tame gives numbers of moderate size: floats of a normal distribution, small integers.
func (m *maker) tame(d dtype.DType) func() value {
	return func() value {
		switch {
		case d == dtype.Bool:
			return intValue(int64(m.rng.IntN(2)))
		case d == dtype.Uint8:
			return intValue(int64(m.rng.IntN(256)))
		case d.IsInteger():
			return intValue(int64(m.rng.IntN(2001) - 1000))
		}
		return floatValue(round(d, 2*m.rng.NormFloat64()))
	}
}

// within gives floats of a range.
func (m *maker) within(d dtype.DType, lo, hi float64) func() value {
	return func() value { return floatValue(round(d, lo+(hi-lo)*m.rng.Float64())) }
}

// from cycles through given values.
func from(values ...value) func() value {
	n := -1
	return func() value {
		n++
		return values[n%len(values)]
	}
}

// weights gives weights of Lerp for its third input, and finite numbers for the others.
func (m *maker) weights(k int, d dtype.DType) func() value {
	if k == 2 {
		e := from(floatValue(0), floatValue(1), floatValue(0.5), floatValue(-0.25), floatValue(1.5))
		within := m.within(d, -0.5, 1.5)
		return func() value {
			if m.rng.IntN(2) == 0 {
				return e()
			}
			return within()
		}
	}
	return m.tame(d)
}
