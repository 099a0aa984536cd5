package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// scanShapes are the shapes of running sums and products; the rows are along the last dimension.
var scanShapes = [][]int{{1}, {5}, {0}, {3, 0}, {0, 3}, {1000}, {30_000}, {4, 10}, {64, 33}, {2, 3, 17}, {3, 1, 1030}, {70, 300}, {2, 3, 2, 9}}

// scanPlans are layouts of output and inputs; in the second, neighbouring rows are nearer than the elements of a row.
var scanPlans = [][4]layout{
	{contiguous, contiguous, contiguous, contiguous}, {transposed, transposed, transposed, transposed},
	{gapped, backwards, gapped, contiguous}, {backwards, outer, inner, gapped}, {contiguous, transposed, constant, inner},
}

// scans are the cases of CumSum and CumProd.
func (m *maker) scans() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		emit(m.scanAlways([]int{2, 1500}, scanPlans[0], m.scanLong(1500))) // more than a block reads at once always runs
		for _, shape := range scanShapes {
			for _, plan := range scanPlans {
				emit(m.scan(shape, plan, m.scanNumbers(shape[len(shape)-1])))
			}
			if m.id == op.CumSum {
				emit(m.scan(shape, scanPlans[0], m.wild(m.d)))
			}
		}
	})
}

// scanLong gives numbers whose products are not 0 soon: odd integers, or true 1100 times.
func (m *maker) scanLong(n int) func() value {
	if m.id != op.CumProd || m.d.IsFloat() {
		return m.scanNumbers(n)
	}
	k := int64(0)
	return func() value {
		k++
		if m.d == dtype.Bool {
			return intValue(b2i(k <= 1100))
		}
		return intValue(1 + 2*m.rng.Int64N(2))
	}
}

// scanNumbers gives numbers whose products stay near 1.
func (m *maker) scanNumbers(n int) func() value {
	if m.id == op.CumProd && m.d.IsFloat() {
		width := min(0.5, 5/float64(n+1))
		return m.within(m.d, 1-width, 1+width)
	}
	return m.tame(m.d)
}

func (m *maker) scan(shape []int, plan [4]layout, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	return m.scanAlways(shape, plan, next)
}

func (m *maker) scanAlways(shape []int, plan [4]layout, next func() value) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.ulps = 2
	a := newTensor(m.d, plan[1], shape...)
	a.fill(next)
	dst := newTensor(op.SumType(m.d), plan[0], shape...)
	want := make([]result, count(shape))
	columns := shape[len(shape)-1]
	for first := 0; first < len(want); first += columns {
		m.scanRow(want[first:first+columns], a.values[first:first+columns])
	}
	c.in, c.out, c.want = []*tensor{a}, []*tensor{dst}, [][]result{want}
	return c
}

// scanRow computes one row. The scale grows as in a sum where each addition may round.
func (m *maker) scanRow(want []result, a []value) {
	var sum compensated
	var whole int64
	product, size := 1.0, 0.0
	wholes := int64(1)
	for i, v := range a {
		growth := 2 + math.Sqrt(float64(i))
		if m.id == op.CumSum {
			sum.add(v.f)
			whole += v.i
			if !math.IsInf(v.f, 0) {
				size += math.Abs(v.f)
			}
			want[i] = result{value: value{f: sum.value(), i: whole}, scale: size * growth / 2}
			want[i].any = m.overflows(size)
			continue
		}
		product *= v.f
		wholes *= v.i
		want[i] = result{value: value{f: product, i: wholes}, scale: 2 * math.Abs(product) * growth}
	}
}

// scanGrads are the cases of CumProdGrad.
func (m *maker) scanGrads() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, shape := range scanShapes {
			for _, plan := range scanPlans {
				if columns := shape[len(shape)-1]; columns < 2000 {
					emit(m.scanGrad(shape, plan))
				}
			}
		}
	})
}

// scanGrad has factors near 1 and a few zeros.
func (m *maker) scanGrad(shape []int, plan [4]layout) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.ulps = 3
	columns := shape[len(shape)-1]
	width := min(0.5, 3/float64(columns+1))
	near := m.within(m.d, 1-width, 1+width)
	for range 3 {
		c.in = append(c.in, newTensor(m.d, plan[len(c.in)+1], shape...))
	}
	c.in[0].fill(m.tame(m.d))
	c.in[1].fill(func() value {
		if m.rng.IntN(10) == 0 {
			return floatValue(0)
		}
		return near()
	})
	c.in[2].fill(near)
	c.out = []*tensor{newTensor(m.d, plan[0], shape...)}
	want := make([]result, count(shape))
	for first := 0; first < len(want); first += columns {
		g, b, y := c.in[0].values[first:first+columns], c.in[1].values[first:], c.in[2].values[first:]
		scanGradRow(want[first:], g, b, y)
	}
	c.want = [][]result{want}
	return c
}

// scanGradRow computes one row from the gradient, the factors and their running products.
func scanGradRow(want []result, g, b, y []value) {
	for i := range g {
		before := 1.0
		if i > 0 {
			before = y[i-1].f
		}
		size, total, between := 0.0, 0.0, 1.0 // between is b[i+1] * ... * b[j]
		for j := i; j < len(g); j++ {
			if j > i {
				between *= b[j].f
			}
			total += before * g[j].f * between
			size += math.Abs(before * g[j].f * between)
		}
		want[i] = scaled(total, size*(1+math.Sqrt(float64(len(g)))))
	}
}
