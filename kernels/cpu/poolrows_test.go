package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// poolJob is a call of pooling on planes of rows x columns with windows of size, as a planeJob has them.
func poolJob(id op.ID, rows, columns, size, stride, padding, dilation int) (*planeJob[float32], bool) {
	j := &planeJob[float32]{call: &op.Call{Op: id}}
	j.call.I = [8]int64{int64(size), int64(size), int64(stride), int64(stride), int64(padding), int64(padding), int64(dilation), int64(dilation)}
	if id == op.AvgPool2D || id == op.AvgPool2DGrad {
		j.call.I[6], j.call.I[7], dilation = 1, 0, 1
	}
	j.image = [2]int{rows, columns}
	for d, n := range j.image {
		j.result[d] = (n+2*padding-dilation*(size-1)-1)/stride + 1
		if n+2*padding < dilation*(size-1)+1 {
			return nil, false
		}
	}
	prepareWindows(j)
	return j, true
}

func TestPooling_OfRowsIsThatOfWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	rowsToo := 0
	for _, c := range [][6]int{ // rows, columns, size, stride, padding, dilation
		{8, 8, 1, 1, 0, 1}, {16, 16, 2, 2, 0, 1}, {9, 33, 3, 2, 1, 1}, {5, 40, 3, 1, 1, 1}, {20, 21, 2, 1, 1, 1}, {31, 50, 3, 3, 1, 2},
		{11, 37, 5, 4, 2, 1}, {7, 64, 4, 2, 2, 2}, {30, 30, 1, 3, 0, 1},
		{9, 34, 3, 2, 1, 1}, {12, 32, 3, 2, 1, 1}, {3, 18, 2, 2, 1, 1}, {6, 50, 5, 2, 2, 2}, {5, 16, 3, 2, 0, 1},
	} {
		for _, nan := range []bool{false, true} {
			src := mixed(c[0]*c[1], rng, nan)
			src[0], src[1] = lowest[float32](), lowest[float32]()
			for _, id := range []op.ID{op.MaxPool2D, op.AvgPool2D} {
				j, ok := poolJob(id, c[0], c[1], c[2], c[3], c[4], c[5])
				require.True(t, ok)
				name := fmt.Sprint(id, c, nan)
				n := j.result[0] * j.result[1]
				want, wantNumbers := make([]float32, n), make([]int32, n)
				byWindow(j, want, wantNumbers, src, id)
				if !j.inPhases() {
					continue
				}
				rowsToo++
				check := func() {
					g.parts = nil
					dst, m := watched[float32](n), &planeMemory[float32]{numbers: watched[int32](n)}
					if id == op.MaxPool2D {
						maxPoolRows(j, dst, src, m)
						require.Equal(t, wantNumbers, m.numbers, name)
					} else {
						avgPoolRows(j, dst, src, m)
					}
					requireSame(t, want, dst, name)
					require.Zero(t, g.check(), name)
				}
				check()
				withoutVectors(check)
			}
		}
	}
	require.Greater(t, rowsToo, 20)
}

// byWindow pools window by window.
func byWindow[T float](j *planeJob[T], dst []T, numbers []int32, src []T, id op.ID) {
	at := 0
	for y := range j.windows[0] {
		h := &j.windows[0][y]
		for x := range j.windows[1] {
			w := &j.windows[1][x]
			if id == op.MaxPool2D {
				dst[at], numbers[at] = maxOfWindow(src, j.image[1], h, w)
			} else {
				var sum float64
				for u := range h.count {
					for _, v := range src[(h.first+u)*j.image[1]+w.first:][:w.count] {
						sum += float64(v)
					}
				}
				dst[at] = T(sum / j.divisor(h, w))
			}
			at++
		}
	}
}

func TestMaxPoolGradient_ByPlacesIsThatOfNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, c := range [][6]int{{16, 16, 2, 2, 0, 1}, {9, 33, 3, 2, 1, 1}, {20, 21, 2, 1, 1, 1}, {31, 50, 3, 3, 1, 2}, {40, 41, 9, 4, 3, 1}} {
		j, _ := poolJob(op.MaxPool2D, c[0], c[1], c[2], c[3], c[4], c[5])
		n := j.result[0] * j.result[1]
		src, g := mixed(c[0]*c[1], rng, false), mixed(n, rng, false)
		m := &planeMemory[float32]{numbers: make([]int32, n)}
		byWindow(j, make([]float32, n), m.numbers, src, op.MaxPool2D)
		got, want := make([]float32, len(src)), make([]float32, len(src))
		maxPoolGrad(j, got, g, m)
		at := 0
		for y := range j.windows[0] {
			for x := range j.windows[1] {
				h, w := &j.windows[0][y], &j.windows[1][x]
				u, v := int(m.numbers[at])/w.size-h.skipped, int(m.numbers[at])%w.size-w.skipped
				want[(h.first+u*h.step)*c[1]+w.first+v*w.step] += g[at]
				at++
			}
		}
		requireSame(t, want, got, fmt.Sprint(c))
	}
}

func TestPoolGradients_AreTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	gathered := 0
	for _, c := range [][6]int{ // rows, columns, size, stride, padding, dilation
		{16, 16, 2, 2, 0, 1}, {12, 32, 3, 2, 1, 1}, {9, 34, 3, 2, 1, 1}, {7, 50, 4, 2, 2, 1}, {13, 18, 3, 2, 1, 2}, {5, 48, 5, 2, 2, 1}, {6, 22, 1, 2, 0, 1},
		{16, 30, 2, 2, 1, 1}, {16, 17, 3, 2, 1, 1}, {8, 14, 2, 2, 0, 1}, {20, 20, 3, 1, 1, 1},
		{9, 72, 3, 2, 1, 1}, {6, 62, 2, 2, 0, 1}, {4, 16, 9, 2, 4, 1}, {36, 36, 17, 2, 8, 1},
	} {
		for _, id := range []op.ID{op.MaxPool2DGrad, op.AvgPool2DGrad} {
			f := maxPoolGrad[float32]
			if id == op.AvgPool2DGrad {
				f, c[5] = avgPoolGrad[float32], 1
			}
			name := fmt.Sprint(id, c)
			j, ok := poolJob(id, c[0], c[1], c[2], c[3], c[4], c[5])
			require.True(t, ok, name)
			gathered += len(j.terms.list)
			n := j.result[0] * j.result[1]
			numbers := make([]uint8, n)
			g.parts = nil
			fast := &planeMemory[float32]{bytes: numbers}
			for range 2 { // planes one after the other, with the same memory
				src, got, want := mixed(n, rng, true), watched[float32](c[0]*c[1]), make([]float32, c[0]*c[1])
				for i := range numbers {
					numbers[i] = uint8(rng.IntN(c[2] * c[2]))
				}
				f(j, got, src, fast)
				withoutVectors(func() {
					slow, _ := poolJob(id, c[0], c[1], c[2], c[3], c[4], c[5])
					f(slow, want, src, &planeMemory[float32]{bytes: numbers})
				})
				requireSame(t, want, got, name)
				require.Zero(t, g.check(), name)
			}
		}
	}
	require.Equal(t, vector.poolNumbered != nil, gathered > 0)
}

// The averages of whole planes that are computed together are those of planes that are computed one by one, bit for bit.
func TestPooling_OfWholePlanesTogetherIsThatOfEach(t *testing.T) {
	const images, channels = 3, 5
	rng := rand.New(rand.NewPCG(17, 18))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, c := range [][2]int{{3, 5}, {4, 4}, {7, 7}, {1, 33}, {33, 1}, {32, 32}, {64, 64}, {65, 64}} {
		size := c[0] * c[1]
		for _, gap := range []int{0, 3} {
			for _, window := range [][8]int64{{}, {int64(c[0]), int64(c[1]), 1, 1, 0, 0, 1, 0}, {int64(c[0]), int64(c[1]), 1, 1, 0, 0, 1, 7}} {
				together := viewOf(t, dtype.Float32, mixed(images*channels*(size+gap), rng, false), images, channels, size+gap)
				memory := slice[float32](together.Ptr, together.Len())
				for i := range 4 {
					memory[i] = 3e38 // together beyond the range of float32
				}
				together.NDim, together.Shape, together.Strides = 4, [op.MaxDims]int{images, channels, c[0], c[1]}, [op.MaxDims]int{channels * (size + gap), size + gap, c[1], 1}
				one := viewOf(t, dtype.Float32, make([]float32, images*size*channels), images, c[0], c[1], channels)
				one.Shape, one.Strides = together.Shape, [op.MaxDims]int{one.Strides[0], one.Strides[3], one.Strides[1], one.Strides[2]}
				launch(t, &op.Call{Op: op.Copy, Out: []op.View{one}, In: []op.View{together}})
				g.parts = nil
				results := [2][]float32{watched[float32](images * channels), watched[float32](images * channels)}
				for i, image := range []op.View{one, together} {
					launch(t, &op.Call{Op: op.AvgPool2D, I: window, Out: []op.View{viewOf(t, dtype.Float32, results[i], images, channels, 1, 1)}, In: []op.View{image}})
				}
				requireSame(t, results[0], results[1], fmt.Sprint(c, gap, window))
				require.Zero(t, g.check())
			}
		}
	}
}
