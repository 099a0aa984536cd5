package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// stepShapes are the tensors of one step.
var stepShapes = [][][]int{{}, {{5}}, {{0}, {3}}, {{64, 33}, {33}, {}, {7, 1, 2}}, {{40_000}, {1}, {3000}}}

// steps are the cases of the optimizers.
func (m *maker) steps() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		all := stepScalars[m.id]()
		for _, s := range all {
			for _, shapes := range stepShapes {
				emit(m.step(s, shapes, decided{}))
			}
		}
		m.decidedSteps(all, emit)
	})
}

// stepScalars are the scalars with which each optimizer is tested.
var stepScalars = map[op.ID]func() []scalars{
	op.SGDStep: func() (all []scalars) {
		for _, momentum := range []float64{0, 0.875} {
			for flags := range int64(8) {
				all = append(all, scalars{f: floats8(0.125, momentum, 0.25, 0), i: ints8(0, flags&1, flags>>1&1, flags>>2)})
			}
			all = append(all, scalars{f: floats8(0.125, momentum, 0, 0.5)})
		}
		return all
	},
	op.AdamStep: func() (all []scalars) {
		for flags := range int64(8) {
			steps := []float64{1, 2, 1000}
			if flags >= 4 { // AMSGrad
				steps = []float64{2 + 998*float64(flags%2)}
			}
			for _, step := range steps {
				all = append(all, scalars{
					f: floats8(0.0625, 0.875, 0.96875, 1.0/1024, 0.25, step), i: ints8(0, flags&1, flags>>1&1, flags>>2)})
			}
		}
		return append(all, scalars{f: floats8(0.0625, 0.875, 0.96875, 1.0/1024, 0, 3)})
	},
	op.RMSPropStep: func() (all []scalars) {
		for _, momentum := range []float64{0, 0.875} {
			for flags := range int64(4) {
				all = append(all, scalars{f: floats8(0.125, 0.875, 1.0/1024, 0.25, momentum), i: ints8(0, flags&1, flags>>1)})
			}
			all = append(all, scalars{f: floats8(0.125, 0.75, 1.0/64, 0, momentum)})
		}
		return all
	},
	op.AdagradStep: func() (all []scalars) {
		for _, step := range []float64{1, 2, 1000} {
			all = append(all,
				scalars{f: floats8(0.125, 0.25, 1.0/1024, 0.25, step)}, scalars{f: floats8(0.125, 0, 1.0/64, 0, step), i: ints8(0, 1)})
		}
		return all
	},
	op.LionStep: func() (all []scalars) {
		for flags := range int64(2) {
			all = append(all, scalars{f: floats8(0.125, 0.875, 0.96875, 0.25), i: ints8(0, flags)},
				scalars{f: floats8(0.0625, 0.5, 0.5, 0), i: ints8(0, flags)})
		}
		return all
	},
}

// stepState is a parameter and what an optimizer keeps for it, in the order of the groups.
type stepState [4]float64

// updates are the optimizers' formulas.
var updates = map[op.ID]func(x stepState, g float64, f [8]float64, i [8]int64) [4]result{
	op.SGDStep: sgd, op.AdamStep: adam, op.RMSPropStep: rmsprop, op.AdagradStep: adagrad, op.LionStep: lion,
}

// stepNumbers are the starting values of the groups: averages of squares are large enough for what is subtracted from them.
func (m *maker) stepNumbers() []func() value {
	tame := m.tame(m.d)
	switch m.id {
	case op.RMSPropStep:
		small := m.within(m.d, 0, 0.5)
		return []func() value{tame, m.within(m.d, 2, 4), small, small}
	case op.AdagradStep:
		return []func() value{tame, m.within(m.d, 0.125, 4)}
	}
	return []func() value{tame, tame, m.within(m.d, 0, 2), m.within(m.d, 0, 3)}
}

func (m *maker) step(s scalars, shapes [][]int, on decided) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	c.call.F, c.call.I = s.f, s.i
	c.call.I[0], c.call.I[4] = int64(len(shapes)), on.flags
	c.inPlace, c.bits = true, on.skips()
	c.ulps = 4
	groups, update := op.StepGroups(&c.call), updates[m.id]
	numbers := m.stepNumbers()
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
		on.spoil(grad, i)
		c.in = append(c.in, grad)
		f, flags := on.scalarsOf(&c.call, i)
		for p, g := range grad.values {
			var x stepState
			for k := range groups {
				x[k] = c.out[k*len(shapes)+i].values[p].f
			}
			r := [4]result{exact(x[0]), exact(x[1]), exact(x[2]), exact(x[3])}
			if !on.skips() {
				r = update(x, on.gradient(g.f), f, flags)
			}
			for k := range groups {
				c.want[k*len(shapes)+i][p] = r[k]
			}
		}
	}
	on.finish(c, len(shapes))
	return c
}

// sgd is the update of SGDStep: x is parameter and momentum buffer.
func sgd(x stepState, g float64, f [8]float64, i [8]int64) [4]result {
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
	return [4]result{scaled(p-f[0]*g, size), scaled(buf, size)}
}

// adam is the update of AdamStep: x is parameter, first and second moment.
func adam(x stepState, g float64, f [8]float64, i [8]int64) [4]result {
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
	most := v
	if i[3] != 0 {
		most = math.Max(x[3], v)
	}
	move := lr / (1 - math.Pow(beta1, step)) * m / (math.Sqrt(most)/correction + eps)
	// The quotient magnifies the rounding errors of its numerator.
	return [4]result{scaled(p-move, size, move*size/math.Abs(m)), scaled(m, size), scaled(v, size*size), scaled(most, size*size)}
}

// rmsprop is the update of RMSPropStep: x is parameter, square average, and then momentum buffer and gradient average, as far as
// they are there.
func rmsprop(x stepState, g float64, f [8]float64, i [8]int64) [4]result {
	p, s := x[0], x[1]
	if i[2] != 0 {
		g = -g
	}
	g += f[3] * p
	size := math.Abs(g) + math.Abs(p) + x[2] + x[3]
	s = f[1]*s + (1-f[1])*g*g
	more := []result{}
	under, mean := s, 0
	if f[4] != 0 {
		mean = 1
	}
	if i[1] != 0 {
		a := f[1]*x[2+mean] + (1-f[1])*g
		under -= a * a
		more = append(more, scaled(a, size))
	}
	move := g / (math.Sqrt(under) + f[2])
	grown := size * s / under
	if f[4] != 0 {
		move += f[4] * x[2]
		more = append([]result{scaled(move, grown)}, more...)
	}
	all := [4]result{scaled(p-f[0]*move, grown), scaled(s, size*size)}
	copy(all[2:], more)
	return all
}

// adagrad is the update of AdagradStep: x is parameter and sum.
func adagrad(x stepState, g float64, f [8]float64, i [8]int64) [4]result {
	p := x[0]
	if i[1] != 0 {
		g = -g
	}
	g += f[3] * p
	size := math.Abs(g) + math.Abs(p)
	sum := x[1] + g*g
	rate := f[0] / (1 + (f[4]-1)*f[1])
	return [4]result{scaled(p-rate*g/(math.Sqrt(sum)+f[2]), size), scaled(sum, size*size)}
}

// lion is the update of LionStep: x is parameter and momentum. Near a direction of 0 its sign is open.
func lion(x stepState, g float64, f [8]float64, i [8]int64) [4]result {
	p, m := x[0], x[1]
	if i[1] != 0 {
		g = -g
	}
	size := math.Abs(g) + math.Abs(m) + math.Abs(p)
	direction := f[1]*m + (1-f[1])*g
	after := scaled(p*(1-f[0]*f[3])-f[0]*float64(b2i(direction > 0)-b2i(direction < 0)), size)
	after.any = math.Abs(direction) < 1e-6*size
	return [4]result{after, scaled(f[2]*m+(1-f[2])*g, size)}
}
