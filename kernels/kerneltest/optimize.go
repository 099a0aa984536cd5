package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// stepShapes are the tensors of one step.
var stepShapes = [][][]int{{}, {{5}}, {{0}, {3}}, {{64, 33}, {33}, {}, {7, 1, 2}}, {{40_000}, {1}, {3000}}}

// steps are the cases of SGDStep and AdamStep.
func (m *maker) steps() iter.Seq[*testCase] {
	var params []scalars
	if m.id == op.SGDStep {
		for _, momentum := range []float64{0, 0.875} {
			for flags := range int64(8) {
				params = append(params, scalars{f: floats8(0.125, momentum, 0.25, 0), i: ints8(0, flags&1, flags>>1&1, flags>>2)})
			}
			params = append(params, scalars{f: floats8(0.125, momentum, 0, 0.5)})
		}
	} else {
		for flags := range int64(4) {
			for _, step := range []float64{1, 2, 1000} {
				params = append(params, scalars{f: floats8(0.0625, 0.875, 0.96875, 1.0/1024, 0.25, step), i: ints8(0, flags&1, flags>>1)})
			}
		}
		params = append(params, scalars{f: floats8(0.0625, 0.875, 0.96875, 1.0/1024, 0, 3)})
	}
	return list(func(emit func(*testCase)) {
		for _, s := range params {
			for _, shapes := range stepShapes {
				emit(m.step(s, shapes))
			}
		}
	})
}

func (m *maker) step(s scalars, shapes [][]int) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.call.F, c.call.I = s.f, s.i
	c.call.I[0] = int64(len(shapes))
	c.inPlace = true
	c.ulps = 4
	groups, update := 3, adam
	if m.id == op.SGDStep {
		groups, update = 1, sgd
		if s.f[1] != 0 {
			groups = 2
		}
	}
	numbers := []func() value{m.tame(m.d), m.tame(m.d), m.within(m.d, 0, 2)}
	for g := range groups {
		for _, shape := range shapes {
			t := newTensor(m.d, contiguous, shape...)
			t.fill(numbers[g])
			c.out = append(c.out, t)
			c.want = append(c.want, make([]result, count(shape)))
		}
	}
	for i, shape := range shapes {
		grad := newTensor(m.d, contiguous, shape...)
		grad.fill(m.tame(m.d))
		c.in = append(c.in, grad)
		for p, g := range grad.values {
			var x [3]float64
			for k := range groups {
				x[k] = c.out[k*len(shapes)+i].values[p].f
			}
			r := update(x, g.f, c.call.F, c.call.I)
			for k := range groups {
				c.want[k*len(shapes)+i][p] = r[k]
			}
		}
	}
	return c
}

// sgd is the update of SGDStep: x is parameter and momentum buffer.
func sgd(x [3]float64, g float64, f [8]float64, i [8]int64) [3]result {
	p, buf := x[0], x[1]
	size := math.Abs(g) + math.Abs(p) + math.Abs(buf)
	if i[2] != 0 {
		g = -g
	}
	g += f[2] * p
	if f[1] != 0 {
		if i[1] != 0 {
			buf = g
		} else {
			buf = f[1]*buf + (1-f[3])*g
		}
		if i[3] != 0 {
			g += f[1] * buf
		} else {
			g = buf
		}
	}
	return [3]result{scaled(p-f[0]*g, size), scaled(buf, size)}
}

// adam is the update of AdamStep: x is parameter, first and second moment.
func adam(x [3]float64, g float64, f [8]float64, i [8]int64) [3]result {
	p, m, v := x[0], x[1], x[2]
	size := math.Abs(g) + math.Abs(p) + math.Abs(m) + math.Abs(v)
	lr, beta1, beta2, eps, decay, step := f[0], f[1], f[2], f[3], f[4], f[5]
	if i[2] != 0 {
		g = -g
	}
	if i[1] != 0 {
		p *= 1 - lr*decay
	} else {
		g += decay * p
	}
	m = beta1*m + (1-beta1)*g
	v = beta2*v + (1-beta2)*g*g
	correction := math.Sqrt(1 - math.Pow(beta2, step))
	move := lr / (1 - math.Pow(beta1, step)) * m / (math.Sqrt(v)/correction + eps)
	// The quotient magnifies the rounding errors of its numerator.
	return [3]result{scaled(p-move, size, move*size/math.Abs(m)), scaled(m, size), scaled(v, size*size)}
}
