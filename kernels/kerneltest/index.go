package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// nlls are the cases of NLL and NLLGrad.
func (m *maker) nlls() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, s := range [][2]int{{0, 3}, {1, 1}, {4, 10}, {33, 7}, {1500, 50}} {
			for _, plan := range plans {
				emit(m.nll(s[0], s[1], plan, m.classes(s[1], -100)))
			}
		}
		for _, bad := range []int64{-1, 10, math.MaxInt64, math.MinInt64} {
			c := m.nll(6, 10, plans[0], from(intValue(1), intValue(-100), intValue(bad)))
			if c != nil {
				c.fails = op.ErrIndex
			}
			emit(c)
		}
	})
}

// classes gives class numbers, sometimes the ignore index.
func (m *maker) classes(n int, ignore int64) func() value {
	return func() value {
		if m.rng.IntN(5) == 0 {
			return intValue(ignore)
		}
		return intValue(int64(m.rng.IntN(n)))
	}
}

func (m *maker) nll(rows, classes int, plan [4]layout, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.bits = true
	c.call.I = ints8(-100)
	b := newTensor(dtype.Int64, plan[2], rows)
	b.fill(next)
	in, out := []int{rows, classes}, []int{rows}
	if m.id == op.NLLGrad {
		in, out = out, in
	}
	a, dst := newTensor(m.d, plan[1], in...), newTensor(m.d, plan[0], out...)
	a.fill(m.tame(m.d))
	c.in, c.out = []*tensor{a, b}, []*tensor{dst}
	want := make([]result, count(out))
	for n := range rows {
		class := b.at(n).i
		if class < 0 || class >= int64(classes) {
			continue
		}
		if m.id == op.NLL {
			want[n] = exact(-a.at(n, int(class)).f)
		} else {
			want[dst.position(n, int(class))] = exact(-a.at(n).f)
		}
	}
	c.want = [][]result{want}
	return c
}

// indexCases are shapes, an indexed dimension, and a number of indices.
var indexCases = []struct {
	shape []int
	dim   int
	n     int
}{
	{[]int{5}, 0, 7}, {[]int{1}, 0, 3}, {[]int{4, 3}, 0, 9}, {[]int{4, 3}, 1, 5}, {[]int{4, 3}, 0, 0}, {[]int{4, 0}, 0, 2}, {[]int{0, 4}, 1, 3},
	{[]int{3, 6, 5}, 1, 8}, {[]int{3, 6, 5}, 2, 8}, {[]int{100, 64}, 0, 700}, {[]int{9, 2000}, 0, 40}, {[]int{2, 3, 4, 5}, 2, 6}, {[]int{1000, 3}, 0, 20_000},
}

// selections are the cases of IndexSelect.
func (m *maker) selections() iter.Seq[*testCase] {
	return m.indexings(func(shape []int, dim, n int, plan [4]layout, next func() value) *testCase {
		if !m.due() {
			return nil
		}
		c := m.newCase()
		c.bits = true
		c.call.I[0] = int64(dim)
		picked := append([]int(nil), shape...)
		picked[dim] = n
		a, b, dst := newTensor(m.d, plan[1], shape...), newTensor(dtype.Int64, plan[2], n), newTensor(m.d, plan[0], picked...)
		a.fill(m.wild(m.d))
		b.fill(next)
		c.in, c.out, c.want = []*tensor{a, b}, []*tensor{dst}, [][]result{make([]result, count(picked))}
		each(picked, func(p int, index []int) {
			at := append([]int(nil), index...)
			at[dim] = int(b.at(index[dim]).i)
			if at[dim] >= 0 && at[dim] < shape[dim] {
				c.want[0][p] = result{value: a.at(at...)}
			}
		})
		return c
	})
}

// additions are the cases of IndexAdd. The last one always runs: it has more indices than any block of a device sums at once.
func (m *maker) additions() iter.Seq[*testCase] {
	usual := m.indexings(func(shape []int, dim, n int, plan [4]layout, next func() value) *testCase {
		if !m.due() {
			return nil
		}
		return m.addition(shape, dim, n, plan, next)
	})
	return list(func(emit func(*testCase)) {
		usual(func(c *testCase) bool {
			emit(c)
			return true
		})
		const rows, n = 50, 70_000
		emit(m.addition([]int{rows}, 0, n, plans[0], func() value { return intValue(int64(m.rng.IntN(rows))) }))
	})
}

func (m *maker) addition(shape []int, dim, n int, plan [4]layout, next func() value) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.inPlace = true
	c.ulps = 2
	c.call.I[0] = int64(dim)
	picked := append([]int(nil), shape...)
	picked[dim] = n
	a, b, dst := newTensor(m.d, plan[1], picked...), newTensor(dtype.Int64, plan[2], n), newTensor(m.d, plan[0], shape...)
	a.fill(m.tame(m.d))
	b.fill(next)
	dst.fill(m.tame(m.d))
	c.in, c.out, c.want = []*tensor{a, b}, []*tensor{dst}, [][]result{make([]result, count(shape))}
	for p, v := range dst.values {
		c.want[0][p] = scaled(v.f, v.f)
	}
	each(picked, func(p int, index []int) {
		at := append([]int(nil), index...)
		at[dim] = int(b.at(index[dim]).i)
		if at[dim] >= 0 && at[dim] < shape[dim] {
			w := &c.want[0][dst.position(at...)]
			w.f += a.values[p].f
			w.scale += math.Abs(w.f) // a rounding at each addition
		}
	})
	return c
}

func (m *maker) indexings(make func(shape []int, dim, n int, plan [4]layout, next func() value) *testCase) iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, s := range indexCases {
			size := s.shape[s.dim]
			for _, plan := range plans {
				emit(make(s.shape, s.dim, s.n, plan, func() value { return intValue(int64(m.rng.IntN(size))) }))
			}
		}
		for _, bad := range []int64{-1, 6, math.MaxInt64, math.MinInt64} {
			c := make([]int{3, 6, 5}, 1, 4, plans[0], from(intValue(0), intValue(5), intValue(bad)))
			if c != nil {
				c.fails = op.ErrIndex
			}
			emit(c)
		}
	})
}
