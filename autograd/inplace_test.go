package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestInPlace_ChangesTheMemoryAndReturnsTheVariable(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := x.MulScalar(2)
	before := r.allocated()
	require.Same(t, y, y.AddScalarInPlace(1))
	require.Equal(t, before, r.allocated())
	require.Equal(t, []float64{3, 5}, valuesOf(t, y))
	require.Same(t, y, y.AddScalarInPlace(0), "also the second time")
	require.False(t, y.IsLeaf())
	require.True(t, y.RequiresGrad())
	require.NoError(t, y.Mul(y).Sum(nil, false).Backward())
	require.Equal(t, []float64{12, 20}, values(t, x.Grad()))
}

func TestInPlace_OfALeafThatRequiresAGradientIsRefused(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	leaf := r.tensor([]float64{1, 2})
	x := g.Input(leaf, autograd.RequiresGrad())
	x.ReLUInPlace()
	require.ErrorIs(t, g.Err(), autograd.ErrInPlace)
	var refused *autograd.InPlaceError
	require.ErrorAs(t, g.Err(), &refused)
	require.ErrorContains(t, g.Err(), "relu_(float64[2])")
	require.ErrorContains(t, g.Err(), "a leaf variable that requires a gradient")
	require.Equal(t, []float64{1, 2}, values(t, leaf))
}

func TestInPlace_OfALeafWithoutGradientIsAllowed(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	leaf := r.tensor([]float64{1, -2})
	x := g.Input(leaf)
	require.Equal(t, []float64{1, 0}, valuesOf(t, x.ReLUInPlace()))
	require.Equal(t, []float64{1, 0}, values(t, leaf), "it is the user's memory")
	require.True(t, x.IsLeaf())

	// With an operand that requires a gradient the leaf becomes a result, but not where the user's tensor would change unseen.
	w := g.Input(r.tensor([]float64{3, 4}), autograd.RequiresGrad())
	own := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float64, 2) })
	require.NoError(t, own.MulInPlace(w).MulInPlace(w.MulScalar(2)).Sum(nil, false).Backward())
	require.Equal(t, []float64{12, 16}, values(t, w.Grad()))
	x.MulInPlace(w)
	require.ErrorIs(t, g.Err(), autograd.ErrInPlace)
}

func TestInPlace_InsideNoGradRecordsNothing(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	g.NoGrad(func() *autograd.Variable { return x.MulScalarInPlace(3) })
	require.NoError(t, x.Mul(x).Sum(nil, false).Backward())
	require.Equal(t, []float64{6, 12}, values(t, x.Grad()), "the leaf is the same leaf, with other values")
}

func TestInPlace_OfWhatANodeHasSavedIsAnErrorOfBackward(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := x.Exp()
	y.AddScalarInPlace(1)
	err := y.Sum(nil, false).Backward()
	var modified *autograd.ModifiedError
	require.ErrorAs(t, err, &modified)
	require.Equal(t, "exp", modified.Op)

	z := x.MulScalar(2)
	z.ExpInPlace() // saves its own result
	require.NoError(t, z.Sum(nil, false).Backward(), "mul_scalar saves nothing, and exp_ what it left")
}

func TestInPlace_OfSharedMemoryIsRefusedIfGradientsFlow(t *testing.T) {
	for name, share := range map[string]func(v *autograd.Variable) *autograd.Variable{
		"a view":   func(v *autograd.Variable) *autograd.Variable { return v.Reshape(1, 2) },
		"a detach": func(v *autograd.Variable) *autograd.Variable { return v.Detach() },
	} {
		r := onHost(t)
		g := r.graph()
		x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
		y := x.MulScalar(2)
		share(y)
		y.AddScalarInPlace(1)
		require.ErrorIs(t, g.Err(), autograd.ErrInPlace, name)
		g.Release()
	}
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	y := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad()).MulScalar(2)
	y.MulInPlace(y)
	require.ErrorContains(t, g.Err(), "it is its own operand")
}

func TestInPlace_VariableEndsWithTheScopeThatMadeIt(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	outer := x.MulScalar(2)
	var gone *autograd.Variable
	kept := g.Scope(func() *autograd.Variable {
		outer.AddScalarInPlace(1)
		gone = x.MulScalar(3)
		gone.AddScalarInPlace(1)
		kept := x.MulScalar(5)
		return kept.AddScalarInPlace(1)
	})
	require.True(t, outer.Alive(), "it was made outside")
	require.True(t, kept.Alive())
	require.False(t, gone.Alive())
	_, err := gone.Tensor()
	require.ErrorIs(t, err, autograd.ErrReleased)
	before := r.allocated()
	outer.Release()
	require.Less(t, r.allocated(), before)
}

func TestInPlace_BackwardTwiceWithRetainGraph(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := x.MulScalar(2).TanhInPlace().RetainGrad()
	loss := y.MulScalarInPlace(3).Sum(nil, false)
	require.ErrorIs(t, loss.Backward(), autograd.ErrModified, "tanh_ saved what mul_scalar_ changed")

	z := x.MulScalar(2)
	z.AddScalarInPlace(1).MulScalarInPlace(3)
	sum := z.Sum(nil, false)
	require.NoError(t, sum.Backward(autograd.RetainGraph()))
	require.NoError(t, sum.Backward())
	require.Equal(t, []float64{12, 12}, values(t, x.Grad()))
}

func TestPieces_GradientsAreAddedToOneGradientOfTheWhole(t *testing.T) {
	r := onHost(t)
	const rows, columns = 64, 1024
	leaf := keep(t)(tensor.Ones(r.exec, tensor.Float64, rows, columns))
	g := r.graph()
	x := g.Input(leaf, autograd.RequiresGrad())
	v := x.MulScalar(1)
	sum := v.Select(0, 0).Sum(nil, false)
	for _, row := range v.Unbind(0)[1:] {
		sum = sum.Add(row.Sum(nil, false))
	}
	v.Release()
	base := r.allocated()
	r.resetPeak()
	require.NoError(t, sum.Backward())
	whole := int64(rows * columns * 8)
	require.Less(t, r.peak()-base, 2*whole+whole/4, "one gradient of v, one of x, and pieces")
	got := values(t, x.Grad())
	for _, d := range got {
		require.Equal(t, 1.0, d)
	}
	g.Release()
}

func TestEinsum_SavesTheOperandsAlone(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	a := g.Input(r.random(1, 64, 2), autograd.RequiresGrad())
	b := g.Input(r.random(2, 2, 64), autograd.RequiresGrad())
	c := g.Input(r.random(3, 64, 2), autograd.RequiresGrad())
	base := r.allocated()
	out := autograd.Einsum("ij,jk,kl->il", a, b, c) // a@b is [64, 64]
	require.NoError(t, g.Err())
	require.LessOrEqual(t, r.allocated()-base, int64(64*2*8), "the product of the first two is gone")
	require.NoError(t, out.Sum(nil, false).Backward())
}

func TestSort_GivesValuesAndIndices(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{3, 1, 2}), autograd.RequiresGrad())
	v, i := x.Sort(0, false)
	require.Equal(t, []float64{1, 2, 3}, valuesOf(t, v))
	require.Equal(t, []float64{1, 2, 0}, valuesOf(t, i))
	require.False(t, i.RequiresGrad())
	require.Equal(t, []float64{0, 2, 1}, valuesOf(t, x.ArgSort(0, true)))
	most, at := x.MaxDim(0, true)
	require.Equal(t, []float64{3, 0}, append(valuesOf(t, most), valuesOf(t, at)...))
	top, where := x.TopK(2, -1, true)
	require.Equal(t, []float64{3, 2, 0, 2}, append(valuesOf(t, top), valuesOf(t, where)...))
	bad, same := x.TopK(9, 0, true)
	require.Same(t, bad, same)
	require.Error(t, g.Err())
}

func TestInPlace_InsideACheckpointComputesTheSameAgain(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	in := vars{x.MulScalar(2)}
	in[0].AddScalarInPlace(1)
	before := in[0]
	out := autograd.Checkpoint(func(in vars) *autograd.Variable { return in[0].MulScalar(3).ExpInPlace() }, in...)
	require.Same(t, before, in[0], "the slice is the caller's")
	require.NoError(t, out.Log().Sum(nil, false).Backward())
	near(t, "gradient", []float64{6, 6}, values(t, x.Grad()), 1e-12)
}

// Every function that is given a variable works on what it is now: what operations in place have made of it.

func TestInPlace_GradFollowsOutputsAndInputs(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2, 3}), autograd.RequiresGrad())
	h := x.MulScalar(2)
	h.MulScalarInPlace(3) // 6x
	loss := h.Mul(h).Sum(nil, false)
	loss.MulScalarInPlace(10)
	grads, err := autograd.Grad([]*autograd.Variable{loss}, []*autograd.Variable{x, h})
	require.NoError(t, err)
	require.Equal(t, []float64{720, 1440, 2160}, valuesOf(t, grads[0]), "360 x**2")
	require.Equal(t, []float64{120, 240, 360}, valuesOf(t, grads[1]), "of 6x, not of 2x: 10 h**2")
}

func TestInPlace_GradOfASumThatIsAccumulatedInAConstant(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	sum := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float64) })
	for range 3 {
		sum.AddInPlace(x.Mul(x).Sum(nil, false), 1)
	}
	grads, err := autograd.Grad([]*autograd.Variable{sum}, []*autograd.Variable{x})
	require.NoError(t, err)
	require.Equal(t, []float64{6, 12}, valuesOf(t, grads[0]))
}

func TestInPlace_HooksSeeTheGradientOfWhatTheVariableWasAtTheirRegistration(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	h := x.MulScalar(2)
	var before, after []float64
	h.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) {
		before = values(t, g)
		return nil, nil
	})
	h.MulScalarInPlace(5)
	handle := h.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) {
		after = values(t, g)
		return nil, nil
	})
	loss := h.Sum(nil, false)
	require.NoError(t, loss.Backward(autograd.RetainGraph()))
	require.Equal(t, []float64{5, 5}, before)
	require.Equal(t, []float64{1, 1}, after)
	require.Equal(t, []float64{10, 10}, values(t, x.Grad()))
	before, after = nil, nil
	handle.Remove()
	require.NoError(t, loss.Backward())
	require.Equal(t, []float64{5, 5}, before)
	require.Nil(t, after)
}

func TestInPlace_AHookOfAConstantThatBecameAResultIsNotRefused(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	sum := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float64, 2) })
	sum.AddInPlace(x, 3)
	called := 0
	sum.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) {
		called++
		return nil, nil
	})
	require.NoError(t, sum.Sum(nil, false).Backward())
	require.Equal(t, 1, called)
}

func TestInPlace_TheRetainedGradientIsThatOfWhatTheVariableHasBecome(t *testing.T) {
	for name, early := range map[string]bool{"asked for before": true, "asked for after": false} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph()
			defer g.Release()
			x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
			h := x.MulScalar(2)
			if early {
				h.RetainGrad()
			}
			h.MulScalarInPlace(5)
			h.AddScalarInPlace(1)
			if !early {
				h.RetainGrad()
			}
			require.NoError(t, h.MulScalar(3).Sum(nil, false).Backward(autograd.RetainGraph()))
			require.Equal(t, []float64{3, 3}, values(t, h.Grad()))
			h.MulScalarInPlace(2)
			require.Equal(t, []float64{3, 3}, values(t, h.Grad()), "what is there stays")
		})
	}
}
