package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNorm_OfVectorsHasTheBitsOfTheLoop(t *testing.T) {
	if vector.squareSums == nil {
		t.Skip("no vectors")
	}
	saved := vector
	defer func() { vector = saved }()
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range 70 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Exp(20*rng.NormFloat64()))
		}
		vector = saved
		got := norm(x, 2)
		vector = vectorLoops{}
		require.Equal(t, math.Float64bits(norm(x, 2)), math.Float64bits(got), n)
	}
}
