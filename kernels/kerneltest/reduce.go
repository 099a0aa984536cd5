package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// reduceShapes are shapes and the dimensions reduced.
var reduceShapes = []struct {
	shape []int
	dims  []int
}{
	{[]int{}, nil}, {[]int{1}, []int{0}}, {[]int{7}, []int{0}}, {[]int{1000}, []int{0}}, {[]int{100_001}, []int{0}},
	{[]int{3, 5}, []int{0}}, {[]int{3, 5}, []int{1}}, {[]int{3, 5}, []int{0, 1}}, {[]int{3, 5}, nil},
	{[]int{70, 300}, []int{0}}, {[]int{70, 300}, []int{1}}, {[]int{3000, 10}, []int{0}}, {[]int{3000, 3}, []int{0}}, {[]int{300, 200}, []int{0}},
	{[]int{2, 40_000}, []int{1}}, {[]int{20, 1, 30}, []int{1}}, {[]int{4, 9, 30}, []int{0, 2}}, {[]int{4, 9, 30}, []int{1}}, {[]int{300, 9, 4}, []int{2}},
	{[]int{2, 3, 4, 5}, []int{1, 3}}, {[]int{2, 3, 4, 5}, []int{0, 2}}, {[]int{2, 3, 2, 3, 2}, []int{0, 2, 4}}, {[]int{2, 3, 2, 3, 2}, []int{1, 2, 3}},
	{[]int{3, 700, 40}, []int{0, 2}}, {[]int{2000, 16}, []int{0}},
}

// emptyShapes are reductions over nothing, and of nothing.
var emptyShapes = []struct {
	shape []int
	dims  []int
}{
	{[]int{0}, []int{0}}, {[]int{4, 0}, []int{1}}, {[]int{0, 12}, []int{0}}, {[]int{4, 0}, []int{0}},
}

// reductions are the cases of all reductions but ArgMax and ArgMin.
func (m *maker) reductions() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, s := range reduceShapes {
			for in := contiguous; in < layouts; in++ {
				for _, out := range []layout{contiguous, transposed, gapped} {
					if count(s.shape) > 20_000 && (out != contiguous || in != contiguous && in != gapped) {
						continue
					}
					emit(m.reduction(s.shape, s.dims, in, out, m.reduceNumbers(count(s.shape))))
				}
			}
			if m.id == op.Prod && m.d.IsFloat() {
				continue // the product of wild numbers depends on their order
			}
			emit(m.reduction(s.shape, s.dims, contiguous, contiguous, m.wild(m.d)))
			emit(m.reduction(s.shape, s.dims, transposed, contiguous, m.wild(m.d)))
		}
		if m.id != op.Max && m.id != op.Min && m.id != op.NormMin {
			for _, s := range emptyShapes {
				emit(m.reduction(s.shape, s.dims, contiguous, contiguous, m.tame(m.d)))
			}
		}
	})
}

// reduceNumbers gives numbers for which results neither overflow nor vanish.
func (m *maker) reduceNumbers(n int) func() value {
	switch {
	case m.id == op.Prod && m.d.IsFloat():
		width := min(0.5, 5/float64(n))
		return m.within(m.d, 1-width, 1+width)
	case m.id == op.Prod: // which never becomes 0
		return func() value { return intValue([...]int64{1, 3, 5, 7}[m.rng.IntN(4)]) }
	case m.id == op.Max && m.d == dtype.Uint8: // of which few are the largest
		return func() value { return intValue(int64(m.rng.IntN(200))) }
	case m.id == op.Any || m.id == op.All: // mostly neutral
		return func() value { return intValue(b2i((m.rng.IntN(max(20, n)) == 0) == (m.id == op.Any))) }
	}
	return m.tame(m.d)
}

func (m *maker) reduction(shape, dims []int, in, out layout, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	reduced := append([]int(nil), shape...)
	for _, d := range dims {
		reduced[d] = 1
	}
	a := newTensor(m.d, in, shape...)
	a.fill(next)
	d := m.d
	switch m.id {
	case op.Sum, op.Prod:
		d = op.SumType(m.d)
	case op.CountNonzero:
		d = dtype.Int64
	}
	dst := newTensor(d, out, reduced...)
	c.in, c.out = []*tensor{a}, []*tensor{dst}
	sums := make([]accumulator, len(dst.values))
	at := make([]int, len(shape))
	each(shape, func(p int, index []int) {
		for k, i := range index {
			at[k] = min(i, dst.shape[k]-1)
		}
		sums[dst.position(at...)].add(m, a.values[p])
	})
	c.ulps = 2
	c.want = [][]result{make([]result, len(sums))}
	for i := range sums {
		c.want[0][i] = sums[i].result(m)
	}
	return c
}

// argReductions are the cases of ArgMax and ArgMin.
func (m *maker) argReductions() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, s := range reduceShapes {
			if len(s.dims) != 1 {
				continue
			}
			for in := contiguous; in < layouts; in++ {
				for _, out := range []layout{contiguous, gapped} {
					if count(s.shape) > 20_000 && in != contiguous && in != outer {
						continue
					}
					emit(m.argReduction(s.shape, s.dims[0], in, out, m.tame(m.d)))
				}
			}
			emit(m.argReduction(s.shape, s.dims[0], contiguous, contiguous, m.wild(m.d)))
			emit(m.argReduction(s.shape, s.dims[0], transposed, contiguous, m.wild(m.d)))
		}
	})
}

func (m *maker) argReduction(shape []int, dim int, in, out layout, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.call.I[0] = int64(dim)
	a := newTensor(m.d, in, shape...)
	a.fill(next)
	reduced := append([]int(nil), shape...)
	reduced[dim] = 1
	dst := newTensor(dtype.Int64, out, reduced...)
	c.in, c.out, c.want = []*tensor{a}, []*tensor{dst}, [][]result{make([]result, count(reduced))}
	each(dst.shape, func(p int, index []int) {
		at := append([]int(nil), index...)
		var best value
		for i := range shape[dim] {
			at[dim] = i
			v := a.at(at...)
			if i == 0 || m.beats(v, best) {
				best = v
				c.want[0][p] = result{value: intValue(int64(i))}
			}
		}
	})
	return c
}

// beats reports whether v displaces best, which stands before it.
func (m *maker) beats(v, best value) bool {
	if math.IsNaN(best.f) || math.IsNaN(v.f) {
		return !math.IsNaN(best.f)
	}
	if m.id == op.ArgMin {
		v, best = best, v
	}
	return v.f > best.f || v.i > best.i
}
