package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

func TestScope_FreesWhatItNeitherReturnsNorSaved(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph()
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	base := r.allocated()
	out := g.Scope(func() *autograd.Variable {
		a := v.AddScalar(1) // saves nothing
		b := a.Exp()        // saves its result
		c := b.AddScalar(1) // saves nothing
		require.EqualValues(t, base+3*unit, r.allocated())
		return c
	})
	require.EqualValues(t, base+2*unit, r.allocated(), "the saved result of exp, and the result of the scope")
	require.NoError(t, out.Sum(nil, false).Backward())
}

func TestScope_WithoutGradientsKeepsOnlyTheResult(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	require.False(t, v.RequiresGrad())
	base := r.allocated()
	out := g.Scope(func() *autograd.Variable { return v.Exp().Exp().Exp() })
	require.EqualValues(t, base+unit, r.allocated())
	require.Equal(t, 2, inspect.Owned(g), "the leaf and the result")
	require.True(t, out.Alive())
}

func TestScope_ResultOfAnInnerScopeBelongsToTheOuter(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v := g.Input(x)
	base := r.allocated()
	var inner *autograd.Variable
	out := g.Scope(func() *autograd.Variable {
		inner = g.Scope(func() *autograd.Variable { return v.Exp().Exp() })
		require.EqualValues(t, base+unit, r.allocated())
		require.True(t, inner.Alive())
		return inner.Exp()
	})
	require.True(t, out.Alive())
	require.False(t, inner.Alive())
	require.EqualValues(t, base+unit, r.allocated())
}

func TestScope_MayReturnWhatIsOlderThanItself(t *testing.T) {
	r := onSim(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v := g.Input(r.square())
	require.Same(t, v, g.Scope(func() *autograd.Variable { return v }))
	require.True(t, v.Alive())
}

func TestScope_KeepsTheMemoryOfAViewThatItReturns(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v := g.Input(r.tensor([]float64{1, 2, 3, 4}, 2, 2))
	row := g.Scope(func() *autograd.Variable { return v.MulScalar(2).Select(0, 1) })
	require.Equal(t, []float64{6, 8}, valuesOf(t, row))
}

func TestScopes_KeepsAllResults(t *testing.T) {
	r := onSim(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v := g.Input(r.square())
	base := r.allocated()
	out := g.Scopes(func() []*autograd.Variable {
		e := v.Exp()
		return []*autograd.Variable{e.Exp(), e.Neg()}
	})
	require.Len(t, out, 2)
	require.True(t, out[0].Alive() && out[1].Alive())
	require.EqualValues(t, base+2*unit, r.allocated())
}

func TestScope_EndsWhenItsFunctionPanics(t *testing.T) {
	r := onSim(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	v := g.Input(r.square())
	base := r.allocated()
	require.Panics(t, func() {
		g.Scope(func() *autograd.Variable {
			v.Exp()
			panic("a mistake of the program")
		})
	})
	require.Equal(t, base, r.allocated())
	kept := v.Exp() // outside again
	g.Scope(func() *autograd.Variable { return nil })
	require.True(t, kept.Alive())
}

func TestScope_GraphReleasedInside(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	v := g.Input(r.square())
	g.Scope(func() *autograd.Variable {
		e := v.Exp()
		g.Release()
		return e
	})
	require.ErrorIs(t, v.Exp().Backward(), autograd.ErrReleased)
}

func TestVariableOfAnEndedScope_SaysSoWhenUsed(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	v := g.Input(r.square())
	var lost *autograd.Variable
	g.Scope(func() *autograd.Variable {
		lost = v.Exp()
		return nil
	})
	_, err := lost.Tensor()
	var released *autograd.ReleasedError
	require.ErrorAs(t, err, &released)
	require.Equal(t, autograd.ScopeEnded, released.Reason)
	require.NoError(t, g.Err(), "looking is not using")

	require.Equal(t, tensor.Shape{64, 64}, lost.Shape(), "facts stay readable")
	lost.Neg()
	require.ErrorIs(t, g.Err(), autograd.ErrReleased)
	require.ErrorContains(t, g.Err(), "return it from the scope")
}

func TestRelease_OfAVariableGivesItsMemoryBackEarly(t *testing.T) {
	r := onSim(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	h := g.Input(r.square())
	base := r.allocated()
	for range 5 { // as in a recurrent network: the state before is not needed any more
		next := h.Tanh()
		h.Release()
		h.Release()
		h = next
	}
	require.EqualValues(t, base+unit, r.allocated())
}

func TestMemo_KeepsAVariableForTheWholeGraph(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.square(), autograd.RequiresGrad())
	made := 0
	half := func() *autograd.Variable {
		type key struct{}
		return g.Memo(key{}, func() *autograd.Variable {
			made++
			return x.To(tensor.Float16)
		})
	}
	loss := g.Scope(func() *autograd.Variable { return half().To(tensor.Float32).Sum(nil, false) })
	require.NoError(t, loss.Backward())
	require.True(t, half().Alive(), "neither the scope nor backward released it")
	require.NoError(t, half().To(tensor.Float32).Sum(nil, false).Backward())
	require.Equal(t, 1, made)
}

func TestNew_GivesATensorToTheGraph(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	base := r.allocated()
	out := g.Scope(func() *autograd.Variable {
		h := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float64, 2) })
		return h.AddScalar(1)
	})
	require.Equal(t, []float64{2, 2}, valuesOf(t, out))
	require.EqualValues(t, base+scalar, r.allocated())
}
