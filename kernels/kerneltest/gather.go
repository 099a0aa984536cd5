package kerneltest

import (
	"iter"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// gatherCases are the shape that is indexed, the shape of the indices, and the dimension.
var gatherCases = []struct {
	indexed, picked []int
	dim             int
}{
	{[]int{5}, []int{9}, 0}, {[]int{1}, []int{3}, 0}, {[]int{4, 3}, []int{9, 3}, 0}, {[]int{4, 3}, []int{4, 7}, 1}, {[]int{4, 3}, []int{2, 1}, 1},
	{[]int{4, 3}, []int{0, 3}, 0}, {[]int{4, 0}, []int{2, 0}, 0}, {[]int{3, 6, 5}, []int{3, 8, 4}, 1}, {[]int{3, 6, 5}, []int{2, 6, 40}, 2},
	{[]int{7, 30}, []int{50, 30}, 0}, {[]int{300}, []int{9000}, 0}, {[]int{2000, 40}, []int{2000, 1}, 1}, {[]int{70, 60}, []int{70, 90}, 1},
}

// gathers are the cases of Gather, Scatter and ScatterAdd.
func (m *maker) gathers() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, s := range gatherCases {
			size := s.indexed[s.dim]
			for _, plan := range plans {
				if m.due() {
					emit(m.gather(s.indexed, s.picked, s.dim, plan, func() value { return intValue(int64(m.rng.IntN(size))) }))
				}
			}
		}
		for _, bad := range []int64{-1, 6, math.MaxInt64, math.MinInt64} {
			if m.due() {
				c := m.gather([]int{3, 6, 5}, []int{3, 4, 5}, 1, plans[0], from(intValue(0), intValue(5), intValue(bad)))
				c.fails = op.ErrIndex
				emit(c)
			}
		}
	})
}

func (m *maker) gather(indexed, picked []int, dim int, plan [4]layout, next func() value) *testCase {
	c := m.newCase()
	c.call.I[0] = int64(dim)
	c.bits, c.ulps = m.id != op.ScatterAdd, 2
	b := newTensor(dtype.Int64, plan[2], picked...)
	b.fill(next)
	place := func(index []int) ([]int, bool) {
		at := slices.Clone(index)
		at[dim] = int(b.at(index...).i)
		return at, at[dim] >= 0 && at[dim] < indexed[dim]
	}
	if m.id == op.Gather {
		a, dst := newTensor(m.d, plan[1], indexed...), newTensor(m.d, plan[0], picked...)
		a.fill(m.wild(m.d))
		c.in, c.out, c.want = []*tensor{a, b}, []*tensor{dst}, [][]result{make([]result, count(picked))}
		each(picked, func(p int, index []int) {
			if at, ok := place(index); ok {
				c.want[0][p] = result{value: a.at(at...)}
			}
		})
		return c
	}
	m.scatter(c, b, newTensor(m.d, plan[1], picked...), newTensor(m.d, contiguous, indexed...), place)
	return c
}

// scatter makes a case of Scatter or ScatterAdd of a to dst by b; place says where an index leads, and whether that is inside.
func (m *maker) scatter(c *testCase, b, a, dst *tensor, place func(index []int) ([]int, bool)) {
	c.inPlace = true
	a.fill(m.tame(m.d))
	dst.fill(m.tame(m.d))
	c.in, c.out, c.want = []*tensor{a, b}, []*tensor{dst}, [][]result{make([]result, len(dst.values))}
	for p, v := range dst.values {
		c.want[0][p] = result{value: v, scale: math.Abs(v.f)}
	}
	each(a.shape, func(p int, index []int) {
		at, ok := place(index)
		if !ok {
			return
		}
		w := &c.want[0][dst.position(at...)]
		if m.id == op.Scatter {
			w.value = a.values[p]
			return
		}
		w.f += a.values[p].f
		w.scale += math.Abs(w.f) // a rounding at each addition
	})
}
