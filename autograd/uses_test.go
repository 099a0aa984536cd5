package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
)

// The time of a backward pass goes with the number of uses of a variable, not with its square.
func TestBackward_OfManyUsesOfOneVariableIsLinear(t *testing.T) {
	const uses = 200_000 // a quadratic time is minutes
	r := onHost(t)
	x := r.random(1, 1)
	for name, join := range map[string]func(vs []*autograd.Variable) *autograd.Variable{
		"Cat":   func(vs []*autograd.Variable) *autograd.Variable { return autograd.Cat(vs, 0) },
		"Stack": func(vs []*autograd.Variable) *autograd.Variable { return autograd.Stack(vs, 0) },
	} {
		g := r.graph()
		v := g.Input(x, autograd.RequiresGrad())
		vs := make([]*autograd.Variable, uses)
		for i := range vs {
			vs[i] = v
		}
		require.NoError(t, join(vs).Sum(nil, false).Backward(), name)
		grad, err := v.Grad().Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{uses}, grad)
		g.Release()
	}
}
