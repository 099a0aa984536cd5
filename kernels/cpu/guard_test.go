package cpu

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// guards are pieces of memory that nobody may write to.
type guards struct {
	mu    sync.Mutex
	parts [][]byte
}

const canary = 0xa5

func (g *guards) add(part []byte) {
	for i := range part {
		part[i] = canary
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts = append(g.parts, part)
}

// check returns how many guards were written to.
func (g *guards) check() (broken int) {
	for _, part := range g.parts {
		if bytes.Count(part, []byte{canary}) != len(part) {
			broken++
		}
	}
	return broken
}

// view is a contiguous view of new memory between guards.
func (g *guards) view(t *testing.T, d dtype.DType, shape ...int) op.View {
	n := 1
	for _, s := range shape {
		n *= s
	}
	if d == dtype.Float64 {
		return viewOf(t, d, watched[float64](n), shape...)
	}
	return viewOf(t, d, watched[float32](n), shape...)
}

func TestKernels_WriteNothingBesideTheirMemory(t *testing.T) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float64} {
		v := func(shape ...int) op.View { return g.view(t, d, shape...) }
		for _, n := range []int{1, 2, 3, 5, 6, 7, 9, 11, 17, 31, 33} { // no multiples of 4, of vectors and of panels
			g.parts = nil
			long := 2*n + 1
			for name, c := range map[string]*op.Call{
				"product":                {Op: op.MatMul, Out: []op.View{v(n, long)}, In: []op.View{v(n, n), v(n, long)}, F: [8]float64{1}},
				"product of transposed":  {Op: op.MatMul, Out: []op.View{v(long, n)}, In: []op.View{transposed(v(n, long)), transposed(v(n, n))}, F: [8]float64{1}},
				"convolution":            guardedConv(op.Conv2D, 1, v(2, 7, 1, n), v(2, 5, 1, n), v(7, 5, 1, 3)),
				"gradient of images":     guardedConv(op.Conv2DGradInput, 1, v(2, 5, 1, n), v(2, 7, 1, n), v(7, 5, 1, 3)),
				"gradient of kernels":    guardedConv(op.Conv2DGradWeight, 1, v(7, 5, 1, 3), v(1, 7, 1, n), v(1, 5, 1, n)),
				"of channels":            guardedConv(op.Conv2D, 5, v(2, 5, 3, n), v(2, 5, 3, n), v(5, 1, 3, 3)),
				"of channels, of images": guardedConv(op.Conv2DGradInput, 5, v(2, 5, 3, n), v(2, 5, 3, n), v(5, 1, 3, 3)),
				"attention": {Op: op.Attention, Out: []op.View{v(1, 2, long, n), v(1, 2, long)},
					In: []op.View{v(1, 2, long, n), v(1, 2, n, n), v(1, 2, n, n)}, F: [8]float64{1}},
				"attention's gradients": {Op: op.AttentionGrad, Out: []op.View{v(1, 2, long, n), v(1, 2, n, n), v(1, 2, n, n)}, F: [8]float64{1},
					In: []op.View{v(1, 2, long, n), v(1, 2, long, n), v(1, 2, n, n), v(1, 2, n, n), v(1, 2, long, n),
						v(1, 2, long)}},
			} {
				launch(t, c)
				require.Zero(t, g.check(), "%s of %s, %d", name, d, n)
			}
		}
	}
}

// guardedConv is a convolution, or one of its gradients, with a step of 1 and the padding that keeps sizes.
func guardedConv(id op.ID, groups int64, out, a, b op.View) *op.Call {
	kernel := b
	if id == op.Conv2DGradWeight {
		kernel = out
	}
	return &op.Call{Op: id, Out: []op.View{out}, In: []op.View{a, b},
		I: [8]int64{1, 1, int64(kernel.Shape[2] / 2), int64(kernel.Shape[3] / 2), 1, 1, groups}}
}

func TestGuards_SeeWhatIsWrittenBesideMemory(t *testing.T) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	s := sized([]float32(nil), 8)
	require.Zero(t, g.check())
	s = sized(s, 8)
	elementsAt(&s[0], 9)[8] = 1
	require.Equal(t, 1, g.check())
}
