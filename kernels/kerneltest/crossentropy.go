package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// entropies are the cases of CrossEntropy and CrossEntropyGrad.
func (m *maker) entropies() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, classes := range []int{130, 2048} { // rows of many lanes always run
			emit(m.entropyAlways(9, classes, plans[0], true, 0.1, 0, m.classes(classes, -100)))
		}
		for n, s := range [][2]int{{0, 3}, {1, 1}, {4, 10}, {33, 7}, {9, 130}, {3, 2048}, {2, 5003}, {700, 12}} {
			for k, plan := range plans {
				weighted, smooth := (n+k)%2 == 0, []float64{0, 0.1, 0}[k%3]
				emit(m.entropy(s[0], s[1], plan, weighted, smooth, 0, m.classes(s[1], -100)))
			}
			for _, l := range inPlaceLayouts {
				if m.id == op.CrossEntropyGrad {
					emit(m.entropy(s[0], s[1], [4]layout{l, l, contiguous, contiguous}, n%2 == 0, 0.2, 2, m.classes(s[1], -100)))
				}
			}
		}
		for _, bad := range []int64{-1, 10, math.MaxInt64, math.MinInt64} {
			c := m.entropy(6, 10, plans[0], false, 0, 0, from(intValue(1), intValue(-100), intValue(3)))
			if c != nil {
				classes := c.in[len(c.in)-1]
				if m.id == op.CrossEntropyGrad {
					classes = c.in[2]
				}
				classes.values[2] = intValue(bad)
				c.fails = op.ErrIndex
			}
			emit(c)
		}
	})
}

// entropy makes a case. Rows of an odd number of classes are large as a whole: what they differ by must not be lost beside that.
func (m *maker) entropy(rows, classes int, plan [4]layout, weighted bool, smooth float64, alias int, next func() value) *testCase {
	if !m.due() {
		return nil
	}
	return m.entropyAlways(rows, classes, plan, weighted, smooth, alias, next)
}

func (m *maker) entropyAlways(rows, classes int, plan [4]layout, weighted bool, smooth float64, alias int, next func() value) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.ulps, c.alias = 4, alias
	c.call.F, c.call.I = floats8(smooth), ints8(-100)
	a, b := newTensor(m.d, plan[1], rows, classes), newTensor(dtype.Int64, plan[2], rows)
	a.fill(m.logits(float64(classes % 2 * 10_000)))
	b.fill(next)
	var w []*tensor
	if weighted {
		w = []*tensor{newTensor(m.d, plan[3], classes)}
		w[0].fill(m.within(m.d, 0.25, 2))
	}
	e := &entropyCase{c: c, a: a, b: b, w: w, smooth: smooth}
	if m.id == op.CrossEntropy {
		wide := op.ComputeType(m.d)
		c.in = append([]*tensor{a, b}, w...)
		c.out = []*tensor{newTensor(wide, plan[0], rows), newTensor(wide, contiguous, 2, rows), newTensor(wide, contiguous, rows)}
		c.want = [][]result{make([]result, rows), make([]result, 2*rows), make([]result, rows)}
		for n := range rows {
			e.loss(n)
		}
		return c
	}
	wide := op.ComputeType(m.d)
	g, lse := newTensor(wide, plan[0], rows), newTensor(wide, contiguous, 2, rows)
	g.fill(m.tame(wide))
	c.in, c.out = append([]*tensor{g, a, b, lse}, w...), []*tensor{newTensor(m.d, plan[0], rows, classes)}
	c.want = [][]result{make([]result, rows*classes)}
	for n := range rows {
		most, logSum := e.lse(n)
		lse.values[n], lse.values[rows+n] = floatValue(most), floatValue(round(wide, logSum))
		e.grad(n, g.at(n).f, most, lse.values[rows+n].f)
	}
	return c
}

// logits gives tame numbers, and numbers that are too large for exp by themselves, beside base.
func (m *maker) logits(base float64) func() value {
	tame, n := m.tame(m.d), 0
	return func() value {
		n++
		v := tame().f + base
		if n%64 < 20 {
			v += 200
		}
		return floatValue(round(m.d, v))
	}
}

// entropyCase computes what a case wants.
type entropyCase struct {
	c      *testCase
	a, b   *tensor
	w      []*tensor
	smooth float64
}

func (e *entropyCase) weight(class int) float64 {
	if len(e.w) == 0 {
		return 1
	}
	return e.w[0].at(class).f
}

// lse is the largest element of a row, and the logarithm of the sum of the exponentials relative to it.
func (e *entropyCase) lse(n int) (most, logSum float64) {
	most = math.Inf(-1)
	for j := range e.a.shape[1] {
		most = max(most, e.a.at(n, j).f)
	}
	var sum compensated
	for j := range e.a.shape[1] {
		sum.add(math.Exp(e.a.at(n, j).f - most))
	}
	return most, math.Log(sum.value())
}

func (e *entropyCase) loss(n int) {
	count, class := e.a.shape[1], int(e.b.at(n).i)
	most, logSum := e.lse(n)
	growth := 1 + math.Sqrt(float64(count))/8
	e.c.want[1][n], e.c.want[1][e.a.shape[0]+n] = exact(most), scaled(logSum, 1, growth)
	if class == -100 {
		return
	}
	e.c.want[2][n] = exact(e.weight(class))
	loss := (1 - e.smooth) * e.weight(class) * (logSum + (most - e.a.at(n, class).f))
	var sum, terms float64
	for j := range count {
		x := e.weight(j) * (logSum + (most - e.a.at(n, j).f))
		sum += x
		terms += math.Abs(x) + e.weight(j)
	}
	e.c.want[0][n] = scaled(loss+e.smooth/float64(count)*sum, loss, 2*e.weight(class), growth, e.smooth/float64(count)*terms*growth)
}

func (e *entropyCase) grad(n int, g, most, logSum float64) {
	count, class := e.a.shape[1], int(e.b.at(n).i)
	if class == -100 {
		return
	}
	var total float64
	for j := range count {
		total += e.weight(j)
	}
	hit, uniform := (1-e.smooth)*e.weight(class), e.smooth/float64(count)
	for j := range count {
		distance := logSum + (most - e.a.at(n, j).f)
		p := math.Exp(-distance)
		v := (hit+uniform*total)*p - uniform*e.weight(j)
		if j == class {
			v -= hit
		}
		size := math.Abs(g) * (hit + uniform*total) * p * (2 + math.Abs(distance))
		if j == class {
			size += math.Abs(g) * hit
		}
		e.c.want[0][n*count+j] = scaled(g*v, size, g*uniform*e.weight(j), g*uniform*total*p*math.Sqrt(float64(count)))
	}
}
