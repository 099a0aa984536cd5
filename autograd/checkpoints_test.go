package autograd_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// threefold has results of three shapes: a product with w under dropout, what is made of it, and places of the largest elements.
func threefold(w *autograd.Parameter) func(in []variable) []variable {
	return func(in []variable) []variable {
		h := in[0].MatMul(in[0].Graph().Param(w)).Dropout(0.25).Tanh()
		return []variable{h, h.Square().Sum([]int{1}, false), h.ArgMax(1, false)}
	}
}

func inOne(f func(in []variable) []variable, in ...variable) []variable { return f(in) }

func inACheckpoint(f func(in []variable) []variable, in ...variable) []variable {
	return autograd.Checkpoints(3, f, in...)
}

func inTwo(f func(in []variable) []variable, in ...variable) []variable {
	return autograd.Checkpoints(3, func(in []variable) []variable { return autograd.Checkpoints(3, f, in...) }, in...)
}

var checkpointsOf = map[string]func(f func(in []variable) []variable, in ...variable) []variable{"checkpoints": inACheckpoint, "nested": inTwo}

// losses are what may depend on some of the results.
var lossesOf = map[string]func(out []variable) variable{
	"all":        func(out []variable) variable { return out[0].Sum(nil, false).Add(out[1].Square().Sum(nil, false)) },
	"the first":  func(out []variable) variable { return out[0].Exp().Sum(nil, false) },
	"the second": func(out []variable) variable { return out[1].Exp().Sum(nil, false) },
	"by places":  func(out []variable) variable { return out[0].Gather(1, out[2].Unsqueeze(1)).Sum(nil, false) },
}

func TestCheckpoints_GiveTheSameGradients(t *testing.T) {
	r := onHost(t)
	x := r.random(1, 4, 5)
	w := autograd.NewParameter("w", must(tensor.RandN(r.exec, tensor.NewGenerator(2), tensor.Float64, 5, 5)))
	defer w.Release()
	type run = func(f func(in []variable) []variable, in ...variable) []variable
	step := func(how run, loss func(out []variable) variable, grad bool, opts ...autograd.BackwardOption) (all [][]float64, after tensor.GeneratorState) {
		gen := tensor.NewGenerator(3)
		g := r.graph(autograd.WithGenerator(gen))
		defer g.Release()
		defer w.ZeroGrad()
		v := g.Input(x, autograd.RequiresGrad())
		out := how(threefold(w), v)
		require.Len(t, out, 3)
		require.False(t, out[2].RequiresGrad())
		l := loss(out)
		all = append(all, valuesOf(t, l), valuesOf(t, out[0]), valuesOf(t, out[1]), valuesOf(t, out[2]))
		if grad {
			grads, err := autograd.Grad(vars{l}, vars{v}, opts...)
			require.NoError(t, err)
			require.Nil(t, w.Grad())
			return append(all, valuesOf(t, grads[0])), gen.State()
		}
		require.NoError(t, l.Backward(opts...))
		all = append(all, values(t, v.Grad()), values(t, w.Grad()))
		if len(opts) > 0 {
			list := vars{g.Param(w).GradVariable(), v.GradVariable()}
			w.ZeroGrad()
			require.NoError(t, wavy(g, list).Backward())
			all = append(all, values(t, w.Grad()))
		}
		return all, gen.State()
	}
	for how, checkpoints := range checkpointsOf {
		for name, loss := range lossesOf {
			for _, grad := range []bool{false, true} {
				for _, opts := range [][]autograd.BackwardOption{nil, {autograd.CreateGraph()}} {
					what := fmt.Sprintf("%s of %s, Grad %v, options %d", how, name, grad, len(opts))
					want, state := step(inOne, loss, grad, opts...)
					have, state2 := step(checkpoints, loss, grad, opts...)
					require.Equal(t, state, state2, "%s: the second run draws the numbers of the first", what)
					require.Len(t, have, len(want))
					for i := range want {
						near(t, what, want[i], have[i], 1e-12)
					}
				}
			}
		}
	}
}

func TestCheckpoints_TakeInputsAndTheSameVariableTwiceAsResults(t *testing.T) {
	for name, opts := range map[string][]autograd.BackwardOption{"plain": nil, "create graph": {autograd.CreateGraph()}} {
		r := onHost(t)
		g := r.graph()
		x := g.Input(r.tensor([]float64{3}), autograd.RequiresGrad())
		out := autograd.Checkpoints(4, func(in []variable) []variable {
			y := in[0].Square()
			return []variable{y, in[0], y, in[0].Detach()}
		}, x)
		loss := out[0].Add(out[1].MulScalar(10)).Add(out[2].MulScalar(100)).Add(out[3]).Sum(nil, false)
		require.NoError(t, loss.Backward(opts...), name)
		require.Equal(t, []float64{6 + 10 + 600}, values(t, x.Grad()), name)
		g.Release()
	}
}

// What only an unused result needs is gone before the function's own backward pass.
func TestCheckpoints_SpareWhatNothingDependsOn(t *testing.T) {
	r := onSim(t)
	x := r.square()
	base := r.allocated()
	within := func(unused int) (units int64) {
		g := r.graph()
		defer g.Release()
		out := autograd.Checkpoints(2, func(in []variable) []variable {
			wide, y := in[0], in[0]
			for range unused {
				wide = wide.Exp()
			}
			for range 8 {
				y = y.Exp()
			}
			if y.RequiresGrad() { // in the second run
				y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { units = (r.allocated() - base) / unit; return nil, nil })
			}
			return []variable{wide, y}
		}, g.Input(x, autograd.RequiresGrad()))
		require.EqualValues(t, base+2*unit, r.allocated(), "the two results")
		require.NoError(t, out[1].Sum(nil, false).Backward())
		return units
	}
	require.Equal(t, within(1), within(12))
	require.Positive(t, within(1))
}

func TestCheckpoints_RefuseWhatTheyCannotRepeat(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float64{3})
	calls := 0
	for want, c := range map[string]struct {
		results int
		f       func(in []variable) []variable
	}{
		"Checkpoints: the function is nil":                    {2, nil},
		"Checkpoints: 0 results; there must be 1 to 1024":     {0, func([]variable) []variable { return nil }},
		"Checkpoints: 1025 results; there must be 1 to 1024":  {1025, func([]variable) []variable { return nil }},
		"Checkpoints: the function returned 1 results, not 2": {2, func(in []variable) []variable { return in }},
		"Checkpoints: the function returned 0 results, not 2": {2, func([]variable) []variable { return nil }},
		"nil variable": {2, func(in []variable) []variable { return []variable{in[0], nil} }},
		"result 1 was float64[1] at first, now float64[2]": {2, func(in []variable) []variable { calls++; return []variable{in[0], in[0].Expand(calls).Exp()} }},
	} {
		g := r.graph()
		v := g.Input(x, autograd.RequiresGrad())
		out := autograd.Checkpoints(c.results, c.f, v)
		require.Len(t, out, min(max(c.results, 1), 1024), want)
		err := out[len(out)-1].Sum(nil, false).Backward()
		var op *autograd.OpError
		require.ErrorAs(t, err, &op, want)
		require.Equal(t, "checkpoint", op.Op, want)
		require.ErrorContains(t, err, want)
		g.Release()
	}
	require.Len(t, autograd.Checkpoints(2, func(in []variable) []variable { return in }), 2)
	require.Nil(t, autograd.Checkpoints(2, nil, nil, nil)[1])
}

func TestCheckpoints_CarryReplacedParameters(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{2})))
	defer w.Release()
	g := r.graph()
	defer g.Release()
	x, fast := g.Input(r.tensor([]float64{3}), autograd.RequiresGrad()), g.Input(r.tensor([]float64{5}), autograd.RequiresGrad())
	var out []variable
	g.WithParameters(map[*autograd.Parameter]*autograd.Variable{w: fast}, func() variable {
		out = autograd.Checkpoints(2, func(in []variable) []variable {
			y := in[0].Mul(in[0].Graph().Param(w))
			return []variable{y, y.Square()}
		}, x)
		return out[0]
	})
	require.NoError(t, out[0].Add(out[1]).Backward())
	require.Equal(t, []float64{3 + 2*15*3}, values(t, fast.Grad()))
	require.Nil(t, w.Grad())
}

func TestCheckpoints_FailAtEveryCallAndKeepNothing(t *testing.T) {
	n := newNthCalls(t)
	x := keep(t)(tensor.RandN(n.exec, tensor.NewGenerator(1), tensor.Float64, 4, 5))
	w := autograd.NewParameter("w", must(tensor.RandN(n.exec, tensor.NewGenerator(2), tensor.Float64, 5, 5)))
	t.Cleanup(w.Release)
	for how, checkpoints := range checkpointsOf {
		for name, loss := range lossesOf {
			for _, opts := range [][]autograd.BackwardOption{{autograd.RetainGraph()}, {autograd.CreateGraph()}} {
				for nth, more := 1, true; more; nth++ {
					what := fmt.Sprintf("%s of %s, call %d", how, name, nth)
					start := n.allocated()
					g := n.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
					v := g.Input(x, autograd.RequiresGrad())
					var err error
					more = n.during(nth, func() { err = loss(checkpoints(threefold(w), v)).Backward(opts...) })
					if err != nil {
						require.True(t, errors.Is(err, errNthCall), "%s: %v", what, err)
					}
					w.ZeroGrad()
					g.Release()
					require.NoError(t, n.alloc.(interface{ EmptyCache() error }).EmptyCache())
					require.Equal(t, start, n.allocated(), what)
				}
			}
		}
	}
}

func TestCheckpoints_OfANilResultSaysToLeaveItOut(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2), autograd.RequiresGrad())
	autograd.Checkpoints(2, func(in []variable) []variable { return []variable{in[0].Exp(), nil} }, x)
	require.ErrorIs(t, g.Err(), autograd.ErrNilVariable)
	require.ErrorContains(t, g.Err(), "result 1: nil variable; leave it out, as the cell of a GRU, and tell how many others there are")
}
