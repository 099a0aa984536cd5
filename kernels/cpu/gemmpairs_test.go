package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Products of pairs are those of the elements as float32, however operands lie: small whole numbers leave nothing to round.
func TestMatMul_OfPairsIsThatOfFloat32(t *testing.T) {
	if pairKernels == nil {
		t.Skip("the processor has no AVX512-BF16")
	}
	rng := rand.New(rand.NewPCG(41, 42))
	g := &guards{}
	for _, size := range [][3]int{{14, 32, 32}, {17, 33, 34}, {40, 70, 64}, {65, 31, 600}, {128, 96, 1026}, {100, 5, 62}, {9, 300, 48}, {33, 64, 33}} {
		m, n, k := size[0], size[1], size[2]
		for turned := range 4 {
			a, b := watchedHalves(rng, g, m*k), watchedHalves(rng, g, k*n)
			va, vb := viewOf(t, dtype.BFloat16, a, m, k), viewOf(t, dtype.BFloat16, b, k, n)
			if turned&1 != 0 {
				va.Strides[0], va.Strides[1] = 1, m
			}
			if turned&2 != 0 {
				vb.Strides[0], vb.Strides[1] = 1, k
			}
			watch = g.add
			out := watched[uint16](m * n)
			c := &op.Call{Op: op.MatMul, Out: []op.View{viewOf(t, dtype.BFloat16, out, m, n)}, In: []op.View{va, vb}}
			c.F[0] = 1
			launch(t, c)
			watch = nil
			require.Zero(t, g.check(), size)
			g.parts = nil
			at := func(x []uint16, v *op.View, i, j int) float32 {
				return math.Float32frombits(uint32(x[i*v.Strides[0]+j*v.Strides[1]]) << 16)
			}
			for i := range m {
				for j := range n {
					var sum float32
					for l := range k {
						sum += at(a, &va, i, l) * at(b, &vb, l, j)
					}
					require.Equal(t, brainBits(sum), out[i*n+j], fmt.Sprint(size, turned, i, j))
				}
			}
		}
	}
}

// watchedHalves are n whole numbers from -4 to 4.
func watchedHalves(rng *rand.Rand, g *guards, n int) []uint16 {
	watch = g.add
	v := watched[uint16](n)
	watch = nil
	for i := range v {
		v[i] = brainBits(float32(rng.IntN(9) - 4))
	}
	return v
}

// Results of float32, whose rows or columns lie side by side.
func TestMultiplyPairs_WritesFloat32(t *testing.T) {
	if pairKernels == nil {
		t.Skip("the processor has no AVX512-BF16")
	}
	rng := rand.New(rand.NewPCG(43, 44))
	g := &guards{}
	const m, n, k = 45, 37, 66
	a, b := watchedHalves(rng, g, k*m), watchedHalves(rng, g, k*n)
	for _, to := range [][2]int{{n, 1}, {1, m}} {
		watch = g.add
		out := watched[float32](m * n)
		require.True(t, multiplyPairs(&product[float32]{
			m: m, n: n, k: k, alpha: 0.5, dst: matrix{addressOf(out), to[0], to[1]}, a: matrix{addressOf(a), 1, m}, b: matrix{addressOf(b), n, 1},
		}))
		watch = nil
		require.Zero(t, g.check())
		for i := range m {
			for j := range n {
				var sum float32
				for l := range k {
					sum += math.Float32frombits(uint32(a[l*m+i])<<16) * math.Float32frombits(uint32(b[l*n+j])<<16)
				}
				require.Equal(t, sum/2, out[i*to[0]+j*to[1]], "%d %d", i, j)
			}
		}
	}
	require.False(t, multiplyPairs(&product[float32]{m: m, n: n, k: k - 1}), "an odd number of steps")
}
