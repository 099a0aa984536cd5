package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFunctions_HaveTheBitsOfOtherProcessors compares what functions give with what they gave on amd64: a compiler that fuses a product into a sum, as those for arm64 and
// riscv64 do, would change it.
func TestFunctions_HaveTheBitsOfOtherProcessors(t *testing.T) {
	scalars := &functionScalars{narrow: [4]float32{0.75, 1.5, 0.25, 5}, wide: [4]float64{2.5}}
	var of32, of64, ofAngles digest
	var in [3][]float32
	var wide []float64
	for k := range in {
		in[k] = plainSamples[float32](uint64(k), 1<<12)
	}
	wide = plainSamples[float64](5, 1<<12)
	out, wideOut := make([]float32, 1<<12), make([]float64, 1<<12)
	for f := range functionID(functionCount) {
		apply(f, out, in[0], in[1], in[2], scalars)
		for _, v := range out {
			of32.add(float64(v))
		}
	}
	for f := range wideFunctionID(wideFunctionCount) {
		applyWide(f, wideOut, wide, wide, wide, scalars)
		for _, v := range wideOut {
			of64.add(v)
		}
	}
	for _, x := range wide {
		for _, f := range []func(float64) float64{sin64, cos64, tan64} {
			ofAngles.add(f(x))
			ofAngles.add(f(math.Ldexp(x, 60)))
		}
	}
	require.Equal(t, [3]digest{0x6f4cbc2822551a50, 0x89b1ba5752fe65f1, 0x86aeffb67788383e}, [3]digest{of32, of64, ofAngles})
}

// digest is a number that changes with each bit of what it was made of, but for what NaN there is.
type digest uint64

func (d *digest) add(v float64) {
	if v != v {
		v = math.Inf(1)
	}
	*d = (*d ^ digest(math.Float64bits(v))) * 0x9e3779b97f4a7c15
	*d ^= *d >> 29
}

// plainSamples are the same numbers on every processor: functions of package math are not.
func plainSamples[T float32 | float64](seed uint64, n int) []T {
	rng := rand.New(rand.NewPCG(seed, 77))
	v := make([]T, n)
	for i := range v {
		v[i] = T(math.Ldexp(rng.Float64()-0.5, rng.IntN(24)-12))
	}
	return v
}
