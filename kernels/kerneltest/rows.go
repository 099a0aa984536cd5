package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// rowOps are the cases of Softmax, LogSoftmax and their gradients.
func (m *maker) rowOps() iter.Seq[*testCase] {
	rowShapes := [][]int{{1}, {5}, {0}, {3, 0}, {0, 3}, {1000}, {20_000}, {4, 10}, {64, 33}, {300, 128}, {2, 3, 17}, {3, 1, 1030}, {2, 3, 2, 9}}
	return list(func(emit func(*testCase)) {
		for _, shape := range rowShapes {
			for n, plan := range plans {
				emit(m.rowOp(shape, plan, 0, m.rowNumbers(n)))
			}
			for _, l := range inPlaceLayouts {
				emit(m.rowOp(shape, [4]layout{l, l, l}, 1, m.rowNumbers(0)))
			}
		}
	})
}

// rowNumbers gives small and large numbers in turn, for which exp must be relative to the largest, and rows with infinities.
func (m *maker) rowNumbers(n int) func() value {
	tame := m.tame(m.d)
	size := []float64{1, 1, 50, 1, 3000}[n%5]
	return func() value {
		v := tame().f * size
		if n%5 == 3 && m.rng.IntN(20) == 0 {
			v = math.Inf(-1)
		}
		if n == 8 && m.rng.IntN(200) == 0 {
			v = math.NaN()
		}
		return floatValue(round(m.d, v))
	}
}

func (m *maker) rowOp(shape []int, plan [4]layout, alias int, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.alias = alias
	c.ulps = 3
	a := newTensor(m.d, plan[1], shape...)
	c.in, c.out = []*tensor{a}, []*tensor{newTensor(m.d, plan[0], shape...)}
	a.fill(next)
	if m.id == op.SoftmaxGrad || m.id == op.LogSoftmaxGrad {
		b := newTensor(m.d, plan[2], shape...)
		lo, hi := 0.0, 0.1
		if m.id == op.LogSoftmaxGrad {
			lo, hi = -12, 0
		}
		a.fill(m.tame(m.d))
		b.fill(m.within(m.d, lo, hi))
		c.in = append(c.in, b)
	}
	c.want = [][]result{make([]result, count(shape))}
	columns := shape[len(shape)-1]
	for first := 0; first < count(shape); first += columns {
		m.row(c, first, columns)
	}
	return c
}

// row computes the wanted elements of one row, which is columns values from first.
func (m *maker) row(c *testCase, first, columns int) {
	a := c.in[0].values[first : first+columns]
	want := c.want[0][first : first+columns]
	var b []value
	if len(c.in) > 1 {
		b = c.in[1].values[first : first+columns]
	}
	var total compensated
	var size float64
	most := a[0].f
	for _, v := range a {
		most = max(most, v.f)
	}
	for i, v := range a {
		switch m.id {
		case op.Softmax, op.LogSoftmax:
			total.add(math.Exp(v.f - most))
		case op.SoftmaxGrad:
			total.add(v.f * b[i].f)
			size += math.Abs(v.f * b[i].f)
		case op.LogSoftmaxGrad:
			total.add(v.f)
			size += math.Abs(v.f)
		}
	}
	sum := total.value()
	growth := 1 + math.Log2(float64(columns+1)) + math.Sqrt(float64(columns))/8 // of the rounding errors of sums
	spread := size * growth
	for i, v := range a {
		switch m.id {
		case op.Softmax:
			y := math.Exp(v.f-most) / sum
			want[i] = scaled(y, y*(v.f-most), y*growth) // v - most may be rounded before the exponential
		case op.LogSoftmax:
			want[i] = scaled(v.f-most-math.Log(sum), v.f, most, math.Log(sum), growth)
		case op.SoftmaxGrad:
			want[i] = scaled(b[i].f*(v.f-sum), b[i].f*v.f, b[i].f*spread)
		case op.LogSoftmaxGrad:
			want[i] = scaled(v.f-math.Exp(b[i].f)*sum, v.f, math.Exp(b[i].f)*spread)
		}
	}
}
