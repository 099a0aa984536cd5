package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/kernels/op"
)

// convShape is a convolution: images, channels, rows and columns, outputs, and the size of the kernel.
type convShape struct {
	n, c, h, w, o, kh, kw     int
	stride, padding, dilation [2]int
	groups                    int
	more                      [2]int // results beyond those that equal padding on both sides gives
}

var one2 = [2]int{1, 1}

// convShapes: nothing, one element, kernels as large as the image, tails of tiles and vectors, several blocks of steps and of
// places, strides that do not divide the image or leave taps out, and groups down to single channels.
var convShapes = []convShape{
	{1, 1, 1, 1, 1, 1, 1, one2, [2]int{}, one2, 1, [2]int{}},
	{0, 2, 5, 5, 3, 3, 3, one2, one2, one2, 1, [2]int{}},
	{2, 3, 5, 7, 4, 3, 3, one2, one2, one2, 1, [2]int{}},
	{2, 4, 6, 5, 6, 1, 1, one2, [2]int{}, one2, 1, [2]int{}},
	{2, 4, 7, 6, 5, 1, 1, [2]int{2, 2}, [2]int{}, one2, 1, [2]int{}},
	{1, 3, 9, 8, 7, 3, 2, [2]int{2, 3}, [2]int{1, 0}, [2]int{1, 2}, 1, [2]int{}},
	{1, 2, 8, 9, 3, 3, 3, [2]int{2, 2}, [2]int{3, 2}, [2]int{2, 4}, 1, [2]int{}},
	{2, 3, 4, 4, 2, 4, 4, one2, [2]int{}, one2, 1, [2]int{}},
	{1, 2, 3, 3, 2, 2, 4, one2, [2]int{0, 1}, one2, 1, one2}, // "same" with an even kernel
	{3, 1, 1, 40, 5, 1, 5, one2, [2]int{0, 2}, one2, 1, [2]int{}},
	{1, 5, 1, 33, 7, 1, 3, [2]int{1, 2}, [2]int{0, 1}, one2, 1, [2]int{}},
	{2, 6, 7, 7, 9, 3, 3, [2]int{2, 2}, one2, one2, 3, [2]int{}},
	{2, 4, 5, 6, 4, 3, 3, one2, one2, one2, 4, [2]int{}},
	{1, 3, 11, 10, 6, 3, 5, [2]int{2, 2}, [2]int{2, 2}, [2]int{1, 2}, 3, [2]int{}},
	{1, 2, 6, 6, 10, 2, 2, [2]int{3, 3}, [2]int{}, one2, 2, [2]int{}},
	{3, 33, 6, 5, 20, 3, 3, one2, one2, one2, 1, [2]int{}},
	{3, 2, 30, 31, 3, 3, 3, one2, one2, one2, 1, [2]int{}},
	{2, 40, 7, 7, 35, 1, 1, one2, [2]int{}, one2, 1, [2]int{}},
	{1, 62, 4, 5, 5, 3, 3, one2, one2, one2, 1, [2]int{}},
	{2, 140, 3, 4, 70, 2, 2, one2, one2, one2, 1, [2]int{}},
	{1, 70, 4, 4, 131, 1, 2, one2, [2]int{}, one2, 1, [2]int{}},
	{1, 4, 40, 64, 4, 3, 3, [2]int{1, 2}, one2, one2, 4, [2]int{}},
}

// convChannels have whole pieces of channels, for kernels of tensor cores that copy 16 bytes at a time, in tiles of 64 and of 128 rows. They always
// run.
var convChannels = []convShape{
	{2, 64, 6, 7, 96, 3, 3, one2, one2, one2, 1, [2]int{}},
	{2, 64, 7, 7, 64, 1, 1, one2, [2]int{}, one2, 1, [2]int{}},
	{1, 32, 17, 15, 64, 3, 3, [2]int{2, 2}, one2, one2, 1, [2]int{}},
	{2, 32, 12, 13, 160, 2, 3, [2]int{1, 2}, [2]int{0, 2}, [2]int{3, 1}, 1, [2]int{}},
	{2, 64, 8, 10, 64, 1, 1, one2, [2]int{}, one2, 1, [2]int{}},
	{2, 64, 8, 10, 120, 1, 1, one2, [2]int{}, one2, 1, [2]int{}},
}

// results is the size of the result along dimension d.
func (s *convShape) results(d int) int {
	size, k := [2]int{s.h, s.w}[d], [2]int{s.kh, s.kw}[d]
	return (size+2*s.padding[d]-s.dilation[d]*(k-1)-1)/s.stride[d] + 1 + s.more[d]
}

// convolutions are the cases of Conv2D and its gradients.
func (m *maker) convolutions() iter.Seq[*testCase] {
	some := []layout{contiguous, transposed, gapped, backwards}
	return list(func(emit func(*testCase)) {
		for n := range convShapes {
			s := &convShapes[n]
			emit(m.convolution(s, [3]layout{}, n%2 == 0))
			emit(m.convolution(s, [3]layout{some[n%4], some[(n/4+1)%4], some[(n/2)%4]}, true))
			emit(m.convolution(s, [3]layout{contiguous, []layout{outer, inner, constant}[n%3], contiguous}, false))
		}
		for n := range convChannels {
			s := &convChannels[n]
			emit(m.convolutionAlways(s, [3]layout{}, n%2 == 0))
			emit(m.convolution(s, [3]layout{some[n%4], some[(n/4+1)%4], some[(n/2)%4]}, true))
		}
	})
}

// convolution makes a case with layouts of output and inputs.
func (m *maker) convolution(s *convShape, l [3]layout, biased bool) *testCase {
	if !m.due() {
		return nil
	}
	return m.convolutionAlways(s, l, biased)
}

func (m *maker) convolutionAlways(s *convShape, l [3]layout, biased bool) *testCase {
	if m.leavesOut() {
		return nil
	}
	c := m.newCase()
	c.ulps = 2
	for d := range 2 {
		c.call.I[d], c.call.I[2+d], c.call.I[4+d] = int64(s.stride[d]), int64(s.padding[d]), int64(s.dilation[d])
	}
	c.call.I[6] = int64(s.groups)
	shapes := [3][]int{{s.n, s.c, s.h, s.w}, {s.n, s.o, s.results(0), s.results(1)}, {s.o, s.c / s.groups, s.kh, s.kw}}
	roles := map[op.ID][3]int{op.Conv2D: {1, 0, 2}, op.Conv2DGradInput: {0, 1, 2}, op.Conv2DGradWeight: {2, 1, 0}}[m.id]
	var t [3]*tensor // image, result, kernel
	for i, role := range roles {
		t[role] = newTensor(m.d, l[i], shapes[role]...)
		if i > 0 {
			t[role].fill(m.tame(m.d))
		}
	}
	c.out, c.in = []*tensor{t[roles[0]]}, []*tensor{t[roles[1]], t[roles[2]]}
	want := make([]result, len(c.out[0].values))
	if biased && m.id != op.Conv2DGradWeight {
		m.addBias(c, want)
	}
	terms := make([]float64, len(want))
	s.each(func(at [3]int) {
		p := t[roles[1]].values[at[roles[1]]].f * t[roles[2]].values[at[roles[2]]].f
		r := at[roles[0]]
		want[r].f += p
		want[r].scale += math.Abs(p)
		terms[r]++
	})
	for r := range want {
		want[r].scale *= 1 + terms[r]/2 // a rounding at each addition
	}
	c.want = [][]result{want}
	return c
}

// addBias gives the case a bias, with which the wanted values begin.
func (m *maker) addBias(c *testCase, want []result) {
	shape := c.out[0].shape
	bias := newTensor(m.d, []layout{contiguous, gapped, backwards}[len(want)%3], shape[1])
	bias.fill(m.tame(m.d))
	c.in = append(c.in, bias)
	each(shape, func(p int, index []int) {
		v := bias.at(index[1]).f
		want[p] = result{value: floatValue(v), scale: math.Abs(v)}
	})
}

// each calls f with the positions in image, result and kernel of the elements of every product.
func (s *convShape) each(f func(at [3]int)) {
	oh, ow, channels, outputs := s.results(0), s.results(1), s.c/s.groups, s.o/s.groups
	each([]int{s.n, s.o, oh, ow, channels, s.kh, s.kw}, func(_ int, i []int) {
		n, o, y, x, c, u, v := i[0], i[1], i[2], i[3], i[4], i[5], i[6]
		h := y*s.stride[0] - s.padding[0] + u*s.dilation[0]
		w := x*s.stride[1] - s.padding[1] + v*s.dilation[1]
		if h < 0 || h >= s.h || w < 0 || w >= s.w {
			return
		}
		channel := o/outputs*channels + c
		f([3]int{((n*s.c+channel)*s.h+h)*s.w + w, ((n*s.o+o)*oh+y)*ow + x, ((o*channels+c)*s.kh+u)*s.kw + v})
	})
}
