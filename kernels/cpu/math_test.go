package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// arguments are float32 numbers of all sizes and signs: every 2^12th of all there are (with -short, every 2^16th), and edges.
func arguments() []float32 {
	list := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0.25, -0.25,
		math.Nextafter32(0.25, 0), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 88.72284, 88.7229, -87.33655, -103.97208, -104, 709, 710, -708, -709}
	rng := rand.New(rand.NewPCG(3, 4))
	bits := 20 // of the numbers' own; the others are random
	if testing.Short() {
		bits = 16
	}
	for i := range 1 << bits {
		list = append(list, math.Float32frombits(uint32(i)<<(32-bits)|rng.Uint32()>>bits))
	}
	for range 1 << (bits - 2) { // where the functions bend
		list = append(list, 40*(rng.Float32()-0.5), 200*(rng.Float32()-0.5))
	}
	return list
}

// ulps is the distance of a float32 from the exact value, in units of the last place of the exact value.
func ulps(got float32, exact float64) float64 {
	e := float32(exact)
	if got == e || got != got && exact != exact {
		return 0
	}
	if math.IsInf(float64(got), 0) || got != got || math.IsInf(float64(e), 0) {
		return math.Inf(1)
	}
	unit := math.Ldexp(1, max(math.Ilogb(exact), -126)-23)
	return math.Abs(float64(got)-exact) / unit
}

// TestVector_LoopsGiveTheBitsOfTheGoLoops compares each vector loop with the Go kernel it replaces.
func TestVector_LoopsGiveTheBitsOfTheGoLoops(t *testing.T) {
	if vector.add == nil {
		t.Skip("this processor has no vector loops")
	}
	a := arguments()
	n := len(a) &^ 7
	a = a[:n]
	b := make([]float32, n)
	for i := range b {
		b[i] = a[(i*7919+13)%n]
	}
	at := 0
	special := []float32{0, float32(math.Copysign(0, -1)), 1, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for _, x := range special {
		for _, y := range special {
			a[at], b[at] = x, y
			at++
		}
	}
	got, want := make([]float32, n), make([]float32, n)
	same := func(name string) {
		t.Helper()
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
				require.Failf(t, "different bits", "%s(%g, %g) is %g, in Go %g", name, a[i], b[i], got[i], want[i])
			}
		}
	}
	for name, f := range map[string]struct {
		vector func(int, *float32, *float32)
		plain  kernel1[float32, float32]
	}{
		"relu": {vector.relu, relu[float32]},
	} {
		f.vector(n, &got[0], &a[0])
		f.plain(want, a, nil)
		same(name)
	}
	for name, f := range map[string]struct {
		vector func(int, *float32, *float32, *float32)
		plain  kernel2[float32, float32, float32]
	}{
		"sub": {vector.sub, sub[float32]}, "mul": {vector.mul, mul[float32]}, "div": {vector.div, div[float32]}, "maximum": {vector.maximum, maximum[float32]},
		"minimum": {vector.minimum, minimum[float32]}, "reluGrad": {vector.reluGrad, reluGrad[float32]},
	} {
		f.vector(n, &got[0], &a[0], &b[0])
		f.plain(want, a, b, nil)
		same(name)
	}
	vector.add(n, &got[0], &a[0], &b[0])
	for i := range want {
		want[i] = a[i] + b[i]
	}
	same("add")
	vector.addScalar(n, &got[0], &a[0], 1.25)
	for i := range want {
		want[i] = a[i] + 1.25
	}
	same("addScalar")
	vector.mulScalar(n, &got[0], &a[0], -1.25)
	for i := range want {
		want[i] = a[i] * -1.25
	}
	same("mulScalar")
}

func TestVector_ReductionsGiveTheBitsOfTheGoLoops(t *testing.T) {
	if vector.sum == nil {
		t.Skip("this processor has no vector loops")
	}
	saved := vector
	defer func() { vector = saved }()
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 7, 8, 9, 64, 511, 512, 513, 1000, 5000} {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		rows := make([]float64, n)
		out, tmp := make([]float32, n), make([]float32, n)
		results := func() []float64 {
			clear(rows)
			mergeFloats(rows, v)
			s := expSum(out, v, v[0])
			softmax(tmp, v, nil, nil)
			r := []float64{foldSum(3, v), float64(maxOf(v[0], v)), float64(minOf(v[0], v)), s}
			for i := range v {
				r = append(r, rows[i], float64(out[i]), float64(tmp[i]))
			}
			return r
		}
		for range 2 {
			vector = saved
			fast := results()
			vector = vectorLoops{}
			require.Equal(t, results(), fast, "%d elements", n)
		}
		vector = saved
		v[n/2] = float32(math.NaN())
		require.True(t, maxOf(v[0], v) != maxOf(v[0], v) && minOf(v[0], v) != minOf(v[0], v), "NaN among %d elements is lost", n)
	}
}

func TestNarrow_RoundsOnceOnTheWayToHalfPrecision(t *testing.T) {
	wide := []float64{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-50, -(1 + 3*0x1p-11 - 0x1p-40), 0x1p-25 + 0x1p-60, 1e300, math.Inf(-1), 1, 1}
	f := make([]float32, len(wide))
	narrow(f, wide, nil)
	h, b := make([]uint16, len(wide)), make([]uint16, len(wide))
	toHalf(h, f)
	toBrain(b, f)
	require.Equal(t, []uint16{0x3c01, 0x3c04}, h[:2])
	require.Equal(t, []uint16{0xbc01, 1, 0x7c00, 0xfc00}, h[2:6])
	require.Equal(t, []uint16{0x3f80, 0x3f81}, b[:2])

	whole := []int64{1<<62 + 1<<54 + 1, 1<<62 + 1<<54, -(1<<62 + 1<<54 + 1), math.MinInt64, math.MaxInt64, 0}
	f = make([]float32, len(whole))
	narrow(f, whole, nil)
	b = make([]uint16, len(whole))
	toBrain(b, f)
	require.Equal(t, []uint16{0x5e81, 0x5e80, 0xde81, 0xdf00, 0x5f00, 0}, b)
}

func TestClamp_BoundsOutsideTheTypeSaturate(t *testing.T) {
	require.Equal(t, uint8(0), saturated[uint8](0, -1))
	require.Equal(t, uint8(255), saturated[uint8](0, 1000))
	require.Equal(t, int32(math.MinInt32), saturated[int32](0, math.MinInt64))
	require.Equal(t, int32(math.MaxInt32), saturated[int32](0, math.MaxInt64))
	require.Equal(t, int64(math.MinInt64), saturated[int64](0, math.MinInt64))
	require.Equal(t, float32(1.5), saturated[float32](1.5, 7))
}
