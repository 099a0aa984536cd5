package nn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// hookRig is a small model whose layers have weights of 1 and no bias.
func hookRig(r *rig) (*nn.SequentialModule, *tensor.Tensor) {
	ones := []nn.LayerOption{nn.WeightInit(nn.Ones), nn.NoBias()}
	m := nn.Sequential(nn.Linear(2, 2, ones...), nn.ReLU(), nn.Linear(2, 1, ones...))
	r.place(m)
	return m, r.tensor([]float32{1, -4, 2, 3}, 2, 2) // sums: -3, 5
}

func TestForwardHooks_SeeAndReplaceWhatALayerTakesAndGives(t *testing.T) {
	r := onHost(t)
	m, x := hookRig(r)
	require.Equal(t, []float64{0, 10}, r.forward(m, x))
	var seen [][]float64
	see := func(v *autograd.Variable) {
		f, err := v.Float64s()
		require.NoError(t, err)
		seen = append(seen, f)
	}
	first, err := nn.RegisterForwardHook(m.At(0), func(l nn.Module, x, y *autograd.Variable) (*autograd.Variable, error) {
		require.Same(t, m.At(0), l)
		see(x)
		see(y)
		return nil, nil
	})
	require.NoError(t, err)
	require.Equal(t, []float64{0, 10}, r.forward(m, x))
	require.Equal(t, [][]float64{{1, -4, 2, 3}, {-3, -3, 5, 5}}, seen, "before the activation, which is not computed in one pass now")
	double, err := nn.RegisterForwardPreHook(m.At(0), func(_ nn.Module, x *autograd.Variable) (*autograd.Variable, error) { return x.MulScalar(2), nil })
	require.NoError(t, err)
	negate, err := nn.RegisterForwardHook(m.At(1), func(_ nn.Module, _, y *autograd.Variable) (*autograd.Variable, error) { return y.AddScalar(1), nil })
	require.NoError(t, err)
	seen = nil
	before := r.allocated()
	require.Equal(t, []float64{2, 22}, r.forward(m, x))
	require.Equal(t, before, r.allocated())
	require.Equal(t, [][]float64{{2, -8, 4, 6}, {-6, -6, 10, 10}}, seen)

	c, err := nn.Clone(m)
	require.NoError(t, err)
	defer c.Release()
	for _, h := range []*nn.HookHandle{first, double, negate, negate, nil} {
		h.Remove()
	}
	seen = nil
	require.Equal(t, []float64{0, 10}, r.forward(m, x))
	require.Empty(t, seen)
	double.Remove()
	_, err = nn.RegisterForwardHook(c.At(2), func(_ nn.Module, _, y *autograd.Variable) (*autograd.Variable, error) { return nil, errors.New("mine") })
	require.NoError(t, err)
	require.Equal(t, []float64{0, 10}, r.forward(m, x), "hooks of a copy are its own")
}

func TestHooks_OfAllModulesAreCalled(t *testing.T) {
	r := onHost(t)
	inner := nn.Linear(2, 2)
	lstm, cell, block := nn.LSTM(2, 2), nn.GRUCell(2, 2), nn.TransformerBlock(2, 1, nn.FeedForward(2))
	drop, check := nn.Dropout(0.5), nn.Checkpointed(inner)
	nn.Eval(drop)
	all := nn.Sequential(lstm, cell, block, drop, check, nn.Identity())
	r.place(all)
	calls := map[nn.Module]int{}
	for _, m := range []nn.Module{lstm, cell, block, block.Linear1, block.SelfAttn, drop, check, all, all.At(5)} {
		_, err := nn.RegisterForwardPreHook(m, func(m nn.Module, x *autograd.Variable) (*autograd.Variable, error) {
			calls[m]++
			return x.MulScalar(1), nil
		})
		require.NoError(t, err)
	}
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2, 3, 4}, 1, 2, 2))
	out, last, c := lstm.ForwardState(x, nil, nil)
	h, none := cell.Step(out.Squeeze(0), nil, nil)
	require.Nil(t, none)
	require.Equal(t, []int{2, 2}, []int{last.Dim(1), c.Dim(2)})
	require.Equal(t, 2, h.Dim(1))
	require.NoError(t, g.Err())
	require.Equal(t, 1, calls[lstm])
	require.Equal(t, 1, calls[cell])
	lstm.Forward(x)
	for _, l := range []nn.Layer{block, drop, check, all.At(5)} {
		l.Forward(out)
	}
	nn.Sequential(all.At(5)).Forward(out)
	require.NoError(t, g.Err())
	require.Equal(t, map[nn.Module]int{lstm: 2, cell: 1, block: 1, block.Linear1: 1, block.SelfAttn: 1, drop: 1, inner: 1, all.At(5): 2}, calls)
}

// A transformer block with a hook that only looks computes what it computes without.
func TestHooks_ThatLookChangeNothing(t *testing.T) {
	r := onHost(t)
	for _, act := range [][]nn.BlockOption{nil, {nn.ActivationGELU()}} {
		block := nn.TransformerBlock(2, 1, append(act, nn.FeedForward(4), nn.BlockDropout(0))...)
		r.place(block, nn.Seed(1))
		x := r.tensor([]float32{1, 2, 3, -4}, 2, 1, 2)
		want := r.forward(block, x)
		_, err := nn.RegisterForwardHook(block.Linear1, func(nn.Module, *autograd.Variable, *autograd.Variable) (*autograd.Variable, error) { return nil, nil })
		require.NoError(t, err)
		require.InDeltaSlice(t, want, r.forward(block, x), 1e-6)
	}
}

// PyTorch gives the same numbers: for y = l(x)+x with l(x) = 2x, the gradient of y.sum() that comes through l is 2 of 3.
func TestBackwardHooks_SeeTheGradientThroughTheModule(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(1, 1, nn.WeightInit(nn.Constant(2)), nn.NoBias())
	r.place(l)
	var seen []float64
	see := func(_ nn.Module, grad *tensor.Tensor) (*tensor.Tensor, error) {
		v, err := grad.Item()
		seen = append(seen, v)
		return nil, err
	}
	_, err := nn.RegisterFullBackwardHook(l, see)
	require.NoError(t, err)
	out, err := nn.RegisterFullBackwardPreHook(l, see)
	require.NoError(t, err)
	run := func() (xGrad, wGrad float64) {
		g := r.graph()
		defer g.Release()
		l.Weight.ZeroGrad()
		x := g.Input(r.tensor([]float32{5}, 1, 1), autograd.RequiresGrad())
		require.NoError(t, l.Forward(x).Add(x).Sum(nil, false).Backward())
		v, err := x.Grad().Item()
		require.NoError(t, err)
		w, err := l.Weight.Grad().Item()
		require.NoError(t, err)
		return v, w
	}
	v, w := run()
	require.Equal(t, []float64{1, 2}, seen, "of the result, then of the input")
	require.Equal(t, []float64{3, 5}, []float64{v, w})
	out.Remove()
	_, err = nn.RegisterFullBackwardPreHook(l, func(_ nn.Module, grad *tensor.Tensor) (*tensor.Tensor, error) { return grad.MulScalar(10) })
	require.NoError(t, err)
	v, w = run()
	require.Equal(t, []float64{21, 50}, []float64{v, w}, "what the hook returns goes on")
	_, err = nn.RegisterFullBackwardHook(l, func(nn.Module, *tensor.Tensor) (*tensor.Tensor, error) { return nil, errors.New("mine") })
	require.NoError(t, err)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{5}, 1, 1), autograd.RequiresGrad())
	require.ErrorContains(t, nn.Sequential(l).Forward(x).Sum(nil, false).Backward(), "nn: full backward hook 3 of module 0 (LinearLayer): mine")
	l.Weight.ZeroGrad()
}

func TestHooks_ThatFailNameModuleAndHook(t *testing.T) {
	r := onHost(t)
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		register func(m nn.Module) error
		want     string
	}{
		"pre": {func(m nn.Module) error {
			_, err := nn.RegisterForwardPreHook(m, func(nn.Module, *autograd.Variable) (*autograd.Variable, error) { return nil, mine })
			return err
		}, "nn: forward pre-hook 0 of module LinearLayer: mine"},
		"post": {func(m nn.Module) error {
			_, err := nn.RegisterForwardHook(m, func(nn.Module, *autograd.Variable, *autograd.Variable) (*autograd.Variable, error) { return nil, mine })
			return err
		}, "nn: forward hook 0 of module LinearLayer: mine"},
		"shape": {func(m nn.Module) error {
			_, err := nn.RegisterForwardPreHook(m, func(_ nn.Module, x *autograd.Variable) (*autograd.Variable, error) { return x.Unsqueeze(0), nil })
			return err
		}, "nn: forward pre-hook 0 of module LinearLayer: tensor: hook: [2, 2]: what takes the input's place has shape [1, 2, 2]"},
		"graph": {func(m nn.Module) error {
			_, err := nn.RegisterForwardHook(m, func(nn.Module, *autograd.Variable, *autograd.Variable) (*autograd.Variable, error) {
				return new(autograd.Variable), nil
			})
			return err
		}, "nn: forward hook 0 of module LinearLayer"},
	} {
		t.Run(name, func(t *testing.T) {
			m, x := hookRig(r)
			require.NoError(t, c.register(m.At(2)))
			g := r.graph()
			err := m.Forward(g.Input(x)).Sum(nil, false).Backward()
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, " in 2 at ")
			g.Release()
			m.Release()
		})
	}
	var bad *nn.ArgumentError
	for _, m := range []nn.Module{nil, (*nn.LinearLayer)(nil), struct{ nn.Layer }{nn.ReLU()}, nn.Checkpointed(nil)} {
		_, err := nn.RegisterFullBackwardHook(m, func(nn.Module, *tensor.Tensor) (*tensor.Tensor, error) { return nil, nil })
		require.ErrorAs(t, err, &bad)
	}
	_, err := nn.RegisterForwardHook(nn.ReLU(), nil)
	require.ErrorAs(t, err, &bad)
}

// twoResults has a method with two results.
type twoResults struct{ nn.Base }

func (n *twoResults) both(x *autograd.Variable) (a, b *autograd.Variable) {
	n.Scopes(x, func(*autograd.Graph) []*autograd.Variable {
		a, b = x.MulScalar(2), x.MulScalar(3)
		return []*autograd.Variable{a, b}
	})
	return a, b
}

func TestHooks_OfMethodsWithSeveralResultsLook(t *testing.T) {
	r := onHost(t)
	n := nn.New(new(twoResults))
	pre, err := nn.RegisterForwardPreHook(n, func(_ nn.Module, x *autograd.Variable) (*autograd.Variable, error) { return x.AddScalar(1), nil })
	require.NoError(t, err)
	var first []float64
	_, err = nn.RegisterForwardHook(n, func(_ nn.Module, _, y *autograd.Variable) (*autograd.Variable, error) {
		first, err = y.Float64s()
		return nil, err
	})
	require.NoError(t, err)
	g := r.graph()
	_, b := n.both(g.Input(r.tensor([]float32{1}, 1)))
	require.NoError(t, g.Err())
	require.Equal(t, []float64{4}, first)
	v, err := b.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{6}, v)
	pre.Remove()
	_, err = nn.RegisterForwardHook(n, func(_ nn.Module, _, y *autograd.Variable) (*autograd.Variable, error) { return y.MulScalar(2), nil })
	require.NoError(t, err)
	a, _ := n.both(g.Input(r.tensor([]float32{1}, 1)))
	require.NotNil(t, a)
	require.ErrorContains(t, g.Err(), "it can only be looked at")
	g.Release()
}
