package kerneltest

import (
	"iter"
	"math"
	"slices"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// sortShapes are shapes whose rows are sorted, and the lengths that TopK keeps.
var sortShapes = []struct {
	shape []int
	keep  []int
}{
	{[]int{1}, []int{0, 1}}, {[]int{0}, []int{0}}, {[]int{3, 0}, []int{0}}, {[]int{0, 3}, []int{2}}, {[]int{7}, []int{1, 5, 7}},
	{[]int{4, 10}, []int{3}}, {[]int{33, 33}, []int{1, 33}}, {[]int{2, 3, 17}, []int{4}}, {[]int{3, 600}, []int{2, 599}}, {[]int{2, 4097}, []int{5, 3000}},
	{[]int{2, 9001}, []int{1, 100, 9001}}, {[]int{140_000}, []int{7, 70_000}},
}

// sorts are the cases of Sort and TopK.
func (m *maker) sorts() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		if m.id == op.TopK { // more than a warp's worth of several whole tiles, which mix well, always runs
			emit(m.sortAlways([]int{8192}, 100, 0, scanPlans[0], m.tame(m.d)))
		}
		for _, s := range sortShapes {
			for n, plan := range scanPlans {
				large := count(s.shape) > 2000
				if large && n > 1 || n > 0 && count(s.shape) > 100_000 {
					continue
				}
				keep := s.keep[(n+int(m.d))%len(s.keep)]
				if m.id == op.Sort {
					keep = s.shape[len(s.shape)-1]
				}
				emit(m.sort(s.shape, keep, 0, plan, m.wild(m.d)))
				emit(m.sort(s.shape, keep, 1, plan, m.tame(m.d)))
				if !large {
					emit(m.sort(s.shape, keep, 1, plan, m.wild(m.d)))
					emit(m.sort(s.shape, keep, 0, plan, m.tame(m.d)))
				}
			}
		}
	})
}

func (m *maker) sort(shape []int, keep int, descending int64, plan [4]layout, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	return m.sortAlways(shape, keep, descending, plan, next)
}

func (m *maker) sortAlways(shape []int, keep int, descending int64, plan [4]layout, next func() value) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.bits = true
	c.call.I[0] = descending
	a := newTensor(m.d, plan[1], shape...)
	a.fill(next)
	kept := slices.Clone(shape)
	columns := shape[len(shape)-1]
	kept[len(kept)-1] = keep
	c.in = []*tensor{a}
	c.out = []*tensor{newTensor(m.d, plan[0], kept...), newTensor(dtype.Int64, plan[0], kept...)}
	c.want = [][]result{nil, nil}
	for first := 0; first < len(a.values); first += columns {
		row := a.values[first : first+columns]
		order := make([]int, columns)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			if descending != 0 {
				i, j = j, i
			}
			return rank(row[i], row[j])
		})
		for _, i := range order[:keep] {
			c.want[0] = append(c.want[0], result{value: row[i]})
			c.want[1] = append(c.want[1], result{value: intValue(int64(i))})
		}
	}
	return c
}

// rank compares elements, with NaN the greatest.
func rank(a, b value) int {
	switch an, bn := math.IsNaN(a.f), math.IsNaN(b.f); {
	case an || bn:
		return int(b2i(an) - b2i(bn))
	case a.f < b.f || a.i < b.i:
		return -1
	case a.f > b.f || a.i > b.i:
		return 1
	}
	return 0
}

// triangles are the cases of Tril and Triu.
func (m *maker) triangles() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, shape := range [][]int{{1, 1}, {0, 3}, {3, 0}, {4, 4}, {5, 9}, {9, 5}, {2, 3, 4}, {2, 0, 3, 3}, {300, 130}, {2, 3, 70, 33}} {
			for _, plan := range scanPlans {
				for i, diagonal := range []int64{0, -2, 1, 40, -40, math.MaxInt64, math.MinInt64} {
					if i > 1 && count(shape) > 2000 {
						break
					}
					emit(m.triangle(shape, diagonal, plan))
				}
			}
		}
	})
}

func (m *maker) triangle(shape []int, diagonal int64, plan [4]layout) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.bits = true
	c.call.I[0] = diagonal
	a, dst := newTensor(m.d, plan[1], shape...), newTensor(m.d, plan[0], shape...)
	a.fill(m.wild(m.d))
	want := make([]result, count(shape))
	each(shape, func(p int, index []int) {
		i, j := index[len(index)-2], index[len(index)-1]
		if (m.id == op.Tril && int64(j-i) <= diagonal) || (m.id == op.Triu && int64(j-i) >= diagonal) {
			want[p] = result{value: a.values[p]}
		}
	})
	c.in, c.out, c.want = []*tensor{a}, []*tensor{dst}, [][]result{want}
	return c
}
