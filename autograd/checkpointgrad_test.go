package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Grad through a checkpoint gives the inputs' gradients, touches no parameter, and says that it cannot give a parameter's.
func TestGrad_ThroughACheckpoint(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	p := autograd.NewParameter("p", r.tensor([]float64{2, 2, 2}, 3))
	defer p.Release()
	calls := 0
	p.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { calls++; return nil, nil })
	x := g.Input(r.tensor([]float64{1, 2, 3}, 3), autograd.RequiresGrad())
	unused := g.Input(r.tensor([]float64{1}, 1), autograd.RequiresGrad())
	f := func(in vars) *autograd.Variable { return in[0].Mul(in[0].Graph().Param(p)) }
	y := func() *autograd.Variable {
		inner := func(in vars) *autograd.Variable { return autograd.Checkpoint(f, in...) } // nested
		return autograd.Checkpoint(inner, x, unused).Sum(nil, false)
	}
	grads, err := autograd.Grad(vars{y()}, vars{x, unused})
	require.NoError(t, err)
	require.Equal(t, []float64{2, 2, 2}, valuesOf(t, grads[0]))
	require.Equal(t, []float64{0}, valuesOf(t, grads[1]))
	require.Nil(t, p.Grad())
	require.Zero(t, calls)

	z := y()
	_, err = autograd.Grad(vars{z}, vars{x, g.Param(p)})
	var refused *autograd.GradError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, `Grad with respect to parameter "p", which a Checkpoint uses`)
	_, err = autograd.Grad(vars{z}, vars{g.Param(p)})
	require.ErrorAs(t, err, &refused)
	require.NoError(t, z.Backward())
	require.Equal(t, []float64{1, 2, 3}, values(t, p.Grad()))
	require.Equal(t, 1, calls)
}

func TestCheckpoint_RefusesParametersThatChangedSince(t *testing.T) {
	for name, change := range map[string]func(r *rig, p *autograd.Parameter) error{
		"in place": func(_ *rig, p *autograd.Parameter) error { return p.Tensor().MulScalarInPlace(10) },
		"another":  func(r *rig, p *autograd.Parameter) error { return p.To(r.exec, tensor.Float32) },
	} {
		r := onHost(t)
		g := r.graph()
		p := autograd.NewParameter("p", r.tensor([]float64{2, 2, 2}, 3))
		x := g.Input(r.tensor([]float64{1, 2, 3}, 3), autograd.RequiresGrad())
		y := autograd.Checkpoint(func(in vars) *autograd.Variable { return in[0].Mul(in[0].Graph().Param(p)) }, x).Sum(nil, false)
		require.NoError(t, change(r, p), name)
		err := y.Backward()
		var modified *autograd.ModifiedError
		require.ErrorAs(t, err, &modified, name)
		require.Equal(t, "p", modified.Parameter, name)
		require.Equal(t, "checkpoint", modified.Op, name)
		g.Release()
		p.Release()
	}
}

func TestCheckpoint_RefusesChangesOfItsInputs(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, z := g.Input(r.tensor([]float64{1}, 1), autograd.RequiresGrad()), g.Input(r.tensor([]float64{1}, 1))
	autograd.Checkpoint(func(in vars) *autograd.Variable {
		in[1].MulScalarInPlace(3)
		return in[0].Mul(in[1])
	}, x, z)
	var refused *tensor.ValueError
	require.ErrorAs(t, g.Err(), &refused)
	require.ErrorContains(t, g.Err(), "changes input 1 in place")
}

// A parameter among the inputs is what the function's modules compute with, so that Grad sees it.
func TestGrad_OfAParameterThatIsAnInputOfACheckpoint(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	p := autograd.NewParameter("p", r.tensor([]float64{2, 3, 4}, 3))
	frozen := autograd.NewParameter("frozen", r.tensor([]float64{1, 1, 1}, 3))
	frozen.SetRequiresGrad(false)
	defer p.Release()
	defer frozen.Release()
	x := g.Input(r.tensor([]float64{1, 2, 3}, 3), autograd.RequiresGrad())
	f := func(in vars) *autograd.Variable {
		return in[0].Mul(in[0].Graph().Param(p)).Mul(in[0].Graph().Param(frozen))
	}
	nested := func(in vars) *autograd.Variable { return autograd.Checkpoint(f, in[0]) }
	for name, run := range map[string]func() *autograd.Variable{
		"Checkpoint": func() *autograd.Variable { return autograd.Checkpoint(f, x, g.Param(p), g.Param(frozen)) },
		"Checkpoints": func() *autograd.Variable {
			return autograd.Checkpoints(1, func(in []*autograd.Variable) []*autograd.Variable { return vars{f(in)} }, x, g.Param(p))[0]
		},
		"nested": func() *autograd.Variable { return autograd.Checkpoint(nested, x, g.Param(p)) },
		"WithParameters": func() *autograd.Variable {
			with := map[*autograd.Parameter]*autograd.Variable{p: g.Param(p)}
			return g.WithParameters(with, func() *autograd.Variable { return autograd.Checkpoint(f, x) })
		},
	} {
		y := run().Square().Sum(nil, false)
		grads, err := autograd.Grad(vars{y}, vars{x, g.Param(p)}, autograd.RetainGraph())
		require.NoError(t, err, name)
		require.Equal(t, []float64{8, 36, 96}, valuesOf(t, grads[0]), name)
		require.Equal(t, []float64{4, 24, 72}, valuesOf(t, grads[1]), name)
		require.Nil(t, p.Grad())
		require.NoError(t, y.Backward(), name)
		require.Equal(t, []float64{4, 24, 72}, values(t, p.Grad()), name)
		p.ZeroGrad()
	}
	z := autograd.Checkpoint(f, x, g.Param(p)).Square().Sum(nil, false)
	grads, err := autograd.Grad(vars{z}, vars{g.Param(p)}, autograd.CreateGraph())
	require.NoError(t, err)
	require.NoError(t, grads[0].Sum(nil, false).Backward())
	require.Equal(t, []float64{2, 8, 18}, values(t, p.Grad()))
}
