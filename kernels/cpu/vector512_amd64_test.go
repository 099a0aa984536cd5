package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Loops by vectors of 64 bytes have the bits of those of 32, at all lengths.
func TestVectors_OfEveryWidthHaveTheSameBits(t *testing.T) {
	if !wideVectors() {
		t.Skip("the processor has no AVX-512")
	}
	rng := rand.New(rand.NewPCG(31, 32))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for n := 8; n < 420; n += 8 {
		a, b, w := mixed(n+1, rng, false)[1:], mixed(n+1, rng, false)[1:], mixed(n+1, rng, false)[1:]
		require.Equal(t, math.Float64bits(dotWideAVX2(n, &a[0], &b[0])), math.Float64bits(dotWideAVX512(n, &a[0], &b[0])), n)
		if n%16 == 0 {
			require.Equal(t, math.Float64bits(prodAVX2(n, &a[0])), math.Float64bits(prodAVX512(n, &a[0])), n)
		}
		c := &normRow{mean: 0.25, rstd: 1.5, slope: -0.75, shift: 0.125}
		var sums [2][2]float64
		normDotsAVX2(n, &a[0], &w[0], &b[0], c, &sums[0])
		normDotsAVX512(n, &a[0], &w[0], &b[0], c, &sums[1])
		require.Equal(t, sums[0], sums[1], n)
		var grads [2][]float32
		grads[0], grads[1] = watched[float32](n), watched[float32](n)
		normGradsAVX2(n, &grads[0][0], &a[0], &w[0], &b[0], c)
		normGradsAVX512(n, &grads[1][0], &a[0], &w[0], &b[0], c)
		requireSame(t, grads[0], grads[1], "gradients")
		testLogic(t, rng, 4*n)
		testMergeProds(t, rng, n)
		if n%16 == 0 {
			testNormSums(t, rng, n)
		}
		require.Zero(t, g.check(), n)
		g.parts = nil
	}
}

func testNormSums(t *testing.T, rng *rand.Rand, n int) {
	for _, rows := range []int{1, 4, 7, normTogether} {
		x, y := mixed(rows*(n+5)+1, rng, false)[1:], mixed(rows*(n+5)+1, rng, false)[1:]
		mean, rstd := mixed(rows+1, rng, false)[1:], mixed(rows+1, rng, false)[1:]
		var parts [2][2][]float64
		for i, f := range []func(rows, n int, grad, x *float32, ld int, mean, rstd *float32, products, sums *float64){normSumsAVX2, normSumsAVX512} {
			parts[i] = [2][]float64{watched[float64](n), watched[float64](n)}
			for k := range n {
				parts[i][0][k], parts[i][1][k] = float64(k), float64(-k)
			}
			f(rows, n, &x[0], &y[0], 4*(n+5), &mean[0], &rstd[0], &parts[i][0][0], &parts[i][1][0])
		}
		require.Equal(t, parts[0], parts[1], "%d rows of %d", rows, n)
	}
}

func testLogic(t *testing.T, rng *rand.Rand, n int) {
	a, b := watched[byte](n + 1)[1:], watched[byte](n + 1)[1:]
	for i := range a {
		a[i], b[i] = byte(rng.Uint32()), byte(rng.Uint32())
	}
	m := [4]uint64{rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64()}
	var out [2][]byte
	for i, f := range []func(n int, dst, a, b *byte, m *[4]uint64){logicAVX2, logicAVX512} {
		out[i] = watched[byte](n)
		f(n, &out[i][0], &a[0], &b[0], &m)
	}
	require.Equal(t, out[0], out[1], n)
}

func testMergeProds(t *testing.T, rng *rand.Rand, n int) {
	for fours := 1; fours <= 3; fours++ {
		rows := mixed(4*fours*(n+5)+1, rng, false)[1:]
		var out [2][]float64
		for i, f := range []func(fours, n int, acc *float64, rows *float32, ld int){mergeProdsAVX2, mergeProdsAVX512} {
			out[i] = watched[float64](n)
			for k := range n {
				out[i][k] = 1 + float64(k)/7
			}
			f(fours, n, &out[i][0], &rows[0], 4*(n+5))
		}
		for k := range n {
			require.Equal(t, math.Float64bits(out[0][k]), math.Float64bits(out[1][k]), "%d of %d", k, n)
		}
	}
}

func TestCasts_FromInt64ByVectorsAreGos(t *testing.T) {
	if !wideVectors() {
		t.Skip("the processor has no AVX-512")
	}
	rng := rand.New(rand.NewPCG(33, 34))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for n := 8; n < 80; n += 8 {
		src, single, double := watched[int64](n), watched[float32](n), watched[float64](n)
		for i := range src {
			src[i] = int64(rng.Uint64()) >> rng.IntN(64)
		}
		int64ToFloat32AVX512(n, &bytesOf(single)[0], &bytesOf(src)[0])
		int64ToFloat64AVX512(n, &bytesOf(double)[0], &bytesOf(src)[0])
		for i, v := range src {
			require.Equal(t, float32(v), single[i], v)
			require.Equal(t, float64(v), double[i], v)
		}
		require.Zero(t, g.check(), n)
		g.parts = nil
	}
}
