package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestWithVariable_ComputesWithAnotherOneWhileTheFunctionRuns(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}, 2), autograd.RequiresGrad())
	y := x.MulScalar(10)
	during := g.WithVariable(x, y, func() *autograd.Variable { return x.Mul(x) })
	after := x.AddScalar(0)
	require.Same(t, y, g.WithVariable(x, y, func() *autograd.Variable { return x }), "y for x")
	require.Nil(t, g.WithVariable(x, y, func() *autograd.Variable { return nil }))
	for want, v := range map[float64]*autograd.Variable{500: during, 3: after} {
		sum, err := v.Sum(nil, false).Item()
		require.NoError(t, err)
		require.Equal(t, want, sum)
	}
	require.NoError(t, during.Sum(nil, false).Backward())
	grad, err := x.Grad().Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{200, 400}, grad, "that of (10x)^2")
}

func TestWithVariable_RefusesWhatCannotStandForAVariable(t *testing.T) {
	r := onHost(t)
	other := r.graph()
	defer other.Release()
	foreign := other.Ones(tensor.Float32, 2)
	for want, f := range map[string]func(g *autograd.Graph, x *autograd.Variable) (from, to *autograd.Variable){
		"cannot stand for itself": func(_ *autograd.Graph, x *autograd.Variable) (_, _ *autograd.Variable) { return x, x },
		"has its shape": func(g *autograd.Graph, x *autograd.Variable) (_, _ *autograd.Variable) {
			return x, g.Ones(tensor.Float32, 3)
		},
		"has its type": func(g *autograd.Graph, x *autograd.Variable) (_, _ *autograd.Variable) {
			return x, g.Ones(tensor.Float64, 2)
		},
		"variable 1":       func(_ *autograd.Graph, x *autograd.Variable) (_, _ *autograd.Variable) { return x, nil },
		"different graphs": func(_ *autograd.Graph, x *autograd.Variable) (_, _ *autograd.Variable) { return x, foreign },
	} {
		g := r.graph()
		from, to := f(g, g.Ones(tensor.Float32, 2))
		ran := false
		g.WithVariable(from, to, func() *autograd.Variable { ran = true; return from })
		require.False(t, ran)
		require.ErrorContains(t, g.Err(), want)
		g.Release()
	}
	g := r.graph()
	defer g.Release()
	x, y := g.Ones(tensor.Float32, 2), g.Zeros(tensor.Float32, 2)
	g.WithVariable(x, y, func() *autograd.Variable {
		return g.WithVariable(y, x, func() *autograd.Variable { return x }) // a circle
	})
	require.ErrorContains(t, g.Err(), "cannot stand for itself")
}
