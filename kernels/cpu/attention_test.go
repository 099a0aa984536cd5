package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestColumnLoops_AreThoseOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{16, 32} {
		for _, rows := range []int{1, 5, 112} {
			block, d := make([]float32, rows*width), make([]float32, rows*width)
			for i := range block {
				block[i], d[i] = float32(10*rng.NormFloat64()), float32(rng.NormFloat64())
			}
			block[0], block[rows*width-1] = float32(math.Inf(-1)), float32(math.NaN())
			most, sum, delta := make([]float32, width), make([]float32, width), make([]float32, width)
			for i := range most {
				most[i], sum[i], delta[i] = -3, float32(i), float32(rng.NormFloat64())
			}
			most2, sum2 := append([]float32(nil), most...), append([]float32(nil), sum...)
			columns32.max(rows, width, &block[0], &most[0])
			columnMax(rows, width, &block[0], &most2[0])
			requireSame(t, most2, most, "maxima")

			p, p2 := append([]float32(nil), block...), append([]float32(nil), block...)
			columns32.exp(rows, width, &p[0], &most[0], &sum[0])
			columnExp(rows, width, &p2[0], &most[0], &sum2[0])
			requireNear(t, p2, p)
			requireNear(t, sum2, sum)

			d2 := append([]float32(nil), d...)
			columns32.grad(rows, width, &p2[0], &d[0], &delta[0])
			columnGrad(rows, width, &p2[0], &d2[0], &delta[0])
			requireSame(t, d2, d, "gradients")
		}
	}
}

// requireNear allows two ulps, and what is less than the smallest normal number.
func requireNear(t *testing.T, want, got []float32) {
	t.Helper()
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		same := math.IsNaN(w) && math.IsNaN(g) || math.Abs(w-g) <= 2.5e-7*math.Abs(w)+1.2e-38
		require.True(t, same, "element %d is %v, want %v", i, g, w)
	}
}

// A large score at the end makes all that was summed before it vanish, and a row of equal scores keeps everything.
func TestAttention_CorrectsEarlierSumsWhenALargerScoreTurnsUp(t *testing.T) {
	const keys = 300
	q, k, v := []float32{1, 0}, make([]float32, keys), make([]float32, keys)
	for i := range v {
		v[i] = float32(i)
	}
	k[keys-1] = 200
	out, lse := make([]float32, 2), make([]float32, 2)
	c := call(1)
	c.Op = op.Attention
	c.In = []op.View{viewOf(t, dtype.Float32, q, 1, 1, 2, 1), viewOf(t, dtype.Float32, k, 1, 1, keys, 1), viewOf(t, dtype.Float32, v, 1, 1, keys, 1)}
	c.Out = []op.View{viewOf(t, dtype.Float32, out, 1, 1, 2, 1), viewOf(t, dtype.Float32, lse, 1, 1, 2)}
	launch(t, c)
	require.Equal(t, []float32{keys - 1, (keys - 1) / 2.0}, out)
	require.Equal(t, float32(200), lse[0])
	require.InDelta(t, math.Log(keys), lse[1], 1e-6)
}

// Rounding may not depend on how work is shared.
func TestAttention_IsTheSameOnAnyNumberOfProcessors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const heads, n, depth = 3, 300, 20
	make4 := func() op.View {
		x := make([]float32, heads*n*depth)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return viewOf(t, dtype.Float32, x, 1, heads, n, depth)
	}
	q, k, v, grad := make4(), make4(), make4(), make4()
	var first [4][]float32
	for _, procs := range []int{1, 2, 7} {
		var got [4][]float32
		var views [4]op.View
		for i := range got {
			got[i] = make([]float32, heads*n*depth)
			views[i] = viewOf(t, dtype.Float32, got[i], 1, heads, n, depth)
		}
		lse := viewOf(t, dtype.Float32, make([]float32, heads*n), 1, heads, n)
		workers(procs, func() {
			c := call(0.3, 0.2)
			c.Op, c.In, c.Out = op.Attention, []op.View{q, k, v}, []op.View{views[0], lse}
			launch(t, c)
			c.Op, c.In, c.Out = op.AttentionGrad, []op.View{grad, q, k, v, views[0], lse}, views[1:]
			launch(t, c)
		})
		for i := range got {
			if procs == 1 {
				first[i] = got[i]
			}
			requireSame(t, first[i], got[i], "result")
		}
	}
}
