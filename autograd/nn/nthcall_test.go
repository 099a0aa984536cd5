package nn_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// silent are the kinds of calls that only frees make, whose failure has nobody to tell: the allocator tries again.
var silent = []sim.CallKind{sim.CallFree, sim.CallStreamSync, sim.CallEventQuery, sim.CallEventSync}

// An initializer makes a tensor and then fills it: each driver call of that fails in turn, and nothing is kept.
func TestInitializers_FailAtEveryCallAndKeepNothing(t *testing.T) {
	embedding := nn.Embedding(4, 3, nn.PaddingIdx(1)).Parameters()[0]
	for name, p := range map[string]*autograd.Parameter{
		"embedding":      embedding,
		"Zeros":          autograd.DeclareParameter("p", nn.Zeros, 4, 3),
		"Ones":           autograd.DeclareParameter("p", nn.Ones, 4, 3),
		"Constant":       autograd.DeclareParameter("p", nn.Constant(2), 4, 3),
		"Uniform":        autograd.DeclareParameter("p", nn.Uniform(0, 1), 4, 3),
		"Normal":         autograd.DeclareParameter("p", nn.Normal(0, 1), 4, 3),
		"XavierUniform":  autograd.DeclareParameter("p", nn.XavierUniform(1), 4, 3),
		"XavierNormal":   autograd.DeclareParameter("p", nn.XavierNormal(1), 4, 3),
		"Eye":            autograd.DeclareParameter("p", nn.Eye, 4, 3),
		"refused by Eye": autograd.DeclareParameter("p", nn.Eye, 4),
		"of another form": autograd.DeclareParameter("p", func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, _ ...int) (*tensor.Tensor, error) {
			return tensor.Zeros(e, dt, 2)
		}, 4),
	} {
		t.Run(name, func(t *testing.T) { failMaterialize(t, p, name == "refused by Eye" || name == "of another form") })
	}
}

func failMaterialize(t *testing.T, p *autograd.Parameter, refused bool) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	injected := errors.New("injected")
	for nth, more := 1, true; more; nth++ {
		calls, kind := 0, sim.CallKind(0)
		dev.Inject(func(c sim.Call) error {
			if calls++; calls == nth {
				kind = c.Kind
				return injected
			}
			return nil
		})
		err := p.Materialize(e, tensor.NewGenerator(1), tensor.Float32)
		dev.Inject(nil)
		require.NoError(t, alloc.EmptyCache())
		switch more = calls >= nth; {
		case refused:
			require.Error(t, err)
		case more && !slices.Contains(silent, kind):
			require.ErrorIs(t, err, injected, "call %d, %s", nth, kind)
		default:
			require.NoError(t, err)
			require.EqualValues(t, 4*3*4, alloc.Stats().AllocatedBytes.All.Current)
			p.Release()
		}
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current, "call %d, %s", nth, kind)
	}
	require.NoError(t, dev.Close())
}

// Parametrized layers, where each driver call of making them, of a pass and of taking the parametrization off fails in turn.
func TestParametrize_FailsAtEveryCallAndKeepsNothing(t *testing.T) {
	for name, parametrize := range map[string]func(nn.Module) error{
		"weight":   func(m nn.Module) error { return nn.WeightNorm(m) },
		"spectral": func(m nn.Module) error { return nn.SpectralNorm(m) },
	} {
		for _, late := range []bool{false, true} { // when the layer has its weight
			t.Run(fmt.Sprint(name, late), func(t *testing.T) { failParametrized(t, parametrize, late) })
		}
	}
}

func failParametrized(t *testing.T, parametrize func(nn.Module) error, late bool) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	x, err := tensor.Ones(e, tensor.Float32, 4, 3)
	require.NoError(t, err)
	base := alloc.Stats().AllocatedBytes.All.Current
	injected := errors.New("injected")
	for nth, more := 1, true; more; nth++ {
		calls, kind := 0, sim.CallKind(0)
		dev.Inject(func(c sim.Call) error {
			if calls++; calls == nth {
				kind = c.Kind
				return injected
			}
			return nil
		})
		l := nn.Linear(3, 2)
		place := func() error { return l.To(dev, nn.WithAllocator(alloc), nn.Seed(1)) }
		parametrized := func() error { return parametrize(l) }
		steps := []func() error{parametrized, place}
		if late {
			steps = []func() error{place, parametrized}
		}
		steps = append(steps, func() error {
			g := autograd.NewGraph(dev, autograd.WithAllocator(alloc))
			defer g.Release()
			return l.Forward(g.Input(x)).Sum(nil, false).Backward()
		}, func() error { return nn.RemoveParametrization(l, "weight") })
		var err error
		for i := 0; i < len(steps) && err == nil; i++ {
			err = steps[i]()
		}
		dev.Inject(nil)
		if more = calls >= nth; more && !slices.Contains(silent, kind) {
			require.ErrorIs(t, err, injected, "call %d, %s", nth, kind)
		} else {
			require.NoError(t, err)
		}
		l.ZeroGrad()
		l.Release()
		require.NoError(t, alloc.EmptyCache())
		require.Equal(t, base, alloc.Stats().AllocatedBytes.All.Current, "call %d, %s", nth, kind)
	}
	x.Release()
	require.NoError(t, dev.Close())
}
