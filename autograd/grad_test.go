package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

func TestGrad_ReturnsGradientsAndLeavesLeavesAlone(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2, 3})))
	defer w.Release()
	g := r.graph()
	x := g.Input(r.tensor([]float64{5, 7}), autograd.RequiresGrad())
	p := g.Param(w)
	y := x.Mul(p)
	z := y.Mul(y)
	grads, err := autograd.Grad(vars{z.Sum(nil, false)}, vars{p, y, x})
	require.NoError(t, err)
	taken := must(grads[0].Take())
	require.Equal(t, []float64{20, 42}, valuesOf(t, grads[1]))
	require.Equal(t, []float64{40, 126}, valuesOf(t, grads[2]))
	require.Nil(t, w.Grad())
	require.Nil(t, x.Grad())
	g.Release()
	require.Equal(t, []float64{2 * 10 * 5, 2 * 21 * 7}, values(t, taken), "what is taken outlives the graph")
	taken.Release()
}

func TestGrad_RunsOnlyWhatLiesBetween(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	u := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	h := x.Exp()
	k := h.Sin()
	loss := k.Mul(u.Cos()).Sum(nil, false)
	var ran []string
	inspect.Observe(g, func(op string, backward bool) {
		if backward {
			ran = append(ran, op)
		}
	})
	grads, err := autograd.Grad(vars{loss}, vars{k}, autograd.RetainGraph())
	require.NoError(t, err)
	require.Equal(t, []string{"sum", "mul", "sin"}, ran, "sin is where k is made; its rule does not run")
	want := valuesOf(t, grads[0])
	require.NoError(t, loss.Backward())
	require.NotNil(t, x.Grad())
	require.InDeltaSlice(t, []float64{0.5403023058681398, -0.4161468365471424}, want, 1e-12)
}

func TestGrad_OfSeveralOutputsWithCotangents(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	unused := g.Input(r.tensor([]float64{1}), autograd.RequiresGrad())
	a, b := x.MulScalar(3), x.Sum(nil, false)
	grads, err := autograd.Grad(vars{a, b}, vars{x, unused}, autograd.WithGradient(r.tensor([]float64{10, 100}), nil))
	require.NoError(t, err)
	require.Equal(t, []float64{31, 301}, valuesOf(t, grads[0]))
	require.Nil(t, grads[1])
}

func TestGrad_OfAnOutputThatIsAnInput(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{4}), autograd.RequiresGrad())
	y := x.MulScalar(2)
	grads, err := autograd.Grad(vars{y, x}, vars{y, x})
	require.NoError(t, err)
	require.Equal(t, []float64{1}, valuesOf(t, grads[0]))
	require.Equal(t, []float64{3}, valuesOf(t, grads[1]))
}

func TestGrad_SaysWhichArgumentIsWrong(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{4}), autograd.RequiresGrad())
	_, err := autograd.Grad(vars{nil}, vars{x})
	require.ErrorIs(t, err, autograd.ErrNilVariable)
	seed := must(tensor.Ones(r.exec, tensor.Float64))
	seed.Release()
	err = x.MulScalar(2).Backward(autograd.WithGradient(seed))
	var released *tensor.ReleasedError
	require.ErrorAs(t, err, &released)
	require.Equal(t, "WithGradient", released.Op)
}

// The operation that made an input does not run: what it has saved may have changed, and stays for a pass that needs it.
func TestGrad_LeavesTheOperationThatMadeAnInputAlone(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, y := g.Input(r.tensor([]float64{2, 3}, 2), autograd.RequiresGrad()), g.Input(r.tensor([]float64{5, 7}, 2))
	z := x.Mul(y)
	one := r.tensor([]float64{1, 1}, 2)
	grads, err := autograd.Grad(vars{z}, vars{z}, autograd.WithGradient(one))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, valuesOf(t, grads[0]))

	w := z.MulScalar(2)
	grads, err = autograd.Grad(vars{w}, vars{z}, autograd.WithGradient(one))
	require.NoError(t, err)
	require.Equal(t, []float64{2, 2}, valuesOf(t, grads[0]))
	require.NoError(t, z.Backward(autograd.WithGradient(one)))
	require.Equal(t, []float64{5, 7}, values(t, x.Grad()), "Mul had still what it saved")

	z = x.Mul(y)
	y.MulScalarInPlace(2)
	grads, err = autograd.Grad(vars{z}, vars{z}, autograd.WithGradient(one))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, valuesOf(t, grads[0]))
	require.ErrorIs(t, z.Backward(autograd.WithGradient(one)), autograd.ErrModified)
}

func TestGrad_CallsHooks(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	defer w.Release()
	w.RegisterHook(double)
	w.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { t.Error("nothing is accumulated"); return nil })
	g := r.graph()
	defer g.Release()
	p := g.Param(w)
	grads, err := autograd.Grad(vars{p.MulScalar(5)}, vars{p})
	require.NoError(t, err)
	require.Equal(t, []float64{10}, valuesOf(t, grads[0]))
}

func TestGrad_RefusesWhatHasNoGradient(t *testing.T) {
	r := onHost(t)
	g, other := r.graph(), r.graph()
	defer g.Release()
	defer other.Release()
	x := g.Input(r.tensor([]float64{4}), autograd.RequiresGrad())
	fixed := g.Input(r.tensor([]float64{4}))
	y := x.Exp()
	try := func(out, in vars, opts ...autograd.BackwardOption) error {
		_, err := autograd.Grad(out, in, opts...)
		return err
	}
	require.ErrorIs(t, try(nil, vars{x}), autograd.ErrNoGrad)
	require.ErrorIs(t, try(vars{y}, vars{fixed}), autograd.ErrNoGrad)
	require.ErrorIs(t, try(vars{fixed}, vars{x}), autograd.ErrNoGrad)
	require.ErrorIs(t, try(vars{nil}, vars{x}), autograd.ErrNilVariable)
	require.ErrorIs(t, try(vars{y, nil}, vars{x}), autograd.ErrNilVariable)
	require.ErrorIs(t, try(vars{y}, vars{nil}), autograd.ErrNilVariable)
	require.ErrorIs(t, try(vars{y}, vars{other.Input(r.tensor([]float64{4}), autograd.RequiresGrad())}), autograd.ErrOtherGraph)
	require.ErrorIs(t, try(vars{y}, vars{x}, autograd.WithGradient(nil, nil)), autograd.ErrNoGrad)
	require.NoError(t, g.Err(), "the graph can still be used")
	require.NoError(t, y.Backward())
}

func TestGrad_AfterAFailureKeepsNothing(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{4}), autograd.RequiresGrad())
	y := x.Exp()
	y.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.To(tensor.Float32) })
	z := y.MulScalar(2)
	_, err := autograd.Grad(vars{z}, vars{z, x})
	require.Error(t, err)
}

func TestBackward_AccumulatesOverMicrobatches(t *testing.T) {
	r := onHost(t)
	x, y := r.random(1, 6, 3), r.random(2, 6, 2)
	gradient := func(parts int) []float64 {
		w := autograd.NewParameter("w", must(tensor.RandN(r.exec, tensor.NewGenerator(3), tensor.Float64, 2, 3)))
		defer w.Release()
		for k := range parts {
			g := r.graph()
			n := 6 / parts
			in, out := g.Input(x).Narrow(0, k*n, n), g.Input(y).Narrow(0, k*n, n)
			loss := in.Linear(g.Param(w), nil).MSELoss(out, autograd.MeanReduction).DivScalar(float64(parts))
			require.NoError(t, loss.Backward())
			g.Release()
		}
		return values(t, w.Grad())
	}
	require.InDeltaSlice(t, gradient(1), gradient(3), 1e-12)
}
