package autograd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func double(g *tensor.Tensor) (*tensor.Tensor, error) { return g.MulScalar(2) }

func TestRegisterHook_ReplacesTheGradientOnItsWay(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := x.MulScalar(3)
	var order []string
	y.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) {
		order = append(order, "first")
		require.Equal(t, []float64{1, 1}, values(t, g))
		return double(g)
	})
	y.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) {
		order = append(order, "second")
		require.Equal(t, []float64{2, 2}, values(t, g), "what the first returned")
		return nil, nil
	})
	x.RegisterHook(double)
	y.RetainGrad()
	require.NoError(t, y.Sum(nil, false).Backward())
	require.Equal(t, []string{"first", "second"}, order)
	require.Equal(t, []float64{2, 2}, values(t, y.Grad()), "retained as the hooks left it")
	require.Equal(t, []float64{12, 12}, values(t, x.Grad()))
}

func TestRegisterHook_SeesTheWholeGradientOnce(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{3}), autograd.RequiresGrad())
	y := x.AddScalar(1)
	calls := 0
	count := func(g *tensor.Tensor) (*tensor.Tensor, error) {
		calls++
		require.Equal(t, []float64{8}, values(t, g))
		return nil, nil
	}
	y.RegisterHook(count)
	x.RegisterHook(count)
	require.NoError(t, y.Mul(y).Sum(nil, false).Backward())
	require.Equal(t, 2, calls)
}

func TestHookHandle_RemovesItsHookAlsoWhileItRuns(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2})))
	defer w.Release()
	calls := 0
	var h *autograd.HookHandle
	h = w.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) {
		calls++
		h.Remove()
		return nil, nil
	})
	kept := 0
	w.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { kept++; return nil, nil })
	for range 3 {
		g := r.graph()
		require.NoError(t, g.Param(w).Sum(nil, false).Backward())
		g.Release()
	}
	h.Remove()
	(*autograd.HookHandle)(nil).Remove()
	require.Equal(t, []int{1, 3}, []int{calls, kept})
	require.Equal(t, []float64{3, 3}, values(t, w.Grad()))
}

func TestRegisterHook_OfAParameterSeesThePassesGradientAlone(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1})))
	defer w.Release()
	w.RegisterHook(double)
	for range 2 {
		g := r.graph()
		require.NoError(t, g.Param(w).MulScalar(5).Sum(nil, false).Backward())
		g.Release()
	}
	require.Equal(t, []float64{20}, values(t, w.Grad()))
}

func TestRegisterHook_RefusesWrongReplacements(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		hook autograd.Hook
		want any
	}{
		"shape":    {func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.Sum(nil, false) }, new(*tensor.ShapeError)},
		"type":     {func(g *tensor.Tensor) (*tensor.Tensor, error) { return g.To(tensor.Float32) }, new(*tensor.DTypeError)},
		"released": {func(g *tensor.Tensor) (*tensor.Tensor, error) { h := g.Retain(); h.Release(); return h, nil }, new(*tensor.ReleasedError)},
		"error":    {func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, boom }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph()
			defer g.Release()
			x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
			y := x.Exp()
			y.RegisterHook(c.hook)
			err := y.Sum(nil, false).Backward()
			var failed *autograd.OpError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "exp", failed.Op)
			if c.want == nil {
				require.ErrorIs(t, err, boom)
			} else {
				require.ErrorAs(t, err, c.want)
			}
			require.Nil(t, x.Grad())
		})
	}
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	g.Input(r.tensor([]float64{1})).RegisterHook(double)
	require.ErrorIs(t, g.Err(), autograd.ErrNoGrad)
}

// A hook that releases the graph ends the pass there and then: nobody else is called or gets a gradient.
func TestHooks_ThatReleaseTheGraphEndThePass(t *testing.T) {
	var g *autograd.Graph
	returned := map[string]func(grad *tensor.Tensor) (*tensor.Tensor, error){
		"nothing":      func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, nil },
		"the gradient": func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad, nil },
		"another":      double,
	}
	for what, f := range returned {
		releases := func(grad *tensor.Tensor) (*tensor.Tensor, error) {
			g.Release()
			return f(grad)
		}
		for _, name := range []string{"of a result", "of a leaf", "of a parameter"} {
			t.Run(name+" and return "+what, func(t *testing.T) {
				r := onHost(t)
				w := autograd.NewParameter("w", must(tensor.Ones(r.exec, tensor.Float64, 2)))
				defer w.Release()
				before := r.allocated()
				g = r.graph()
				leaf := g.Param(w)
				y := leaf.MulScalar(3)
				later := 0
				count := func(*tensor.Tensor) (*tensor.Tensor, error) { later++; return nil, nil }
				register := map[string]func(autograd.Hook) *autograd.HookHandle{
					"of a result": y.RegisterHook, "of a leaf": leaf.RegisterHook, "of a parameter": w.RegisterHook,
				}[name]
				register(releases)
				register(count)
				w.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { later++; return nil })
				err := y.Sum(nil, false).Backward()
				var released *autograd.ReleasedError
				require.ErrorAs(t, err, &released)
				require.Equal(t, autograd.GraphReleased, released.Reason)
				require.Zero(t, later, "calls of later hooks")
				require.Nil(t, w.Grad())
				require.Equal(t, before, r.allocated())
			})
		}
	}
}

func TestRegisterPostAccumulateGradHook_ThatReleasesTheGraphIsTheLast(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.Ones(r.exec, tensor.Float64, 2)))
	defer w.Release()
	g, later := r.graph(), 0
	w.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { g.Release(); return nil })
	w.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { later++; return nil })
	var released *autograd.ReleasedError
	require.ErrorAs(t, g.Param(w).Sum(nil, false).Backward(), &released)
	require.Zero(t, later)
}

func TestRegisterHook_MayKeepTheGradient(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.tensor([]float64{-1, 2, 3}), autograd.RequiresGrad())
	y := x.MulScalar(2)
	var kept *tensor.Tensor
	y.RegisterHook(func(g *tensor.Tensor) (*tensor.Tensor, error) {
		kept = g.Retain()
		return nil, nil
	})
	require.NoError(t, y.ReLU().MulScalar(5).Sum(nil, false).Backward())
	require.Equal(t, []float64{0, 5, 5}, values(t, kept), "no rule has written over it")
	require.Equal(t, []float64{0, 10, 10}, values(t, x.Grad()))
	g.Release()
	require.Equal(t, []float64{0, 5, 5}, values(t, kept))
	kept.Release()
}

// stacked runs depth products with parameters of their own and returns the loss.
func stacked(g *autograd.Graph, x *tensor.Tensor, ps []*autograd.Parameter) *autograd.Variable {
	h := g.Input(x)
	for _, p := range ps {
		in := h
		h = g.Scope(func() *autograd.Variable { return in.MatMul(g.Param(p)).Tanh() })
	}
	return h.Sum(nil, false)
}

func TestPostAccumulateGradHook_StepsInBackwardAndFreesGradientsEarly(t *testing.T) {
	const depth = 6
	peak := func(early bool) int64 {
		r := onSim(t)
		x := r.zeros(tensor.Float32, 1, 64) // activations are small, parameters are not
		var ps []*autograd.Parameter
		for range depth {
			p := autograd.NewParameter("w", must(tensor.Zeros(r.exec, tensor.Float32, 64, 64)))
			defer p.Release()
			if early {
				p.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error {
					defer p.ZeroGrad()
					return p.Tensor().AddInPlace(p.Grad(), -0.1)
				})
			}
			ps = append(ps, p)
		}
		g := r.graph()
		defer g.Release()
		loss := stacked(g, x, ps)
		before := r.allocated()
		r.resetPeak()
		require.NoError(t, loss.Backward())
		for _, p := range ps {
			require.Equal(t, early, p.Grad() == nil)
		}
		return r.peak() - before
	}
	require.Greater(t, peak(false), int64((depth-1)*unit), "all gradients live at the end")
	require.Less(t, peak(true), int64(2*unit), "one gradient lives at a time")
}

func TestPostAccumulateGradHook_GivesTheNumbersOfAStepAfterwards(t *testing.T) {
	run := func(early bool) []float64 {
		r := onHost(t)
		x := r.random(1, 4, 4)
		w := autograd.NewParameter("w", must(tensor.RandN(r.exec, tensor.NewGenerator(2), tensor.Float64, 4, 4)))
		defer w.Release()
		step := func(p *autograd.Parameter) error {
			defer p.ZeroGrad()
			return p.Tensor().AddInPlace(p.Grad(), -0.1)
		}
		if early {
			w.RegisterPostAccumulateGradHook(step)
		}
		for range 3 {
			g := r.graph()
			p := g.Param(w) // used twice, once as the first factor, whose gradient comes before that of the second is computed
			require.NoError(t, p.MatMul(g.Input(x)).Mul(p).Sum(nil, false).Backward())
			g.Release()
			if !early {
				require.NoError(t, step(w))
			}
		}
		return values(t, w.Tensor())
	}
	require.Equal(t, run(false), run(true))
}

func TestPostAccumulateGradHook_ThatChangesWhatIsStillNeeded_IsFound(t *testing.T) {
	r := onHost(t)
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2})))
	defer w.Release()
	w.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error { return p.Tensor().MulScalarInPlace(2) })
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{3, 4}), autograd.RequiresGrad())
	p := g.Param(w)
	older := x.Mul(p.Detach()) // saves the same memory, without a gradient for it
	require.ErrorIs(t, older.Mul(p).Sum(nil, false).Backward(), autograd.ErrModified)
}

func TestPostAccumulateGradHook_WorksOnTheParametersStream(t *testing.T) {
	r := onHost(t)
	s, err := r.dev.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	w := autograd.NewParameter("w", must(tensor.FromSlice(r.exec, []float64{1, 2})))
	defer w.Release()
	seen := 0
	w.RegisterPostAccumulateGradHook(func(p *autograd.Parameter) error {
		seen++
		require.Equal(t, []float64{3, 3}, values(t, p.Grad()))
		return nil
	})
	g := r.graph(autograd.WithStream(s))
	defer g.Release()
	require.NoError(t, g.Param(w).MulScalar(3).Sum(nil, false).Backward())
	require.Equal(t, 1, seen)
}
