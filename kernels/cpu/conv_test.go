package cpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// convCases are images, channels, size, outputs, kernel, stride and groups.
var convCases = []struct{ n, c, size, o, k, stride, groups int }{
	{3, 5, 9, 7, 3, 1, 1}, {2, 16, 20, 33, 3, 2, 1}, {2, 40, 7, 40, 1, 1, 1}, {4, 6, 15, 6, 5, 2, 6}, {2, 4, 12, 2, 3, 1, 1}, {5, 32, 30, 20, 3, 1, 1},
	{8, 12, 7, 150, 3, 2, 1}, // of 128 results an output
}

// convolveAll runs the three operations of each case and returns their results.
func convolveAll(t *testing.T, number func(rng *rand.Rand) float32) map[string][]float32 {
	t.Helper()
	results := map[string][]float32{}
	f := conv[float32](accessorOf[float32](dtype.Float32))
	for _, s := range convCases {
		fill := func(n int) []float32 {
			rng, v := rand.New(rand.NewPCG(1, uint64(n))), make([]float32, n)
			for i := range v {
				v[i] = number(rng)
			}
			return v
		}
		out := (s.size-1)/s.stride + 1
		image, result, kernel := []int{s.n, s.c, s.size, s.size}, []int{s.n, s.o, out, out}, []int{s.o, s.c / s.groups, s.k, s.k}
		for id, shapes := range map[op.ID][3][]int{
			op.Conv2D: {result, image, kernel}, op.Conv2DGradInput: {image, result, kernel}, op.Conv2DGradWeight: {kernel, result, image},
		} {
			var data [3][]float32
			var views [3]op.View
			for i, shape := range shapes {
				data[i] = fill(shape[0] * shape[1] * shape[2] * shape[3])
				views[i] = viewOf(t, dtype.Float32, data[i], shape...)
			}
			stride, padding := int64(s.stride), int64(s.k/2)
			require.NoError(t, f(&op.Call{Op: id, Out: views[:1], In: views[1:],
				I: [8]int64{stride, stride, padding, padding, 1, 1, int64(s.groups)}}))
			results[fmt.Sprint(id, s)] = data[0]
		}
	}
	return results
}

func TestConvolutions_AreTheSameWithPortableKernels(t *testing.T) {
	few := func(rng *rand.Rand) float32 { return float32(rng.IntN(5) - 2) } // sums are exact
	want := convolveAll(t, few)
	vector := kernels32
	defer func() { kernels32 = vector }()
	kernels32 = goKernels[float32]()
	require.Equal(t, want, convolveAll(t, few))
}

func TestConvolutions_DoNotDependOnTheNumberOfWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want := convolveAll(t, (*rand.Rand).Float32)
	for _, workers := range []int{2, 7} {
		runtime.GOMAXPROCS(workers)
		require.Equal(t, want, convolveAll(t, (*rand.Rand).Float32), workers)
	}
}
