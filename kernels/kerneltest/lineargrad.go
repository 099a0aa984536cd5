package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// weightGrads are the cases of LinearWeightGrad: M, N and K as in its specification, with and without sums.
func (m *maker) weightGrads() iter.Seq[*testCase] {
	sizes := [][3]int{{1, 1, 1}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {4, 5, 7}, {33, 40, 1}, {40, 1, 33}, {1, 16, 24}, {32, 16, 24}, {70, 64, 65}, {530, 24, 40}, {300, 97, 130}}
	layouts := [][4]layout{ // dst, a, b, sums
		{contiguous, contiguous, contiguous, contiguous},
		{contiguous, transposed, contiguous, gapped},
		{transposed, contiguous, transposed, contiguous},
		{gapped, gapped, contiguous, contiguous},
		{contiguous, backwards, gapped, backwards},
		{backwards, outer, inner, contiguous},
	}
	return list(func(emit func(*testCase)) {
		for i, s := range sizes {
			for n, l := range layouts {
				emit(m.weightGrad(s, l, (i+n)%3 > 0, false))
			}
		}
		for i, s := range alignedSizes { // what tensor cores and libraries take
			for n, l := range layouts[:4] {
				emit(m.weightGrad([3]int{s[2], s[0], s[1]}, [4]layout{contiguous, l[1], l[2], contiguous}, (i+n)%2 > 0, true))
			}
		}
	})
}

func (m *maker) weightGrad(s [3]int, l [4]layout, sums, aligned bool) *testCase {
	if !m.due() || m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.aligned, c.ulps = aligned, 2
	computed := op.ComputeType(m.d)
	a, b := newTensor(m.d, l[1], s[0], s[1]), newTensor(m.d, l[2], s[0], s[2])
	a.fill(m.tame(m.d))
	b.fill(m.tame(m.d))
	c.in, c.out = []*tensor{a, b}, []*tensor{newTensor(computed, l[0], s[1], s[2])}
	c.want = [][]result{make([]result, s[1]*s[2])}
	each(c.out[0].shape, func(p int, index []int) { c.want[0][p] = weightElement(a, b, s[0], index) })
	if !sums {
		return c
	}
	c.out = append(c.out, newTensor(computed, l[3], s[1]))
	want := make([]result, s[1])
	for j := range want {
		want[j] = columnSum(m.d, a, s[0], j)
	}
	c.want = append(c.want, want)
	return c
}

// weightElement is one element of the weight's gradient.
func weightElement(a, b *tensor, m int, index []int) result {
	var sum, size float64
	for i := range m {
		t := a.at(i, index[0]).f * b.at(i, index[1]).f
		sum += t
		size += math.Abs(t)
	}
	return result{value: floatValue(sum), scale: size * (1 + float64(m)/2)}
}

// columnSum is one element of the bias's gradient, which may be rounded to a's type before it is what it shall be.
func columnSum(d dtype.DType, a *tensor, m, j int) result {
	var sum, size float64
	for i := range m {
		v := a.at(i, j).f
		sum += v
		size += math.Abs(v)
	}
	scale := size * (1 + float64(m)/2)
	if bits := 23 - formats[d].mantissa; bits > 0 { // that rounding drops from a float32
		scale += math.Abs(sum) * power(bits)
	}
	return result{value: floatValue(sum), scale: scale}
}
