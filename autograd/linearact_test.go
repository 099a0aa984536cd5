package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

// activations are the fused forms beside what they stand for.
var activations = map[string][2]func(x, w, b *autograd.Variable) *autograd.Variable{
	"relu": {(*autograd.Variable).LinearReLU, func(x, w, b *autograd.Variable) *autograd.Variable { return x.Linear(w, b).ReLU() }},
	"gelu": {(*autograd.Variable).LinearGELU, func(x, w, b *autograd.Variable) *autograd.Variable { return x.Linear(w, b).GELU() }},
	"gelu tanh": {(*autograd.Variable).LinearGELUTanh, func(x, w, b *autograd.Variable) *autograd.Variable {
		return x.Linear(w, b).GELUTanh()
	}},
}

func TestLinearAct_IsLinearAndTheActivation(t *testing.T) {
	r := onHost(t)
	gen := tensor.NewGenerator(1)
	random := func(shape ...int) *tensor.Tensor { return keep(t)(tensor.RandN(r.exec, gen, tensor.Float32, shape...)) }
	for name, f := range activations {
		var values, grads [2][]float64
		x, weight, bias := random(3, 5, 7), random(6, 7), random(6)
		var names [2][]string
		for i := range 2 {
			g := r.graph()
			inspect.Observe(g, func(op string, _ bool) { names[i] = append(names[i], op) })
			w := autograd.NewParameter("w", weight.Retain())
			b := autograd.NewParameter("b", bias.Retain())
			y := f[i](g.Input(x), g.Param(w), g.Param(b))
			require.NoError(t, g.Err())
			values[i] = float64s(t, must(y.Tensor()))
			require.NoError(t, y.Mul(y).Sum(nil, false).Backward())
			grads[i] = append(float64s(t, w.Grad()), float64s(t, b.Grad())...)
			g.Release()
			w.Release()
			b.Release()
		}
		require.Equal(t, values[1], values[0], name)
		require.Equal(t, grads[1], grads[0], name)
		require.Equal(t, names[1], names[0], "the same operations for observers and casters")
	}
}

// What lies between product and activation exists only where the gradient needs it.
func TestLinearAct_StoresBetweenOnlyWhatTheGradientNeeds(t *testing.T) {
	const unit = 64 * 64 * 4
	for name, want := range map[string][2]int64{"relu": {1, 1}, "gelu": {1, 2}, "gelu tanh": {1, 2}} {
		for training := range 2 {
			r := onSim(t)
			x := keep(t)(tensor.Zeros(r.exec, tensor.Float32, 64, 64))
			w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
			w.SetRequiresGrad(training == 1)
			g := r.graph()
			before := r.allocated()
			r.resetPeak()
			y := activations[name][0](g.Input(x), g.Param(w), nil)
			require.NoError(t, g.Err())
			require.Equal(t, want[training]*unit, r.allocated()-before, name)
			require.Equal(t, want[training]*unit, r.peak()-before, name)
			require.True(t, y.Alive())
			g.Release()
			w.Release()
		}
	}
}

func TestLinearAct_FailsAsLinearDoes(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	y := g.Input(r.random(1, 2, 3)).LinearGELU(g.Input(r.random(2, 4, 4)), nil)
	var err *autograd.OpError
	require.ErrorAs(t, g.Err(), &err)
	require.Equal(t, "linear", err.Op)
	require.False(t, y.Alive())
}

func float64s(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}
