package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/internal/inspect"
	"github.com/cistern-ml/cistern/tensor"
)

// layers applies n times: product with w, dropout, exp.
func layers(n int, w *autograd.Parameter) func(in []*autograd.Variable) *autograd.Variable {
	return func(in []*autograd.Variable) *autograd.Variable {
		x := in[0]
		for range n {
			x = x.Graph().Scope(func() *autograd.Variable { return x.MatMul(x.Graph().Param(w)).Dropout(0.25).Tanh() })
		}
		return x
	}
}

func TestCheckpoint_GivesTheSameGradients(t *testing.T) {
	r := onHost(t)
	x := r.random(1, 8, 8)
	w := autograd.NewParameter("w", must(tensor.RandN(r.exec, tensor.NewGenerator(2), tensor.Float64, 8, 8)))
	defer w.Release()
	step := func(checkpointed bool) (loss float64, dw, dx []float64, after tensor.GeneratorState) {
		gen := tensor.NewGenerator(3)
		g := r.graph(autograd.WithGenerator(gen))
		defer g.Release()
		defer w.ZeroGrad()
		v := g.Input(x, autograd.RequiresGrad())
		h := v
		for range 3 {
			if checkpointed {
				h = autograd.Checkpoint(layers(2, w), h)
			} else {
				h = layers(2, w)([]*autograd.Variable{h})
			}
		}
		l := h.Sum(nil, false)
		require.NoError(t, l.Backward())
		return valuesOf(t, l)[0], values(t, w.Grad()), values(t, v.Grad()), gen.State()
	}
	loss, dw, dx, state := step(false)
	loss2, dw2, dx2, state2 := step(true)
	require.Equal(t, loss, loss2)
	require.InDeltaSlice(t, dw, dw2, 1e-12, "the order of additions differs")
	require.Equal(t, dx, dx2)
	require.Equal(t, state, state2, "the second run draws the numbers of the first")
}

func TestCheckpoint_SavesOnlyItsInput(t *testing.T) {
	r := onSim(t)
	x := r.square()
	w := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
	defer w.Release()
	base := r.allocated()
	peak := func(segments, each int) int64 {
		g := r.graph()
		defer g.Release()
		defer w.ZeroGrad()
		h := g.Input(x)
		g.Scope(func() *autograd.Variable {
			for range segments {
				h = autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable {
					v := in[0]
					for range each {
						v = v.Graph().Scope(func() *autograd.Variable { return v.MatMul(v.Graph().Param(w)).Exp() })
					}
					return v
				}, h)
			}
			return h
		})
		require.EqualValues(t, base+int64(segments)*unit, r.allocated(), "one result of each segment")
		r.resetPeak()
		require.NoError(t, h.Sum(nil, false).Backward())
		return (r.peak() - base) / unit
	}
	// Without checkpoints 16 layers save 16 results. With 4 segments of 4, 4 results are saved, and at most 4 made again.
	require.LessOrEqual(t, peak(4, 4), int64(4+4+3))
	require.Less(t, peak(4, 4), peak(1, 16))
}

func TestCheckpoint_ReachesParametersWhenNoInputNeedsAGradient(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{3}))
	loss := autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return in[0].Mul(in[0].Graph().Param(w)) }, x)
	require.NoError(t, loss.Backward(autograd.RetainGraph()))
	require.NoError(t, loss.Backward())
	require.Equal(t, []float64{6}, values(t, w.Grad()))
	require.ErrorIs(t, loss.Backward(), autograd.ErrSecondBackward)
}

func TestCheckpoint_WithoutGradientsIsJustTheFunction(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	x := g.Input(r.tensor([]float64{3}))
	out := autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return in[0].Add(in[1]) }, x, x)
	require.False(t, out.RequiresGrad())
	require.Equal(t, []float64{6}, valuesOf(t, out))
	require.Equal(t, 2, inspect.Owned(g))
}

func TestCheckpoint_InputThatTheResultDoesNotNeedGetsZeros(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, y := g.Input(r.tensor([]float64{3}), autograd.RequiresGrad()), g.Input(r.tensor([]float64{4}), autograd.RequiresGrad())
	require.NoError(t, autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return in[0].Exp() }, x, y).Backward())
	require.Equal(t, []float64{0}, values(t, y.Grad()))
	require.NotEqual(t, []float64{0}, values(t, x.Grad()))
}

func TestCheckpoint_RefusesWhatItCannotRepeat(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float64{3})
	calls := 0
	for name, f := range map[string]func(outer *autograd.Variable) func(in []*autograd.Variable) *autograd.Variable{
		"captured variable": func(outer *autograd.Variable) func(in []*autograd.Variable) *autograd.Variable {
			return func(in []*autograd.Variable) *autograd.Variable { return in[0].Add(outer) }
		},
		"returned variable": func(outer *autograd.Variable) func(in []*autograd.Variable) *autograd.Variable {
			return func([]*autograd.Variable) *autograd.Variable { return outer }
		},
		"nothing": func(*autograd.Variable) func(in []*autograd.Variable) *autograd.Variable {
			return func([]*autograd.Variable) *autograd.Variable { return nil }
		},
		"other shape": func(*autograd.Variable) func(in []*autograd.Variable) *autograd.Variable {
			return func(in []*autograd.Variable) *autograd.Variable {
				calls++
				return in[0].Expand(calls).Exp()
			}
		},
	} {
		g := r.graph()
		v := g.Input(x, autograd.RequiresGrad())
		var op *autograd.OpError
		require.ErrorAs(t, autograd.Checkpoint(f(v), v).Sum(nil, false).Backward(), &op, name)
		require.Equal(t, "checkpoint", op.Op, name)
		g.Release()
	}
}
