package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// matMulActs are the cases of MatMulAct: each activation, with and without an addend, which may be a bias, and with and without
// pre.
func (m *maker) matMulActs() iter.Seq[*testCase] {
	sizes := [][3]int{{1, 1, 1}, {0, 3, 4}, {3, 4, 0}, {5, 7, 3}, {1, 33, 40}, {33, 1, 40}, {16, 24, 32}, {64, 65, 70}, {97, 130, 31}, {2, 3, 2100}}
	layouts := [][5]layout{ // dst, a, b, c, pre
		{contiguous, contiguous, transposed, outer, contiguous},
		{contiguous, contiguous, contiguous, contiguous, contiguous},
		{transposed, transposed, contiguous, outer, transposed},
		{contiguous, gapped, backwards, inner, gapped},
		{gapped, contiguous, transposed, constant, contiguous},
	}
	return list(func(emit func(*testCase)) {
		for _, s := range sizes {
			for n, l := range layouts {
				for act := int64(op.ActNone); act <= op.ActGELUTanh; act++ {
					emit(m.matMulAct(s, l, act, 1, 1, n%2 == 0))
					emit(m.matMulAct(s, l, act, 0.5, float64(n%3)-1, n%2 != 0))
				}
			}
		}
	})
}

// matMulAct makes a case.
func (m *maker) matMulAct(s [3]int, l [5]layout, act int64, alpha, beta float64, pre bool) *testCase {
	c := m.matMul(s, nil, [4]layout{l[0], l[1], l[2], l[3]}, alpha, beta, 0)
	if c == nil {
		return nil
	}
	c.call.I[0] = act
	product := c.want[0]
	c.want = [][]result{make([]result, len(product))}
	for i, r := range product {
		c.want[0][i] = m.activated(act, r)
	}
	if pre {
		c.out = append(c.out, newTensor(m.d, l[4], s[0], s[1]))
		c.want = append(c.want, product)
	}
	return c
}

// activated is an element after the activation. What was wrong with it before, the rounding to its type included, grows by the
// steepest slope of the activations, which is below 1.13, and the activation adds what it adds when it stands alone.
func (m *maker) activated(act int64, r result) result {
	x := r.f
	y := x
	switch act {
	case op.ActReLU:
		y = max(x, 0)
	case op.ActGELU:
		y = x * 0.5 * math.Erfc(-x/math.Sqrt2)
	case op.ActGELUTanh:
		y = x * sigmoid(2*geluArgument(x))
	}
	bits := 23 - formats[m.d].mantissa // that rounding drops from a float32
	scale := max(r.scale, math.Abs(x))
	if bits > 0 {
		scale += math.Abs(x) * power(bits)
	}
	return result{value: floatValue(y), scale: 2*scale + 4*math.Abs(x)}
}
