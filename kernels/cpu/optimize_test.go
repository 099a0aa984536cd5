package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// TestOptimizers_VectorLoopsGiveTheBitsOfTheGoLoops takes all combinations of flags, and numbers that are none.
func TestOptimizers_VectorLoopsGiveTheBitsOfTheGoLoops(t *testing.T) {
	if vector.adam == nil {
		t.Skip("this processor has no vector loops")
	}
	saved := vector
	defer func() { vector = saved }()
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 1000 - 3
	var start [4][]float32
	for i := range start {
		start[i] = make([]float32, n)
		for k := range start[i] {
			start[i][k] = float32(rng.NormFloat64())
			if i == 2 {
				start[i][k] *= start[i][k]
			}
		}
	}
	start[0][5], start[0][13], start[3][21] = float32(math.Inf(1)), float32(math.NaN()), float32(math.Inf(-1))
	both := func(name string, step func(p, a, b, g []float32)) {
		var results [2][]float32
		for i, loops := range []vectorLoops{saved, {}} {
			vector = loops
			var x [4][]float32
			for k := range x {
				x[k] = append([]float32(nil), start[k]...)
			}
			step(x[0], x[1], x[2], x[3])
			for k := range x {
				results[i] = append(results[i], x[k]...)
			}
			require.NotEqual(t, start[0][0], x[0][0], name)
		}
		requireSame(t, results[1], results[0], name)
	}
	for flags := range int64(8) {
		for _, decay := range []float64{0, 0.1} {
			c := &op.Call{F: [8]float64{0.01, 0.9, 0.999, 1e-8, decay, 3}, I: [8]int64{1, flags & 1, flags >> 1 & 1}}
			both(fmt.Sprintf("adam %v %v", c.F, c.I), func(p, m, v, g []float32) {
				s := adamScalarsOf[float32](c, stepStart{c.F[5], 1})
				adam(p, m, v, g, &s)
			})
			for _, momentum := range []float64{0, 0.9} {
				c := &op.Call{Op: op.SGDStep, F: [8]float64{0.01, momentum, decay, 0.25}, I: [8]int64{1, flags & 1, flags >> 1 & 1, flags >> 2}}
				both(fmt.Sprintf("sgd %v %v", c.F, c.I), func(p, buf, _, g []float32) {
					s := sgdScalarsOf[float32](c, stepStart{op.StepNumber(c), 1})
					sgd(p, buf, nil, g, &s)
				})
			}
		}
	}
}
