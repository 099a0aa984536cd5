package kerneltest

import (
	"iter"
	"math"
)

// matMulSizes are M, N and K: what is smaller than any tile, tails of tiles, vectors, and what needs several blocks.
var matMulSizes = [][3]int{
	{1, 1, 1}, {2, 3, 4}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {1, 100, 50}, {100, 1, 50}, {1, 1, 300}, {5, 7, 1}, {6, 16, 8}, {7, 17, 9}, {12, 32, 33},
	{33, 10, 64}, {31, 65, 70}, {64, 64, 64}, {100, 90, 80}, {3, 300, 40}, {130, 20, 600}, {1, 700, 530}, {97, 193, 31},
	{2, 3, 2100}, {1, 3, 4200}, {40, 1, 2500}, // long sums
}

// matMuls are the cases of MatMul.
func (m *maker) matMuls() iter.Seq[*testCase] {
	plain := []layout{contiguous, transposed, gapped, backwards}
	return list(func(emit func(*testCase)) {
		for n, s := range matMulSizes {
			for k, out := range plain {
				a, b := layout((n+k)%int(layouts)), layout((n*3+k*5)%int(layouts))
				emit(m.matMul(s, nil, [4]layout{out, a, b}, 1, 0, 0))
				emit(m.matMul(s, nil, [4]layout{out, plain[(k+n)%4], plain[k], outer}, 0.5, -2, 0))
			}
			emit(m.matMul(s, nil, [4]layout{contiguous, contiguous, transposed, outer}, 1, 1, 0))
			emit(m.matMul(s, nil, [4]layout{contiguous, contiguous, contiguous, contiguous}, 2, 0.5, 3))
			emit(m.matMul(s, nil, [4]layout{transposed, transposed, contiguous, transposed}, 1, 1, 3))
		}
		for _, batch := range [][]int{{0}, {1}, {3}, {2, 3}, {5, 1, 2}} {
			for n, s := range [][3]int{{4, 5, 6}, {1, 30, 20}, {17, 10, 33}, {40, 40, 40}, {2, 2, 0}, {1, 32, 24}, {64, 1, 16}} {
				emit(m.matMul(s, batch, [4]layout{contiguous, contiguous, contiguous, contiguous}, 2, 0, 0))
				emit(m.matMul(s, batch, [4]layout{contiguous, contiguous, contiguous, contiguous}, 1, 0.5, 3))
				for l := contiguous; l < layouts; l++ {
					emit(m.matMul(s, batch, [4]layout{plain[n%4], l, plain[(n+1)%4], constant}, 1, 1, 0))
					emit(m.matMul(s, batch, [4]layout{plain[(n+2)%4], plain[n%4], l, inner}, -1, 0, 0))
				}
			}
		}
		m.alignedMatMuls(emit)
	})
}

// alignedSizes are M, N and K for operands whose rows begin at multiples of 16 bytes, in any type.
var alignedSizes = [][3]int{
	{136, 40, 104}, {16, 24, 72}, {128, 128, 64}, {24, 136, 16}, stripSize, {200, 8, 32}, {64, 264, 128}, {264, 16, 200},
}

// stripSize is one with 64 results along a side, which kernels may take for tensor cores in strips.
var stripSize = [3]int{264, 64, 128}

// alignedMatMuls emits what kernels for tensor cores take, in all four directions of a and b. The first size always runs, and stripSize.
func (m *maker) alignedMatMuls(emit func(*testCase)) {
	for i, s := range alignedSizes {
		for transposes := range 4 {
			l := [4]layout{contiguous, layout(transposes & 1), layout(transposes >> 1), outer}
			if i > 0 && s != stripSize && !m.due() {
				continue
			}
			if c := m.matMulAlways(s, nil, l, 1, float64(i%2), 0); c != nil {
				c.aligned = true
				emit(c)
			}
		}
	}
}

// matMul makes a case, if it is due: sizes M, N, K, batch dimensions, layouts of dst, a, b and c.
func (m *maker) matMul(s [3]int, batch []int, l [4]layout, alpha, beta float64, alias int) *testCase {
	if !m.due() {
		return nil
	}
	return m.matMulAlways(s, batch, l, alpha, beta, alias)
}

func (m *maker) matMulAlways(s [3]int, batch []int, l [4]layout, alpha, beta float64, alias int) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.call.F = floats8(alpha, beta)
	c.alias = alias
	shape := func(rows, columns int) []int { return append(append([]int(nil), batch...), rows, columns) }
	dst := newTensor(m.d, l[0], shape(s[0], s[1])...)
	a, b := newTensor(m.d, l[1], shape(s[0], s[2])...), newTensor(m.d, l[2], shape(s[2], s[1])...)
	a.fill(m.tame(m.d))
	b.fill(m.tame(m.d))
	c.out, c.in = []*tensor{dst}, []*tensor{a, b}
	if beta != 0 {
		bias := newTensor(m.d, l[3], shape(s[0], s[1])...)
		bias.fill(m.tame(m.d))
		c.in = append(c.in, bias)
	}
	c.ulps = 2
	c.want = [][]result{make([]result, len(dst.values))}
	each(dst.shape, func(p int, index []int) {
		c.want[0][p] = product(c, index, s[2], alpha, beta)
	})
	return c
}

// product is one element of a matrix product; its scale allows a rounding at each addition.
func product(c *testCase, index []int, k int, alpha, beta float64) result {
	last := len(index) - 1
	a, b := c.in[0], c.in[1]
	at := append([]int(nil), index...)
	at[last] = 0
	x := a.position(at...)
	at[last-1], at[last] = 0, index[last]
	y := b.position(at...)
	var sum, size float64
	for i := range k {
		t := a.values[x+i].f * b.values[y+i*b.shape[last]].f
		sum += t
		size += math.Abs(t)
	}
	r := result{value: floatValue(alpha * sum), scale: math.Abs(alpha) * size * (1 + float64(k)/2)}
	if beta != 0 {
		t := beta * c.in[2].at(index...).f
		r.f += t
		r.scale += math.Abs(t)
	}
	return r
}
