package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestPackFloats_AreTheKeysOfNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	values := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(-math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32}
	for range 10_000 {
		values = append(values, math.Float32frombits(rng.Uint32()))
	}
	o := narrowOrdering(keyFloat32)
	for _, flip := range []uint64{0, 1<<64 - 1} {
		got, same := make([]packed, len(values)), make([]packed, len(values))
		packFloats(got, values, 7, flip)
		o.pack(same, values, 7, flip)
		for i, v := range values {
			require.Equal(t, o.entry(v, 7+i, flip), got[i], v)
			require.Equal(t, got[i], same[i], v)
		}
	}
}

func TestOrderPacked_SortsEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, n := range []int{1, 2, 3, 64, packedRadix - 1, packedRadix, 1000, 5000} {
		for _, mask := range []uint64{1<<64 - 1, 0xff << 40, 0} {
			e := make([]packed, n)
			for i := range e {
				e[i] = rng.Uint64()&mask&^(1<<32-1) | uint64(i)
			}
			want := slices.Sorted(slices.Values(e))
			for _, k := range []int{1, n/9 + 1, n} {
				heap := make([]packed, k)
				leastPacked(heap, e)
				require.Equal(t, want[:k], slices.Sorted(slices.Values(heap)))
			}
			require.Equal(t, want, orderPacked(e, make([]packed, n)))
		}
	}
}

func TestOrderPacked_SortsAnyFewEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	for n := range packedRadix {
		for range 5 {
			e := make([]packed, n)
			for i := range e {
				e[i] = uint64(rng.IntN(n+1))<<32 | uint64(i)
			}
			rng.Shuffle(n, func(i, j int) { e[i], e[j] = e[j], e[i] })
			require.Equal(t, append(make([]packed, 0, n), slices.Sorted(slices.Values(e))...), orderPacked(e, make([]packed, n)), n)
		}
	}
}

func TestCumSum_OfFourRowsIsThatOfOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, rows := range []int{1, 3, 4, 5, 11} {
		const columns = 1030
		x := mixed(rows*columns, rng, false)
		got := make([]float32, rows*columns+8)
		launch(t, &op.Call{Op: op.CumSum, Out: []op.View{viewOf(t, dtype.Float32, got, rows, columns)}, In: []op.View{viewOf(t, dtype.Float32, x, rows, columns)}})
		want := make([]float32, len(got))
		for r := range rows {
			var sum float64
			for i := r * columns; i < (r+1)*columns; i++ {
				sum += float64(x[i])
				want[i] = float32(sum)
			}
		}
		requireSame(t, want, got, "")
	}
}
