package autograd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
)

// The time of a backward pass goes with the number of uses of a variable, not with its square.
func TestBackward_OfManyUsesOfOneVariableIsLinear(t *testing.T) {
	r := onHost(t)
	x := r.random(1, 1)
	for name, join := range map[string]func(vs []*autograd.Variable) *autograd.Variable{
		"Cat":   func(vs []*autograd.Variable) *autograd.Variable { return autograd.Cat(vs, 0) },
		"Stack": func(vs []*autograd.Variable) *autograd.Variable { return autograd.Stack(vs, 0) },
	} {
		took := func(uses int) time.Duration {
			g := r.graph()
			defer g.Release()
			v := g.Input(x, autograd.RequiresGrad())
			vs := make([]*autograd.Variable, uses)
			for i := range vs {
				vs[i] = v
			}
			start := time.Now()
			require.NoError(t, join(vs).Sum(nil, false).Backward())
			took := time.Since(start)
			grad, err := v.Grad().Float64s()
			require.NoError(t, err)
			require.Equal(t, []float64{float64(uses)}, grad)
			return took
		}
		few := min(took(2_000), took(2_000))
		// 32 times as many; a quadratic time is 1024 times as long, and the machine may be busy
		require.Less(t, took(64_000), 256*few, name)
	}
}
