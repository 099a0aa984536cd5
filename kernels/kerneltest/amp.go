package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
)

// unscales are the cases of AmpUnscale: gradients that are finite to their limits, and gradients with one bad element, at each
// of the places where an implementation could overlook it.
func (m *maker) unscales() iter.Seq[*testCase] {
	inverses := []float64{1, 0.5, 1.0 / 65536, round(dtype.Float32, 1.0/3), 1024}
	bad := []float64{math.Inf(1), math.Inf(-1), math.NaN()}
	return list(func(emit func(*testCase)) {
		for _, shapes := range stepShapes {
			for k, inv := range inverses {
				for _, found := range []float64{0, 1} {
					if !m.due() {
						continue
					}
					c := m.unscale(shapes, inv, found)
					m.finish(c)
					emit(c)
				}
				for i, at := range suspects(shapes) {
					if !m.due() {
						continue
					}
					c := m.unscale(shapes, inv, float64((i+k)%2))
					c.out[at[0]].values[at[1]] = floatValue(bad[(i+k)%len(bad)])
					m.finish(c)
					emit(c)
				}
			}
		}
	})
}

// suspects are gradient and element of the first, a middle and the last element of each gradient, and of elements around the
// ends of blocks.
func suspects(shapes [][]int) (places [][2]int) {
	for i, shape := range shapes {
		n, last := count(shape), -1
		for _, p := range []int{0, n / 2, 127, 128, 1023, 1024, 16_383, 16_384, n - 1} {
			if p > last && p < n {
				places = append(places, [2]int{i, p})
				last = p
			}
		}
	}
	return places
}

// unscale makes a case with finite gradients.
func (m *maker) unscale(shapes [][]int, inv, found float64) *testCase {
	c := m.newCase()
	c.call.I[0] = int64(len(shapes))
	c.inPlace = true
	tame, most := m.tame(m.d), largest(m.d)
	for _, shape := range shapes {
		t := newTensor(m.d, contiguous, shape...)
		t.fill(func() value {
			switch m.rng.IntN(20) {
			case 0:
				return floatValue(most)
			case 1:
				return floatValue(-most)
			case 2:
				return floatValue(0)
			}
			return tame()
		})
		c.out = append(c.out, t)
	}
	c.out = append(c.out, single(dtype.Float32, floatValue(found)))
	c.in = []*tensor{single(dtype.Float32, floatValue(inv))}
	return c
}

// finish computes what is wanted of the gradients that the case has now.
func (m *maker) finish(c *testCase) {
	n := len(c.out) - 1
	inv, found := c.in[0].values[0].f, c.out[n].values[0].f
	for _, t := range c.out[:n] {
		want := make([]result, len(t.values))
		for p, v := range t.values {
			want[p] = exact(v.f * inv)
			if math.IsInf(v.f, 0) || math.IsNaN(v.f) {
				found = 1
			}
		}
		c.want = append(c.want, want)
	}
	c.want = append(c.want, []result{exact(found)})
}

// single is a tensor without dimensions.
func single(d dtype.DType, v value) *tensor {
	t := newTensor(d, contiguous)
	t.values[0] = v
	return t
}

// scaleUpdates are the cases of AmpUpdateScale.
func (m *maker) scaleUpdates() iter.Seq[*testCase] {
	type update struct {
		scale   float64
		tracker int64
		found   float64
		growth  float64
		backoff float64
		every   int64 // growth interval
		after   float64
		then    int64
	}
	big := 0x1p127
	third := round(dtype.Float32, 1.0/3)
	cases := []update{
		{scale: 65536, found: 0, growth: 2, backoff: 0.5, every: 2000, after: 65536, then: 1},
		{scale: 65536, tracker: 1998, growth: 2, backoff: 0.5, every: 2000, after: 65536, then: 1999},
		{scale: 65536, tracker: 1999, growth: 2, backoff: 0.5, every: 2000, after: 131072, then: 0},
		{scale: 65536, tracker: 1999, found: 1, growth: 2, backoff: 0.5, every: 2000, after: 32768, then: 0},
		{scale: 65536, tracker: 7, found: 3, growth: 2, backoff: 0.25, every: 2000, after: 16384, then: 0},
		{scale: 8, growth: 2, backoff: 0.5, every: 1, after: 16, then: 0},
		{scale: big, growth: 2, backoff: 0.5, every: 1, after: big, then: 0},                             // would be infinite
		{scale: big, growth: math.Inf(1), backoff: 0.5, every: 1, after: big, then: 0},                   // likewise
		{scale: 0x1p-149, found: 1, growth: 2, backoff: 0.25, every: 1, after: 0, then: 0},               // there is no lower bound
		{scale: 3, growth: 1.1, backoff: 0.5, every: 1, after: round(dtype.Float32, 3*1.1), then: 0},     // 1.1 is not rounded before
		{scale: third, found: 1, backoff: 1.0 / 3, every: 1, after: round(dtype.Float32, third*(1.0/3))}, // nor is 1/3
		{scale: 4, tracker: 5, growth: 2, backoff: 0.5, every: 3, after: 4, then: 6},                     // the interval was passed before
	}
	return list(func(emit func(*testCase)) {
		for _, u := range cases {
			c := m.newCase()
			c.inPlace, c.bits = true, true
			c.call.F, c.call.I = floats8(u.growth, u.backoff), ints8(u.every)
			c.out = []*tensor{single(dtype.Float32, floatValue(u.scale)), single(dtype.Int32, intValue(u.tracker))}
			c.in = []*tensor{single(dtype.Float32, floatValue(u.found))}
			c.want = [][]result{{exact(u.after)}, {{value: intValue(u.then)}}}
			emit(c)
		}
	})
}
