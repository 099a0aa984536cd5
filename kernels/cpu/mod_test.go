package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMod_IsTheExactRemainder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 3, 0x1p26, 0x1p-149, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	check := func(a, b float32) {
		want := math.Mod(float64(a), float64(b))
		got := mod(a, b)
		if math.Float64bits(got) != math.Float64bits(want) && (got == got || want == want) {
			require.Failf(t, "another remainder", "%g mod %g is %g, want %g", a, b, got, want)
		}
	}
	for _, a := range special {
		for _, b := range special {
			check(a, b)
		}
	}
	for range 300_000 {
		check(math.Float32frombits(rng.Uint32()), math.Float32frombits(rng.Uint32()))
		// Quotients that are nearly whole, around the largest that are not left to math.Mod.
		b := float32(rng.IntN(1<<24)) + 1
		a := float32(b * float32(rng.IntN(1<<27)))
		check(a, b)
		check(math.Nextafter32(a, 0), b)
		check(-math.Nextafter32(a, math.MaxFloat32), b)
	}
}
