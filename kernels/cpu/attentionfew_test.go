package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Few queries and panels of them are two ways to the same results: every case runs both ways.
func TestAttention_OfFewQueriesIsThatOfPanels(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, kv := range []int{1, 2} {
		for _, group := range []int{1, 3} {
			for _, queries := range []int{1, 2, 5, 33} {
				for _, keys := range []int{1, 7, 255, 256, 257, 600} {
					for _, depth := range []int{1, 8, 20, 64} {
						c := fewCase{kv: kv, group: group, queries: queries, keys: keys, depth: depth, width: depth + keys%3}
						c.causal, c.drop, c.mask = keys%2 == 0, keys == 257, []maskKind{noMask, truthMask, addedMask}[(keys+depth+group)%3]
						c.check(t, rng)
					}
				}
			}
		}
	}
}

// fewCase is sizes of attention of two examples.
type fewCase struct {
	kv, group, queries, keys, depth, width int
	causal, drop                           bool
	mask                                   maskKind
}

func (c *fewCase) check(t *testing.T, rng *rand.Rand) {
	t.Helper()
	random := func(shape ...int) op.View {
		n := 1
		for _, s := range shape {
			n *= s
		}
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return viewOf(t, dtype.Float64, x, shape...)
	}
	heads := c.kv * c.group
	in := []op.View{random(2, heads, c.queries, c.depth), random(2, c.kv, c.keys, c.depth), random(2, c.kv, c.keys, c.width)}
	var mask []op.View
	switch c.mask {
	case addedMask:
		mask = []op.View{random(2, heads, c.queries, c.keys)}
	case truthMask:
		x := make([]uint8, 2*heads*c.queries*c.keys)
		for i := range x {
			x[i] = uint8(rng.IntN(2))
		}
		mask = []op.View{viewOf(t, dtype.Bool, x, 2, heads, c.queries, c.keys)}
	}
	rate := 0.0
	if c.drop {
		rate = 0.25
	}
	ints := []int64{0, 11, 13}
	if c.causal {
		ints[0] = 1
	}
	run := func(few bool) ([]float64, []float64) {
		out, lse := make([]float64, 2*heads*c.queries*c.width), make([]float64, 2*heads*c.queries)
		call := &op.Call{In: append(in[:3:3], mask...), F: [8]float64{0.3, rate}}
		copy(call.I[:], ints)
		j := &attentionForward[float64]{}
		j.access, j.all, j.columns = accessorOf[float64](dtype.Float64), matMulKernelsOf[float64](), columnLoopsOf[float64]()
		to, sums := viewOf(t, dtype.Float64, out, 2, heads, c.queries, c.width), viewOf(t, dtype.Float64, lse, 2, heads, c.queries)
		j.set(call, 0, &to, &sums, mask)
		j.attend(few)
		return out, lse
	}
	name := fmt.Sprintf("%+v", *c)
	out, lse := run(true)
	wantOut, wantLse := run(false)
	require.InDeltaSlice(t, wantOut, out, 1e-12, name)
	for i, want := range wantLse {
		if want != lse[i] { // minus infinity is no number to subtract
			require.InDelta(t, want, lse[i], 1e-12, name)
		}
	}
}

// The loops over rows stay within their rows, of any number and distance.
func TestRowLoops_AreThoseOfGo(t *testing.T) {
	loops := rowLoopsOf[float32]()
	if loops.dots == nil {
		t.Skip("no loops of this processor")
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, width := range []int{8, 16, 56, 64, 72, 136} {
		for _, n := range []int{8, 16, 24} {
			for _, ld := range []int{width, width + 3} {
				q, rows, p := normals(rng, width), normals(rng, (n-1)*ld+width), normals(rng, n)
				s, acc := make([]float32, n+1), normals(rng, width+1)
				s[n], acc[width] = 77, 78
				want := append([]float32(nil), acc...)
				loops.dots(n, width, &q[0], &rows[0], ld, 0.5, &s[0])
				loops.sums(n, width, &p[0], &rows[0], ld, &acc[0])
				for i := range n {
					row, dot := rows[i*ld:][:width], 0.0
					for x, v := range row {
						dot += float64(v) * float64(q[x])
						want[x] += v * p[i]
					}
					require.InDelta(t, dot/2, s[i], 1e-4)
				}
				require.InDeltaSlice(t, want, acc, 1e-4)
				require.Equal(t, []float32{77, 78}, []float32{s[n], acc[width]}, "written beside the result")
			}
		}
	}
}

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}
