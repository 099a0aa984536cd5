package cpu

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestSmallProducts_AreThoseOfPackedOperands(t *testing.T) {
	if len(smallKernels) == 0 {
		t.Skip("the processor has no instructions for them")
	}
	all := smallKernels
	defer func() { smallKernels = all }()
	for i := range all {
		smallKernels = all[i:]
		t.Run(fmt.Sprint(all[i].rows, " rows"), testSmallProducts)
	}
}

func testSmallProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, s := range [][3]int{{6, 1, 16}, {7, 3, 17}, {16, 16, 16}, {17, 256, 31}, {64, 64, 64}, {33, 65, 100}, {20, 5, 16}, {8, 3, 32}, {9, 7, 33}, {30, 11, 63}} {
		m, k, n := s[0], s[1], s[2]
		a, b := mixed(m*k+1, rng, false)[1:], mixed(k*n+1, rng, false)[1:]
		for turn := range 3 { // as they lie, with a transposed, with a transposed result
			g.parts = nil
			packed, small := watched[float32](m*n), watched[float32](m*n)
			product := func(out []float32) *op.Call {
				c := &op.Call{Op: op.MatMul, F: [8]float64{1.5}, Out: []op.View{viewOf(t, dtype.Float32, out, m, n)},
					In: []op.View{viewOf(t, dtype.Float32, a, m, k), viewOf(t, dtype.Float32, b, k, n)}}
				switch turn {
				case 1:
					c.In[0] = transposed(viewOf(t, dtype.Float32, a, k, m))
				case 2:
					c.In[0], c.In[1] = transposed(viewOf(t, dtype.Float32, b, k, n)), transposed(viewOf(t, dtype.Float32, a, m, k))
					c.Out[0] = transposed(c.Out[0])
				}
				return c
			}
			launch(t, product(small))
			kernels := smallKernels
			smallKernels = nil
			launch(t, product(packed))
			smallKernels = kernels
			for i := range packed {
				require.InDelta(t, packed[i], small[i], 1e-5*float64(k), fmt.Sprint(s, turn, i))
			}
			require.Zero(t, g.check(), fmt.Sprint(s, turn))
		}
	}
}

func TestThinAndFlatProducts_AreThoseOfOthers(t *testing.T) {
	if len(smallKernels) == 0 {
		t.Skip("the processor has no instructions for them")
	}
	thin, small := thinKernel, smallKernels
	defer func() { thinKernel, smallKernels = thin, small }()
	for i := range small {
		t.Run(fmt.Sprint(small[i].rows, " rows"), func(t *testing.T) { testThinAndFlat(t, thin, small[i:]) })
		thin = small[1%len(small)]
	}
}

func testThinAndFlat(t *testing.T, thin smallKernel, small []smallKernel) {
	rng := rand.New(rand.NewPCG(25, 26))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	var calls [2]atomic.Int64
	counted := func(k smallKernel, calls *atomic.Int64) smallKernel {
		tile := k.tile
		k.tile = func(n int, a *float32, row, step int, b *float32, ld int, c *float32, to int, alpha float32, add bool) {
			calls.Add(1)
			tile(n, a, row, step, b, ld, c, to, alpha, add)
		}
		return k
	}
	thin, flat := counted(thin, &calls[0]), []smallKernel{counted(small[0], &calls[1])}
	for _, s := range [][3]int{{48, 1, 16}, {49, 300, 5}, {100, 7, 10}, {59, 1025, 16}, {1200, 33, 15}, {16, 600, 1024}, {9, 257, 77}, {15, 1, 32}, {13, 300, 33}} {
		for turn := range 8 {
			g.parts = nil
			product := thinProduct(t, rng, s, turn)
			var first []float32
			for _, number := range []int{1, 3} {
				out, other := watched[float32](s[0]*s[2]), watched[float32](s[0]*s[2])
				thinKernel, smallKernels = thin, flat
				workers(number, func() { launch(t, product(out)) })
				thinKernel, smallKernels = smallKernel{}, nil
				launch(t, product(other))
				for i := range other {
					require.InDelta(t, other[i], out[i], 1e-5*float64(s[1]), fmt.Sprint(s, turn, i))
				}
				require.Zero(t, g.check(), fmt.Sprint(s, turn))
				if first == nil {
					first = out
				}
				requireSame(t, first, out, fmt.Sprint(s, turn))
			}
		}
	}
	require.Greater(t, calls[0].Load(), int64(1000))
	require.Greater(t, calls[1].Load(), int64(500))
}

// thinProduct makes calls of a product of m x k by k x n: as it lies, with b transposed, with a transposed result, and with a transposed result of operands as they
// lie, and from turn 4 on added to something.
func thinProduct(t *testing.T, rng *rand.Rand, s [3]int, turn int) func(out []float32) *op.Call {
	m, k, n := s[0], s[1], s[2]
	a, b, added := mixed(m*k+1, rng, false)[1:], mixed(k*n+1, rng, false)[1:], mixed(m*n+1, rng, false)[1:]
	return func(out []float32) *op.Call {
		c := &op.Call{Op: op.MatMul, F: [8]float64{1.5}, Out: []op.View{viewOf(t, dtype.Float32, out, m, n)},
			In: []op.View{viewOf(t, dtype.Float32, a, m, k), viewOf(t, dtype.Float32, b, k, n)}}
		switch turn % 4 {
		case 1:
			c.In[1] = transposed(viewOf(t, dtype.Float32, b, n, k))
		case 2:
			c.In[0], c.In[1] = transposed(viewOf(t, dtype.Float32, b, k, n)), transposed(viewOf(t, dtype.Float32, a, m, k))
			c.Out[0] = transposed(c.Out[0])
		case 3:
			c.Out[0] = transposed(viewOf(t, dtype.Float32, out, n, m))
		}
		if turn >= 4 {
			rows, columns := c.Out[0].Shape[0], c.Out[0].Shape[1]
			c.F[1], c.In = -0.5, append(c.In, viewOf(t, dtype.Float32, added, rows, columns))
			if turn%2 == 1 {
				c.In[2] = transposed(viewOf(t, dtype.Float32, added, columns, rows))
			}
		}
		return c
	}
}
