package kerneltest

import (
	"iter"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// shapes are those on which every element-wise operation runs, in all plans of layouts.
var shapes = [][]int{
	{}, {0}, {1}, {2}, {7}, {67}, {1100}, {3, 0, 2}, {1, 1}, {5, 7}, {3, 70}, {64, 65}, {2, 3, 4}, {3, 1, 5}, {2, 3, 4, 5},
	{2, 3, 2, 3, 2}, {1, 2, 1, 3, 1, 2, 1, 2},
}

// large are shapes for which an implementation may work in parallel, or on a whole grid.
var large = [][]int{{70_003}, {40, 1030}, {800, 3, 15}}

// tiled are shapes of more tiles than a grid has, for copies that go by tiles of its outer dimensions. They always run.
var tiled = [][]int{{16, 1030, 16}, {50, 260, 49}}

// plans are layouts for the output and the inputs.
var plans = [][4]layout{
	{contiguous, contiguous, contiguous, contiguous},
	{contiguous, transposed, contiguous, gapped},
	{transposed, contiguous, transposed, contiguous},
	{gapped, gapped, backwards, transposed},
	{backwards, contiguous, gapped, backwards},
	{contiguous, outer, contiguous, inner},
	{contiguous, contiguous, outer, constant},
	{contiguous, inner, constant, outer},
	{transposed, constant, inner, transposed},
	{transposed, transposed, transposed, transposed},
}

// inPlaceLayouts are the layouts of an output that is the memory of an input.
var inPlaceLayouts = []layout{contiguous, transposed, gapped, backwards}

// scalars are the F and I of a case.
type scalars struct {
	f [8]float64
	i [8]int64
}

// elementwise makes the cases of an operation whose reference is a function of one place.
func (m *maker) elementwise() iter.Seq[*testCase] {
	e := references[m.id]
	return list(func(emit func(*testCase)) {
		for k, s := range e.scalars() {
			for _, shape := range shapes {
				for _, plan := range plans {
					emit(m.place(e, s, 0, shape, plan))
				}
				for alias := 1; alias <= len(e.in); alias++ {
					for _, l := range inPlaceLayouts {
						if m.aliasable(e, alias) {
							emit(m.place(e, s, alias, shape, [4]layout{l, l, l, l}))
						}
					}
				}
			}
			for i, shape := range large {
				if k == 0 {
					emit(m.place(e, s, 0, shape, plans[(i+int(m.id))%len(plans)]))
				}
			}
			if m.id != op.Copy {
				continue
			}
			for _, shape := range tiled {
				emit(m.placeAlways(e, s, 0, shape, [4]layout{contiguous, transposed}))
			}
		}
	})
}

// aliasable reports whether the output may be the memory of input alias-1: if they have one type.
func (m *maker) aliasable(e reference, alias int) bool {
	return e.outType(m.d) == e.inType(alias-1, m.d)
}

// place makes one case, if it is due.
func (m *maker) place(e reference, s scalars, alias int, shape []int, plan [4]layout) *testCase {
	if !m.due() {
		return nil
	}
	return m.placeAlways(e, s, alias, shape, plan)
}

func (m *maker) placeAlways(e reference, s scalars, alias int, shape []int, plan [4]layout) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.call.F, c.call.I = s.f, s.i
	c.alias, c.bits, c.ulps = alias, e.bits, e.ulps
	for k := range len(e.in) {
		t := newTensor(e.inType(k, m.d), plan[k+1], shape...)
		t.fill(e.numbers(m, k, t.dtype))
		c.in = append(c.in, t)
	}
	c.out = []*tensor{newTensor(e.outType(m.d), plan[0], shape...)}
	c.want = [][]result{make([]result, count(shape))}
	x := make([]value, len(e.in))
	for p := range c.want[0] {
		for k := range x {
			x[k] = c.in[k].values[p]
		}
		c.want[0][p] = e.apply(m.d, s, x)
	}
	return c
}

// casts are the cases of Cast: elementwise for each type of the output.
func (m *maker) casts() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, to := range dtype.All() {
			e := reference{in: "k", to: to, bits: true, any: func(from dtype.DType, x []value) result { return castTo(from, to, x[0]) }}
			for _, shape := range shapes {
				for _, plan := range plans {
					emit(m.place(e, scalars{}, 0, shape, plan))
				}
			}
			emit(m.place(e, scalars{}, 0, large[0], plans[0]))
		}
	})
}

// reference is what an element-wise operation does at one place.
type reference struct {
	in      string      // a letter for each input: k the type of the row, b Bool
	out     string      // k, or b
	to      dtype.DType // of the output of Cast
	bits    bool
	ulps    float64
	values  func(m *maker, input int, d dtype.DType) func() value // wild if nil
	params  []scalars                                             // one case of zeros if empty
	float   func(x []float64, f [8]float64) result
	integer func(x []int64, i [8]int64) int64
	any     func(d dtype.DType, x []value) result // instead of both
}

func (e *reference) scalars() []scalars {
	if len(e.params) == 0 {
		return []scalars{{}}
	}
	return e.params
}

func (e *reference) outType(d dtype.DType) dtype.DType {
	if e.to != dtype.Invalid {
		return e.to
	}
	return typeOf(e.out[0], d)
}

func (e *reference) inType(k int, d dtype.DType) dtype.DType { return typeOf(e.in[k], d) }

func typeOf(letter byte, d dtype.DType) dtype.DType {
	if letter == 'b' {
		return dtype.Bool
	}
	return d
}

func (e *reference) numbers(m *maker, k int, d dtype.DType) func() value {
	if e.values != nil && (d.IsFloat() || e.float == nil) {
		return e.values(m, k, d)
	}
	return m.wild(d)
}

// apply computes the wanted element. For an output of Bool, float gives 0 or 1.
func (e *reference) apply(d dtype.DType, s scalars, x []value) result {
	out := e.outType(d)
	switch {
	case e.any != nil:
		return e.any(d, x)
	case d.IsFloat():
		f := make([]float64, len(x))
		for k := range x {
			f[k] = x[k].f
		}
		r := e.float(f, s.f)
		if out == dtype.Bool {
			r.i = int64(r.f)
		}
		return r
	}
	i := make([]int64, len(x))
	for k := range x {
		i[k] = x[k].i
	}
	return result{value: intValue(wrap(out, e.integer(i, s.i)))}
}
