package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// gradNorms are the cases of GradNorm.
func (m *maker) gradNorms() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, shapes := range stepShapes {
			if len(shapes) == 0 {
				continue // has no type
			}
			for k, p := range []float64{2, 1, math.Inf(1), 3, 0.5} {
				for _, before := range []float64{0, 7} {
					if m.due() {
						emit(m.gradNorm(shapes, p, before, func() value { return m.tame(m.d)() }))
					}
				}
				if at := suspects(shapes); len(at) > 0 && m.due() {
					bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[k%3]
					c := m.gradNorm(shapes, p, 1, m.tame(m.d))
					place := at[k%len(at)]
					c.in[place[0]].values[place[1]] = floatValue(bad)
					c.want = [][]result{{exact(math.Abs(bad))}}
					emit(c)
				}
			}
		}
	})
}

func (m *maker) gradNorm(shapes [][]int, p, before float64, next func() value) *testCase {
	c := m.newCase()
	c.call.I[0], c.call.F[0] = int64(len(shapes)), p
	c.inPlace = true
	c.ulps = 64 // of double precision
	var total compensated
	most := before
	total.add(before)
	for _, shape := range shapes {
		t := newTensor(m.d, contiguous, shape...)
		t.fill(next)
		c.in = append(c.in, t)
		for _, v := range t.values {
			total.add(math.Pow(math.Abs(v.f), p))
			most = math.Max(most, math.Abs(v.f))
		}
	}
	want := total.value()
	if math.IsInf(p, 1) {
		want = most
	}
	c.out = []*tensor{single(dtype.Float64, floatValue(before))}
	c.want = [][]result{{exact(want)}}
	return c
}

// clips are the cases of ClipNorm and ClipValue.
func (m *maker) clips() iter.Seq[*testCase] {
	gradNorms := []float64{0}
	if m.id == op.ClipNorm {
		gradNorms = []float64{0, 0.5, 1, 3, 1e6, math.Inf(1), math.NaN()}
	}
	return list(func(emit func(*testCase)) {
		for _, shapes := range stepShapes {
			for _, norm := range gradNorms {
				for _, limit := range []float64{0, 0.75, 100} {
					for unusual := range int64(2) {
						if norm-norm == 0 && unusual == 1 {
							continue // only norms that are not finite are
						}
						if m.due() {
							emit(m.clip(shapes, norm, limit, unusual))
						}
					}
				}
			}
		}
	})
}

func (m *maker) clip(shapes [][]int, norm, limit float64, unusual int64) *testCase {
	c := m.newCase()
	c.call.I, c.call.F[0] = ints8(int64(len(shapes)), unusual), limit
	c.inPlace = true
	c.ulps = 2
	next := m.wild(m.d)
	factor := limit / (norm + 1e-6)
	odd := math.IsNaN(norm) || math.IsInf(norm, 0)
	if !odd && factor >= 1 || odd && unusual == 0 {
		factor = 1
	}
	if m.id == op.ClipNorm {
		c.in = []*tensor{single(dtype.Float64, floatValue(norm))}
	}
	for _, shape := range shapes {
		t := newTensor(m.d, contiguous, shape...)
		t.fill(next)
		c.out = append(c.out, t)
		want := make([]result, len(t.values))
		for p, v := range t.values {
			want[p] = exact(v.f * factor)
			if m.id == op.ClipValue {
				want[p] = exact(math.Min(math.Max(v.f, -limit), limit))
			} else if computed := dtype.Float32; m.d != dtype.Float64 && math.Abs(want[p].f) < 2*math.Ldexp(1, formats[computed].least) {
				want[p].scale = math.Ldexp(1, formats[computed].least)
			}
		}
		c.want = append(c.want, want)
	}
	return c
}
