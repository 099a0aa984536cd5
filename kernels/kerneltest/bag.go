package kerneltest

import (
	"iter"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// bagCases are rows and width of the table, the number of indices, and the offsets.
var bagCases = []struct {
	rows, width, n int
	offsets        []int64
}{
	{1, 1, 1, []int64{0}}, {5, 3, 7, []int64{0, 2, 2, 5}}, {5, 3, 7, []int64{1, 4}}, {4, 8, 0, []int64{0, 0}}, {3, 4, 6, nil},
	{7, 33, 90, []int64{0, 1, 30, 30, 89, 90}}, {2, 1100, 20, []int64{0, 5, 6, 17}}, {300, 2, 9000, nil},
}

// bags are the cases of EmbeddingBag and its gradient.
func (m *maker) bags() iter.Seq[*testCase] {
	modes := []int64{op.BagSum, op.BagMean, op.BagMax}
	if m.id == op.EmbeddingBagGrad {
		modes = modes[:2]
	}
	return list(func(emit func(*testCase)) {
		for _, s := range bagCases {
			offsets := s.offsets
			for k := int64(0); offsets == nil && s.n > 100 && k < 400; k++ {
				s.offsets = append(s.offsets, min(k*23, int64(s.n)))
			}
			for _, mode := range modes {
				for _, padding := range []int64{-1, 1} {
					if m.due() {
						emit(m.bag(s.rows, s.width, s.n, s.offsets, mode, padding, func() value { return intValue(int64(m.rng.IntN(s.rows))) }))
					}
				}
			}
		}
		for _, bad := range []struct {
			index   int64
			offsets []int64
		}{{5, []int64{0, 2}}, {-1, []int64{0, 2}}, {0, []int64{0, 5}}, {0, []int64{-1, 2}}, {0, []int64{2, 1}}} {
			if m.due() {
				c := m.bag(5, 3, 4, bad.offsets, op.BagSum, -1, from(intValue(1), intValue(bad.index)))
				c.fails = op.ErrIndex
				emit(c)
			}
		}
	})
}

func (m *maker) bag(rows, width, n int, offsets []int64, mode, padding int64, next func() value) *testCase {
	c := m.newCase()
	c.ulps = 2
	c.call.I = ints8(mode, padding)
	b, at := newTensor(dtype.Int64, contiguous, n), newTensor(dtype.Int64, contiguous, len(offsets))
	b.fill(next)
	for k, o := range offsets {
		at.values[k] = intValue(o)
	}
	bags := m.bagsOf(b, offsets, int64(rows), padding)
	if m.id == op.EmbeddingBagGrad {
		m.bagGrad(c, b, at, newTensor(m.d, contiguous, len(offsets), width), newTensor(m.d, contiguous, rows, width), bags)
		return c
	}
	a, dst := newTensor(m.d, contiguous, rows, width), newTensor(m.d, contiguous, len(offsets), width)
	a.fill(m.tame(m.d))
	c.in, c.out, c.want = []*tensor{a, b, at}, []*tensor{dst}, [][]result{make([]result, len(dst.values))}
	extra := newTensor(dtype.Int64, contiguous, len(offsets))
	if mode == op.BagMax {
		extra = newTensor(dtype.Int64, contiguous, len(offsets), width)
	}
	more := make([]result, len(extra.values))
	each(dst.shape, func(p int, index []int) {
		c.want[0][p] = m.bagElement(a, bags[index[0]], index[1], mode, &more[min(p, len(more)-1)])
	})
	if mode == op.BagMean {
		for k := range more {
			more[k] = result{value: intValue(int64(len(bags[k])))}
		}
	}
	if mode != op.BagSum {
		c.out, c.want = append(c.out, extra), append(c.want, more)
	}
	return c
}

// bagsOf are the rows of each bag, without those that count for nothing.
func (m *maker) bagsOf(b *tensor, offsets []int64, rows, padding int64) [][]int64 {
	bags := make([][]int64, len(offsets))
	for k, from := range offsets {
		to := int64(len(b.values))
		if k+1 < len(offsets) {
			to = offsets[k+1]
		}
		for i := max(from, 0); i < min(to, int64(len(b.values))); i++ {
			if row := b.values[i].i; row != padding && row >= 0 && row < rows {
				bags[k] = append(bags[k], row)
			}
		}
	}
	return bags
}

// bagElement is what becomes of a bag in one column; place is set to the row of the greatest.
func (m *maker) bagElement(a *tensor, rows []int64, column int, mode int64, place *result) result {
	sum, size := 0.0, 0.0
	best, row := 0.0, int64(-1)
	for _, r := range rows {
		v := a.at(int(r), column).f
		sum += v
		size += max(sum, -sum)
		if row < 0 || v > best {
			best, row = v, r
		}
	}
	switch mode {
	case op.BagMax:
		place.i = row
		return exact(best)
	case op.BagMean:
		count := float64(max(len(rows), 1))
		return scaled(sum/count, size/count)
	}
	return scaled(sum, size)
}

// bagGrad makes a case of the gradient, of bags a to the table dst.
func (m *maker) bagGrad(c *testCase, b, offsets, a, dst *tensor, bags [][]int64) {
	c.inPlace = true
	a.fill(m.tame(m.d))
	dst.fill(m.tame(m.d))
	c.in, c.out, c.want = []*tensor{a, b, offsets}, []*tensor{dst}, [][]result{make([]result, len(dst.values))}
	for p, v := range dst.values {
		c.want[0][p] = scaled(v.f, v.f)
	}
	counts := newTensor(dtype.Int64, contiguous, len(bags))
	for k, rows := range bags {
		counts.values[k] = intValue(int64(len(rows)))
		for _, r := range rows {
			for column := range a.shape[1] {
				g := a.at(k, column).f
				if c.call.I[0] == op.BagMean {
					g /= float64(len(rows))
				}
				w := &c.want[0][dst.position(int(r), column)]
				w.f += g
				w.scale += max(w.f, -w.f)
			}
		}
	}
	if c.call.I[0] == op.BagMean {
		c.in = append(c.in, counts)
	}
}
