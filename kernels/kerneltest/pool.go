package kerneltest

import (
	"iter"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// poolCase is a use of pooling: sizes of images and results, and I. A window of 0 is adaptive.
type poolCase struct {
	n, c, h, w, oh, ow    int
	size, stride, padding [2]int
	dilation              [2]int // of MaxPool2D
	include, divisor      int    // of AvgPool2D
	windows               int    // the most elements of a window
}

var two2 = [2]int{2, 2}

var poolCases = []poolCase{
	{1, 1, 1, 1, 1, 1, one2, one2, [2]int{}, one2, 0, 0, 1},
	{0, 2, 4, 4, 2, 2, two2, two2, [2]int{}, one2, 0, 0, 4},
	{2, 3, 6, 8, 3, 4, two2, two2, [2]int{}, one2, 1, 0, 4},
	{2, 3, 7, 9, 4, 5, [2]int{3, 3}, two2, one2, one2, 1, 0, 9},
	{2, 3, 7, 9, 4, 5, [2]int{3, 3}, two2, one2, one2, 0, 0, 9},
	{1, 2, 6, 6, 4, 4, [2]int{3, 3}, two2, one2, one2, 1, 0, 9}, // the last windows, of ceil mode, reach over the padding
	{1, 2, 5, 40, 5, 20, [2]int{1, 5}, [2]int{1, 2}, [2]int{0, 2}, one2, 0, 7, 5},
	{1, 2, 9, 11, 5, 5, [2]int{3, 2}, [2]int{1, 2}, [2]int{1, 0}, [2]int{3, 2}, 1, -3, 6},
	{2, 1, 17, 33, 1, 1, [2]int{17, 33}, one2, [2]int{}, one2, 1, 0, 561}, // numbers of 32 bits
	{3, 5, 4, 5, 3, 4, two2, one2, [2]int{}, one2, 0, 0, 4},
	{2, 3, 7, 10, 3, 4, [2]int{}, [2]int{}, [2]int{}, [2]int{}, 0, 0, 12},
	{2, 3, 3, 4, 7, 9, [2]int{}, [2]int{}, [2]int{}, [2]int{}, 0, 0, 4},
	{1, 4, 30, 20, 1, 1, [2]int{}, [2]int{}, [2]int{}, [2]int{}, 0, 0, 600},
	{2, 20, 28, 28, 14, 14, two2, two2, [2]int{}, one2, 1, 0, 4},
}

// pools are the cases of pooling and its gradients.
func (m *maker) pools() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for n := range poolCases {
			s := poolCases[n]
			if m.id == op.AvgPool2D || m.id == op.AvgPool2DGrad {
				s.dilation = one2 // it has none
			}
			for _, plan := range [][4]layout{plans[0], plans[1+n%4], plans[5+n%5]} {
				emit(m.pool(&s, plan))
			}
		}
	})
}

func (m *maker) pool(s *poolCase, plan [4]layout) *testCase {
	if !m.due() {
		return nil
	}
	c := m.newCase()
	for d := range 2 {
		c.call.I[d], c.call.I[2+d], c.call.I[4+d] = int64(s.size[d]), int64(s.stride[d]), int64(s.padding[d])
		c.call.I[6+d] = int64(s.dilation[d])
	}
	image, result := []int{s.n, s.c, s.h, s.w}, []int{s.n, s.c, s.oh, s.ow}
	switch m.id {
	case op.MaxPool2D:
		m.maxPool(c, s, newTensor(m.d, plan[1], image...), newTensor(m.d, plan[0], result...), plan[3])
	case op.MaxPool2DGrad:
		m.maxPoolGrad(c, s, newTensor(m.d, plan[0], image...), newTensor(m.d, plan[1], result...), plan[2])
	case op.AvgPool2D:
		c.call.I[6], c.call.I[7] = int64(s.include), int64(s.divisor)
		m.avgPool(c, s, newTensor(m.d, plan[1], image...), newTensor(m.d, plan[0], result...))
	default:
		c.call.I[6], c.call.I[7] = int64(s.include), int64(s.divisor)
		m.avgPool(c, s, newTensor(m.d, plan[0], image...), newTensor(m.d, plan[1], result...))
	}
	return c
}

// numberType is the type of MaxPool2D's numbers.
func (s *poolCase) numberType() dtype.DType {
	if s.windows > 256 {
		return dtype.Int32
	}
	return dtype.Uint8
}

// window calls f for the elements of window (y, x): the number of each, whether it is in the image, and where.
func (s *poolCase) window(y, x int, f func(number int, in bool, h, w int)) {
	h0, w0, high, wide, dilation := y*s.stride[0]-s.padding[0], x*s.stride[1]-s.padding[1], s.size[0], s.size[1], s.dilation
	if high == 0 {
		h0, w0, dilation = y*s.h/s.oh, x*s.w/s.ow, one2
		high = int(math.Ceil(float64((y+1)*s.h)/float64(s.oh))) - h0
		wide = int(math.Ceil(float64((x+1)*s.w)/float64(s.ow))) - w0
	}
	for u := range high {
		for v := range wide {
			h, w := h0+u*dilation[0], w0+v*dilation[1]
			f(u*wide+v, h >= 0 && h < s.h && w >= 0 && w < s.w, h, w)
		}
	}
}

func (m *maker) maxPool(c *testCase, s *poolCase, image, pooled *tensor, l layout) {
	if l.broadcasts() {
		l = gapped
	}
	numbers := newTensor(s.numberType(), l, pooled.shape...)
	image.fill(m.wild(m.d))
	c.bits = true
	c.in, c.out = []*tensor{image}, []*tensor{pooled, numbers}
	most, from := make([]result, len(pooled.values)), make([]result, len(pooled.values))
	each(pooled.shape, func(p int, i []int) {
		most[p], from[p] = exact(math.Inf(-1)), result{}
		first := true
		s.window(i[2], i[3], func(number int, in bool, h, w int) {
			if !in {
				return
			}
			if v := image.at(i[0], i[1], h, w).f; first || v > most[p].f || math.IsNaN(v) {
				most[p].value, from[p].value, first = floatValue(v), intValue(int64(number)), false
			}
		})
	})
	c.want = [][]result{most, from}
}

func (m *maker) maxPoolGrad(c *testCase, s *poolCase, image, grad *tensor, l layout) {
	numbers := newTensor(s.numberType(), l, grad.shape...)
	numbers.fill(func() value { return intValue(int64(m.rng.IntN(max(1, s.least())))) })
	grad.fill(m.tame(m.d))
	c.in, c.out = []*tensor{grad, numbers}, []*tensor{image}
	want := make([]result, len(image.values))
	each(grad.shape, func(p int, i []int) {
		s.window(i[2], i[3], func(number int, in bool, h, w int) {
			if in && int64(number) == numbers.values[p].i {
				want[image.position(i[0], i[1], h, w)].add(grad.values[p].f)
			}
		})
	})
	c.want = [][]result{want}
}

// least is the number of elements of the smallest window, with those outside of the image.
func (s *poolCase) least() int {
	least := s.windows
	for y := range s.oh {
		for x := range s.ow {
			n := 0
			s.window(y, x, func(int, bool, int, int) { n++ })
			least = min(least, n)
		}
	}
	return least
}

// add adds to a sum; its scale allows a rounding at each addition.
func (r *result) add(v float64) {
	r.f += v
	r.scale += math.Abs(v) + math.Abs(r.f)
}

// avgPool makes the case of AvgPool2D, or of its gradient, whose image is not filled but computed.
func (m *maker) avgPool(c *testCase, s *poolCase, image, grad *tensor) {
	backward := m.id == op.AvgPool2DGrad
	c.in, c.out = []*tensor{image}, []*tensor{grad}
	if backward {
		c.in, c.out = c.out, c.in
	}
	c.ulps = 2
	c.in[0].fill(m.tame(m.d))
	want := make([]result, len(c.out[0].values))
	each(grad.shape, func(p int, i []int) {
		divisor := s.count(i[2], i[3])
		s.window(i[2], i[3], func(_ int, in bool, h, w int) {
			at := image.position(i[0], i[1], min(max(h, 0), s.h-1), min(max(w, 0), s.w-1))
			switch {
			case in && backward:
				want[at].add(grad.values[p].f / divisor)
			case in:
				want[p].add(image.values[at].f / divisor)
			}
		})
	})
	c.want = [][]result{want}
}

// count is what the sum of window (y, x) is divided by.
func (s *poolCase) count(y, x int) float64 {
	if s.divisor != 0 && s.size[0] != 0 {
		return float64(s.divisor)
	}
	n := 0
	s.window(y, x, func(_ int, in bool, h, w int) {
		padded := s.include != 0 && h < s.h+s.padding[0] && w < s.w+s.padding[1]
		if in || padded && s.size[0] != 0 {
			n++
		}
	})
	return float64(n)
}
