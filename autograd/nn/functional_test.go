package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// small is two layers, of which the second may share the weight of the first.
func small(tied bool) *nn.SequentialModule {
	a, b := nn.Linear(2, 2), nn.Linear(2, 2)
	if tied {
		b.Weight = a.Weight
	}
	return nn.Sequential(a, nn.Tanh(), b)
}

// scaled are all parameters of m times s, as results of g.
func scaled(g *autograd.Graph, m nn.Module, s *autograd.Variable) map[string]*autograd.Variable {
	with := map[string]*autograd.Variable{}
	for _, n := range nn.NamedParameters(m) {
		with[n.Name] = g.Param(n.Parameter).Mul(s)
	}
	return with
}

// The gradients of a model whose weights are results are those of the model with these values, by the chain rule.
func TestWithParameters_GradientsFlowThroughTheWeights(t *testing.T) {
	r := onHost(t)
	for _, forward := range []func(m nn.Layer, x *autograd.Variable) *autograd.Variable{
		func(m nn.Layer, x *autograd.Variable) *autograd.Variable { return m.Forward(x) },
		func(m nn.Layer, x *autograd.Variable) *autograd.Variable { return nn.Checkpointed(m).Forward(x) },
		func(m nn.Layer, x *autograd.Variable) *autograd.Variable {
			return nn.Checkpointed(nn.Sequential(nn.Checkpointed(m))).Forward(x)
		},
	} {
		m, other := small(true), small(true)
		r.place(m, nn.Seed(1))
		r.place(other, nn.Seed(1))
		for _, p := range other.Parameters() {
			require.NoError(t, p.Tensor().MulScalarInPlace(3))
		}
		x := r.tensor([]float32{1, -2, 0.5, 4}, 2, 2)

		g := r.graph()
		s := g.Input(r.tensor([]float32{3}), autograd.RequiresGrad())
		y := nn.WithParameters(g, m, scaled(g, m, s), func() *autograd.Variable { return forward(m, g.Input(x)) })
		require.NoError(t, g.Err())
		require.Nil(t, g.Replacement(m.Parameters()[0]), "only while the function runs")
		require.Equal(t, r.forward(other, x), float64s(t, y))
		require.NoError(t, y.Sum(nil, false).Backward())

		h := r.graph()
		require.NoError(t, other.Forward(h.Input(x)).Sum(nil, false).Backward())
		of := 0.0
		for i, p := range m.Parameters() {
			for k, want := range gradOf(t, other.Parameters()[i]) {
				require.InDelta(t, 3*want, gradOf(t, p)[k], 1e-5)
				of += want * valuesOf(t, p)[k]
			}
		}
		sum, err := s.Grad().Item()
		require.NoError(t, err)
		require.InDelta(t, of, sum, 1e-5)
		g.Release()
		h.Release()
	}
}

func float64s(t *testing.T, v *autograd.Variable) []float64 {
	t.Helper()
	values, err := v.Float64s()
	require.NoError(t, err)
	return values
}

func TestWithParameters_NestAndNeedNoMemoryOfTheModel(t *testing.T) {
	r := onHost(t)
	l, norm := nn.Linear(1, 1), nn.BatchNorm1d(1, nn.Affine(false))
	g := r.graph()
	defer g.Release()
	number := func(v float32, shape ...int) *autograd.Variable { return g.Input(r.tensor([]float32{v}, shape...)) }
	x := number(10, 1, 1)
	y := nn.WithParameters(g, l, map[string]*autograd.Variable{"weight": number(2, 1, 1), "bias": number(1, 1)}, func() *autograd.Variable {
		inner := nn.WithParameters(g, l, map[string]*autograd.Variable{"bias": number(5, 1)}, func() *autograd.Variable { return l.Forward(x) })
		return inner.Add(l.Forward(x))
	})
	require.Equal(t, []float64{25 + 21}, float64s(t, y))
	require.NoError(t, g.Err())

	nn.Eval(norm)
	y = nn.WithParameters(g, norm, map[string]*autograd.Variable{"running_mean": number(4, 1), "running_var": number(9, 1)}, func() *autograd.Variable {
		return norm.Forward(x)
	})
	require.InDelta(t, 2, float64s(t, y)[0], 1e-4)
	require.NoError(t, g.Err())

	nn.Train(norm)
	mean := r.tensor([]float32{0}, 1)
	variance := g.Input(r.tensor([]float32{1}, 1))
	batch := g.Input(r.tensor([]float32{1, 3}, 2, 1))
	nn.WithParameters(g, norm, map[string]*autograd.Variable{"running_mean": g.Input(mean), "running_var": variance}, func() *autograd.Variable {
		return norm.Forward(batch)
	})
	require.NoError(t, g.Err())
	v, err := mean.Float64s()
	require.NoError(t, err)
	require.InDelta(t, 0.2, v[0], 1e-6)
}

func TestWithParameters_RefusesWhatCannotStandForThem(t *testing.T) {
	r := onHost(t)
	m := small(true)
	r.place(m, nn.Seed(1))
	ran := false
	for want, with := range map[string]func(g *autograd.Graph) map[string]*autograd.Variable{
		`nn: WithParameters: the model has no parameter or buffer "1.weight"`: func(g *autograd.Graph) map[string]*autograd.Variable {
			return map[string]*autograd.Variable{"1.weight": nil, "2.bias": g.Input(r.tensor([]float32{1, 2}, 2))}
		},
		`nn: WithParameters: 2.weight is shared, and has another variable under another of its names`: func(g *autograd.Graph) map[string]*autograd.Variable {
			v := g.Input(r.tensor([]float32{1, 2, 3, 4}, 2, 2))
			return map[string]*autograd.Variable{"0.weight": v, "2.weight": v.Neg()}
		},
		`the variable for parameter "bias" does not have its shape`: func(g *autograd.Graph) map[string]*autograd.Variable {
			return map[string]*autograd.Variable{"0.bias": g.Input(r.tensor([]float32{1}, 1))}
		},
		`the variable for parameter "bias": nil variable`: func(*autograd.Graph) map[string]*autograd.Variable {
			return map[string]*autograd.Variable{"0.bias": nil}
		},
		`the variable for parameter "bias": variables belong to different graphs`: func(*autograd.Graph) map[string]*autograd.Variable {
			other := r.graph()
			t.Cleanup(other.Release)
			return map[string]*autograd.Variable{"0.bias": other.Input(r.tensor([]float32{1, 2}, 2))}
		},
	} {
		g := r.graph()
		y := nn.WithParameters(g, m, with(g), func() *autograd.Variable { ran = true; return nil })
		require.ErrorContains(t, g.Err(), want)
		require.False(t, y.Alive())
		g.Release()
	}
	require.False(t, ran)
	require.Nil(t, nn.WithParameters(nil, m, nil, nil))
	g := r.graph()
	defer g.Release()
	var none *tensor.ValueError
	nn.WithParameters(g, m, nil, nil)
	require.ErrorAs(t, g.Err(), &none)
}
