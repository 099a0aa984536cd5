package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// The gradients of both operands of a sum lie in one memory: what a hook of one writes there would be that of the other too.
func TestHooks_ThatWriteOverTheirGradientAreRefused(t *testing.T) {
	r := onHost(t)
	double := func(grad *tensor.Tensor) (*tensor.Tensor, error) { return nil, grad.MulScalarInPlace(2) }
	same := func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad, grad.MulScalarInPlace(2) }
	variables := func(grad *autograd.Variable) *autograd.Variable { return grad.MulScalarInPlace(2) }
	for what, register := range map[string]func(v *autograd.Variable){
		"tensors": func(v *autograd.Variable) { v.RegisterHook(double) }, "the same": func(v *autograd.Variable) { v.RegisterHook(same) },
		"variables": func(v *autograd.Variable) { v.RegisterVariableHook(variables) },
		"and nothing": func(v *autograd.Variable) {
			v.RegisterVariableHook(func(grad *autograd.Variable) *autograd.Variable { variables(grad); return nil })
		},
	} {
		for _, opts := range [][]autograd.BackwardOption{nil, {autograd.CreateGraph()}} {
			g := r.graph()
			x, y := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad()), g.Input(r.tensor([]float64{3, 4}), autograd.RequiresGrad())
			a, b := x.MulScalar(1), y.MulScalar(1)
			register(a)
			_, err := autograd.Grad(vars{a.Add(b).Square().Sum(nil, false)}, vars{x, y}, opts...)
			require.ErrorIs(t, err, autograd.ErrInPlace, "%s %d", what, len(opts))
			require.ErrorContains(t, err, "a hook changed its gradient in place", what)
			g.Release()
		}
	}
}

func TestRegisterVariableHook_ReplacesGradientsAndIsRecorded(t *testing.T) {
	r := onHost(t)
	for _, create := range []bool{false, true} {
		g := r.graph()
		x := g.Input(r.tensor([]float64{2, 3}), autograd.RequiresGrad())
		u := g.Input(r.tensor([]float64{5, 7}), autograd.RequiresGrad())
		y := x.Square()
		y.RegisterVariableHook(func(grad *autograd.Variable) *autograd.Variable { return grad.Square().Mul(u) })
		y.RegisterVariableHook(func(*autograd.Variable) *autograd.Variable { return nil })
		x.RegisterVariableHook(func(grad *autograd.Variable) *autograd.Variable { return grad.MulScalar(10) })
		loss := y.PowScalar(2).Sum(nil, false) // the hook makes 2y of 4y**2 * u, and x has 80 u x**5
		var opts []autograd.BackwardOption
		if create {
			opts = append(opts, autograd.CreateGraph())
		}
		grads, err := autograd.Grad(vars{loss}, vars{x}, opts...)
		require.NoError(t, err)
		near(t, "gradient", []float64{80 * 5 * 32, 80 * 7 * 243}, valuesOf(t, grads[0]), 1e-14)
		if create {
			x2, err := autograd.Grad(vars{grads[0].Sum(nil, false)}, vars{x, u})
			require.NoError(t, err)
			// x has its hook in the second pass too, and y its own when its gradient comes a second time.
			near(t, "by u", []float64{80 * 32, 80 * 243}, valuesOf(t, x2[1]), 1e-14)
		}
		g.Release()
	}
}

func TestRegisterVariableHook_OfParametersAndMistakes(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("p", must(tensor.FromSlice(r.exec, []float64{2, 3})))
	defer p.Release()
	h := p.RegisterVariableHook(func(grad *autograd.Variable) *autograd.Variable { return grad.Mul(grad) })
	for _, opts := range [][]autograd.BackwardOption{nil, {autograd.CreateGraph()}} {
		g := r.graph()
		require.NoError(t, g.Param(p).Square().Sum(nil, false).Backward(opts...))
		require.Equal(t, []float64{16, 36}, values(t, p.Grad()))
		p.ZeroGrad()
		g.Release()
	}
	h.Remove()
	other := r.graph()
	defer other.Release()
	foreign := other.Input(r.tensor([]float64{1, 1}))
	for what, hook := range map[string]autograd.VariableHook{
		"shape":            func(grad *autograd.Variable) *autograd.Variable { return grad.Narrow(0, 0, 1) },
		"type":             func(grad *autograd.Variable) *autograd.Variable { return grad.To(tensor.Float32) },
		"different graphs": func(*autograd.Variable) *autograd.Variable { return foreign },
		"no value":         func(*autograd.Variable) *autograd.Variable { return &autograd.Variable{} },
		"matmul":           func(grad *autograd.Variable) *autograd.Variable { return grad.MatMul(grad.Reshape(2, 1).T()) },
	} {
		for _, opts := range [][]autograd.BackwardOption{nil, {autograd.CreateGraph()}} {
			g := r.graph()
			h := p.RegisterVariableHook(hook)
			err := g.Param(p).Square().Sum(nil, false).Backward(opts...)
			require.Error(t, err, what)
			if what != "no value" && what != "matmul" {
				require.ErrorContains(t, err, what)
			}
			h.Remove()
			p.ZeroGrad()
			g.Release()
		}
	}
	require.Nil(t, (*autograd.Variable)(nil).RegisterVariableHook(nil))
	require.Nil(t, p.RegisterVariableHook(nil))
	// A hook may return a leaf, which stays the user's.
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	u := g.Input(r.tensor([]float64{3, 4}), autograd.RequiresGrad())
	y := x.Exp()
	y.RegisterVariableHook(func(*autograd.Variable) *autograd.Variable { return u })
	_, err := autograd.Grad(vars{y.Sum(nil, false)}, vars{x}, autograd.CreateGraph())
	require.NoError(t, err)
	require.Equal(t, []float64{3, 4}, valuesOf(t, u))
}
