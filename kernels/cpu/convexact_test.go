package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// convProblem is a convolution with the sizes of its operands.
type convProblem struct {
	n, c, h, w, o, kh, kw     int
	stride, padding, dilation [2]int
	groups                    int
}

func (p *convProblem) String() string {
	return fmt.Sprintf("%dx%dx%dx%d:%dx%dx%d s%v p%v d%v g%d", p.n, p.c, p.h, p.w, p.o, p.kh, p.kw, p.stride, p.padding, p.dilation, p.groups)
}

func (p *convProblem) result() (h, w int) {
	size := func(d, image, kernel int) int {
		return (image+2*p.padding[d]-p.dilation[d]*(kernel-1)-1)/p.stride[d] + 1
	}
	return size(0, p.h, p.kh), size(1, p.w, p.kw)
}

func (p *convProblem) shapes() (image, result, kernel [4]int) {
	h, w := p.result()
	return [4]int{p.n, p.c, p.h, p.w}, [4]int{p.n, p.o, h, w}, [4]int{p.o, p.c / p.groups, p.kh, p.kw}
}

func (p *convProblem) scalars() (i [8]int64) {
	for d := range 2 {
		i[d], i[2+d], i[4+d] = int64(p.stride[d]), int64(p.padding[d]), int64(p.dilation[d])
	}
	i[6] = int64(p.groups)
	return i
}

// rows calls f for each tap of a kernel and each row of a result with the first places of image, result and kernel, how many products there
// are along the row, and how far apart the places of the image are.
func (p *convProblem) rows(f func(image, result, kernel, count, step int)) {
	h, w := p.result()
	c, o := p.c/p.groups, p.o/p.groups
	for n := range p.n {
		for k := range p.o {
			for ch := range c {
				for u := range p.kh {
					for v := range p.kw {
						first, last := 0, w // the columns whose place is within the image
						for first < w && first*p.stride[1]-p.padding[1]+v*p.dilation[1] < 0 {
							first++
						}
						for last > first && (last-1)*p.stride[1]-p.padding[1]+v*p.dilation[1] >= p.w {
							last--
						}
						for y := range h {
							i := y*p.stride[0] - p.padding[0] + u*p.dilation[0]
							if i < 0 || i >= p.h || first == last {
								continue
							}
							f(((n*p.c+k/o*c+ch)*p.h+i)*p.w+first*p.stride[1]-p.padding[1]+v*p.dilation[1],
								((n*p.o+k)*h+y)*w+first, ((k*c+ch)*p.kh+u)*p.kw+v, last-first, p.stride[1])
						}
					}
				}
			}
		}
	}
}

// each calls f with the places of image, result and kernel of every product.
func (p *convProblem) each(f func(image, result, kernel int)) {
	p.rows(func(i, r, k, count, step int) {
		for x := range count {
			f(i+x*step, r+x, k)
		}
	})
}

// convOperands are the operands and results of a problem, by definition in float64.
type convOperands struct {
	image, gradient, kernel, bias []float32
	back                          []float32 // the bias of a transposed convolution, which is the gradient of the image
	want                          map[op.ID][]float64
}

func (p *convProblem) operands(seed uint64) *convOperands {
	i, r, k := p.shapes()
	count := func(s [4]int) int { return s[0] * s[1] * s[2] * s[3] }
	o := &convOperands{randomFloats(seed, count(i)), randomFloats(seed+1, count(r)), randomFloats(seed+2, count(k)), randomFloats(seed+3, p.o), randomFloats(seed+4, p.c), nil}
	forward, input, weight := make([]float64, count(r)), make([]float64, count(i)), make([]float64, count(k))
	for at := range forward {
		forward[at] = float64(o.bias[at/(r[2]*r[3])%p.o])
	}
	for at := range input {
		input[at] = float64(o.back[at/(i[2]*i[3])%p.c])
	}
	p.rows(func(i, r, k, count, step int) {
		tap, sum := float64(o.kernel[k]), 0.0
		for x, g := range o.gradient[r : r+count] {
			pixel, g := float64(o.image[i+x*step]), float64(g)
			forward[r+x] += pixel * tap
			input[i+x*step] += g * tap
			sum += g * pixel
		}
		weight[k] += sum
	})
	o.want = map[op.ID][]float64{op.Conv2D: forward, op.Conv2DGradInput: input, op.Conv2DGradWeight: weight}
	return o
}

// call is one of the three operations, with the result in out.
func (p *convProblem) call(t testing.TB, o *convOperands, id op.ID, out []float32) *op.Call {
	is, rs, ks := p.shapes()
	view := func(v []float32, s [4]int) op.View { return viewOf(t, dtype.Float32, v, s[:]...) }
	c := &op.Call{Op: id, I: p.scalars()}
	switch id {
	case op.Conv2D:
		c.Out, c.In = []op.View{view(out, rs)}, []op.View{view(o.image, is), view(o.kernel, ks), viewOf(t, dtype.Float32, o.bias, p.o)}
	case op.Conv2DGradInput:
		c.Out, c.In = []op.View{view(out, is)}, []op.View{view(o.gradient, rs), view(o.kernel, ks), viewOf(t, dtype.Float32, o.back, p.c)}
	default:
		c.Out, c.In = []op.View{view(out, ks)}, []op.View{view(o.gradient, rs), view(o.image, is)}
	}
	return c
}

// convTolerance is the error that a result of a convolution may have, of the root of the mean square of all: that of kernels/cpu/doc.go.
const convTolerance = 5e-5

// requireClose compares results with those by definition, in parts of the root of their mean square.
func requireClose(t testing.TB, want []float64, got []float32, tolerance float64, name string) {
	t.Helper()
	var squares, worst float64
	at := 0
	for i, w := range want {
		squares += w * w
		if d := math.Abs(w - float64(got[i])); d > worst || d != d {
			worst, at = d, i
		}
	}
	if rms := math.Sqrt(squares / float64(len(want))); !(worst <= tolerance*rms) {
		require.Failf(t, "wrong result", "%s: element %d is %v, want %v: %.2g of the root of the mean square", name, at, got[at], want[at], worst/rms)
	}
}

// convProblems have sizes that are no multiples of tiles and panels, borders of all widths, groups and strides.
var convProblems = []convProblem{
	{3, 64, 8, 8, 40, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{1, 16, 24, 31, 24, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{3, 17, 9, 13, 19, 3, 3, [2]int{1, 1}, [2]int{0, 2}, [2]int{1, 1}, 1},
	{12, 33, 4, 4, 41, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{40, 16, 5, 4, 17, 3, 3, [2]int{1, 1}, [2]int{2, 0}, [2]int{1, 1}, 1},
	{2, 48, 14, 11, 36, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{2, 32, 14, 11, 64, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{3, 130, 7, 7, 230, 3, 3, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{1, 16, 6, 150, 16, 3, 3, [2]int{1, 1}, [2]int{5, 4}, [2]int{1, 1}, 1},
	{2, 32, 14, 14, 40, 5, 5, [2]int{1, 1}, [2]int{2, 2}, [2]int{1, 1}, 1},
	{3, 17, 9, 13, 19, 5, 5, [2]int{1, 1}, [2]int{0, 3}, [2]int{1, 1}, 1},
	{2, 48, 7, 22, 36, 5, 5, [2]int{1, 1}, [2]int{4, 1}, [2]int{1, 1}, 2},
	{2, 130, 6, 7, 230, 5, 5, [2]int{1, 1}, [2]int{2, 2}, [2]int{1, 1}, 1},
	{1, 20, 8, 23, 24, 3, 5, [2]int{1, 1}, [2]int{1, 2}, [2]int{1, 1}, 1},
	{2, 24, 17, 40, 12, 3, 3, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{2, 20, 13, 38, 9, 4, 5, [2]int{3, 3}, [2]int{2, 1}, [2]int{1, 1}, 1},
	{2, 32, 12, 30, 16, 3, 3, [2]int{2, 1}, [2]int{1, 1}, [2]int{2, 1}, 2},
	{1, 9, 9, 26, 8, 5, 5, [2]int{2, 3}, [2]int{0, 2}, [2]int{2, 2}, 1},
}

// exactDevice is a device that wants sums of products.
type exactDevice struct{ device.Device }

func (exactDevice) ExactConvolutions() bool { return true }

type exactStream struct{ device.Stream }

func (exactStream) Device() device.Device { return exactDevice{} }

func TestConvolutions_AreThoseByDefinition(t *testing.T) {
	eachWinograd(t, func(t *testing.T, k *winogradKernels) {
		before := winogradLoops
		defer func() { winogradLoops = before }()
		winogradLoops = *k
		for _, p := range convProblems {
			o := p.operands(1)
			for id, want := range o.want {
				out := make([]float32, len(want))
				for i := range out {
					out[i] = float32(math.NaN())
				}
				launch(t, p.call(t, o, id, out))
				requireClose(t, want, out, convTolerance, fmt.Sprint(id, " ", &p))
			}
		}
	})
}

func TestConvolutions_AreSumsOfProductsIfTheDeviceWantsThem(t *testing.T) {
	p := convProblems[0]
	o := p.operands(1)
	for id, want := range o.want {
		var results [2][]float32
		for i := range results {
			results[i] = make([]float32, len(want))
			c := p.call(t, o, id, results[i])
			if i == 0 {
				c.Stream = exactStream{}
			}
			launch(t, c)
		}
		requireClose(t, want, results[0], 5e-6, id.String())
		require.NotEqual(t, results[0], results[1], id)
	}
}

// A result has the same bits whatever other images there are, and however many goroutines compute it.
func TestConvolutions_InTilesDoNotDependOnTheNumberOfWorkers(t *testing.T) {
	for _, p := range convProblems {
		o := &convOperands{}
		i, r, k := p.shapes()
		count := func(s [4]int) int { return s[0] * s[1] * s[2] * s[3] }
		o.image, o.gradient, o.kernel, o.bias, o.back = randomFloats(1, count(i)), randomFloats(2, count(r)), randomFloats(3, count(k)), randomFloats(4, p.o), randomFloats(5, p.c)
		for id, n := range map[op.ID]int{op.Conv2D: count(r), op.Conv2DGradInput: count(i), op.Conv2DGradWeight: count(k)} {
			want := make([]float32, n)
			workers(1, func() { launch(t, p.call(t, o, id, want)) })
			for _, number := range []int{2, 5} {
				got := make([]float32, n)
				workers(number, func() { launch(t, p.call(t, o, id, got)) })
				requireSame(t, want, got, fmt.Sprint(id, " ", &p))
			}
		}
	}
}

// Views of any order take the same way.
func TestConvolutions_InTilesTakeStridedOperands(t *testing.T) {
	p := convProblems[5]
	o := p.operands(1)
	for id, want := range o.want {
		out := make([]float32, len(want))
		c := p.call(t, o, id, out)
		back := p.channelsLast(t, id, c, false)
		launch(t, c)
		back()
		requireClose(t, want, out, convTolerance, id.String())
	}
}

// channelsLast moves operands of a call to memory with the channels last, but for kernels that stay, and returns what moves a result back.
func (p *convProblem) channelsLast(t testing.TB, id op.ID, c *op.Call, kernelsStay bool) func() {
	is, rs, ks := p.shapes()
	strided, back := []op.View{}, func() {}
	for i, v := range append(append([]op.View{}, c.Out...), c.In...) {
		which := map[op.ID][3]int{op.Conv2D: {1, 0, 2}, op.Conv2DGradInput: {0, 1, 2}, op.Conv2DGradWeight: {2, 1, 0}}[id][min(i, 2)]
		if v.NDim == 1 || kernelsStay && which == 2 {
			strided = append(strided, v)
			continue
		}
		s := [][4]int{is, rs, ks}[which]
		memory := make([]float32, v.Len())
		last := viewOf(t, dtype.Float32, memory, s[0], s[2], s[3], s[1])
		w := v
		w.Ptr = last.Ptr
		w.Strides = [op.MaxDims]int{last.Strides[0], last.Strides[3], last.Strides[1], last.Strides[2]}
		turn := op.Call{Op: op.Copy, Out: []op.View{w}, In: []op.View{v}}
		if i == 0 {
			turn.Out, turn.In = turn.In, turn.Out
			back = func() { launch(t, &turn) }
		} else {
			launch(t, &turn)
		}
		strided = append(strided, w)
	}
	c.Out, c.In = strided[:1], strided[1:]
	return back
}

// randomProblem is a convolution of random sizes.
func randomProblem(rng *rand.Rand) convProblem {
	p := convProblem{n: rng.IntN(5), h: 1 + rng.IntN(20), w: 1 + rng.IntN(20), groups: 1 + rng.IntN(2)*rng.IntN(3)}
	p.kh = 3 + 2*rng.IntN(2)
	p.kw = p.kh
	if rng.IntN(2) == 0 {
		p.kh, p.kw = 1+rng.IntN(5), 1+rng.IntN(5)
	}
	p.c, p.o = p.groups*(1+rng.IntN(40)), p.groups*(1+rng.IntN(40))
	for d := range 2 {
		p.stride[d], p.padding[d], p.dilation[d] = 1+rng.IntN(3)*rng.IntN(2), rng.IntN(4), 1+rng.IntN(3)*rng.IntN(2)
	}
	if rng.IntN(3) > 0 {
		p.stride, p.dilation = [2]int{1, 1}, [2]int{1, 1}
	}
	p.h, p.w = max(p.h, p.dilation[0]*(p.kh-1)+1), max(p.w, p.dilation[1]*(p.kw-1)+1)
	return p
}

func FuzzConvolutions(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := &guards{}
		watch = g.add
		defer func() { watch = nil }()
		p := randomProblem(rand.New(rand.NewPCG(seed, 2)))
		o := p.operands(seed)
		for id, want := range o.want {
			out := watched[float32](len(want))
			if len(out) == 0 {
				continue
			}
			launch(t, p.call(t, o, id, out))
			requireClose(t, want, out, convTolerance, fmt.Sprint(id, " ", &p))
			require.Zero(t, g.check(), "%s %s", id, &p)
		}
	})
}
