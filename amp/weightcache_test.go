package amp_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// cachedModel is two linear layers that are trained under one WeightCache.
type cachedModel struct {
	*rig
	t       *testing.T
	v, w    *autograd.Parameter
	x       *tensor.Tensor
	weights *amp.WeightCache
}

func newCachedModel(t *testing.T, r *rig) *cachedModel {
	m := &cachedModel{r, t, r.param(0.5, 64, 64), r.param(0.25, 64, 64), r.full(1, tensor.Float16, 64, 64), amp.NewWeightCache()}
	t.Cleanup(m.weights.Release)
	return m
}

// forward computes the layers that are given, and returns the last one's first element.
func (m *cachedModel) forward(layers ...*autograd.Parameter) float64 {
	m.t.Helper()
	g := m.graph(amp.Autocast(tensor.Float16, m.weights))
	defer g.Release()
	y := m.run(g, layers)
	require.NoError(m.t, g.Err())
	v, err := y.Float64s()
	require.NoError(m.t, err)
	return v[0]
}

func (m *cachedModel) run(g *autograd.Graph, layers []*autograd.Parameter) *autograd.Variable {
	y := g.Input(m.x)
	for _, w := range layers {
		y = y.Linear(g.Param(w), nil)
	}
	return y
}

// train leaves gradients of the mean result.
func (m *cachedModel) train() {
	m.t.Helper()
	g := m.graph(amp.Autocast(tensor.Float16, m.weights))
	defer g.Release()
	require.NoError(m.t, m.run(g, []*autograd.Parameter{m.v, m.w}).Mean(nil, false).Backward())
}

// launches counts what f puts on a simulated device's streams.
func (m *cachedModel) launches(f func()) uint64 {
	d := m.dev.(*sim.Device)
	before := d.Calls().Count[sim.CallSubmit]
	f()
	return d.Calls().Count[sim.CallSubmit] - before
}

func TestWeightCache_CastsAllStaleWeightsInOneLaunch(t *testing.T) {
	m := newCachedModel(t, onSim(t))
	forward := func() { m.forward(m.v, m.w) }
	require.EqualValues(t, 4, m.launches(forward), "two products, and a cast for each weight: nobody knew of them")
	require.EqualValues(t, 2, m.launches(forward), "the casts are there")
	require.NoError(t, m.w.Tensor().FillInPlace(2))
	require.EqualValues(t, 1+3, m.launches(func() {
		require.NoError(t, m.v.Tensor().FillInPlace(1))
		forward()
	}), "one cast for both")
	require.NoError(t, m.w.Tensor().FillInPlace(2))
	require.EqualValues(t, 3, m.launches(forward), "of the one that has changed")
	m.weights.Release()
	require.EqualValues(t, 3, m.launches(forward), "it knows the weights")
}

func TestWeightCache_NeverUsesACastOfAnotherValue(t *testing.T) {
	m := newCachedModel(t, onHost(t))
	require.EqualValues(t, 64*0.5, m.forward(m.v))
	require.NoError(t, m.v.Tensor().FillInPlace(1))
	require.EqualValues(t, 64, m.forward(m.v), "changed in place")
	row := m.keep(m.v.Tensor().Narrow(0, 0, 1))
	require.NoError(t, row.FillInPlace(2))
	require.EqualValues(t, 128, m.forward(m.v), "changed in a view")
	m.train()
	opt := optim.SGD([]*autograd.Parameter{m.v}, optim.LR(64))
	require.NoError(t, opt.Step())
	require.Less(t, m.forward(m.v), 128.0, "changed by an optimizer")
	require.NoError(t, m.v.To(m.exec, tensor.Float64))
	require.NoError(t, m.v.To(m.exec, tensor.Float32))
	require.NoError(t, m.v.Tensor().FillInPlace(0.25))
	require.EqualValues(t, 16, m.forward(m.v), "another tensor")

	// In one graph: the weight changes between two uses.
	g := m.graph(amp.Autocast(tensor.Float16, m.weights), autograd.NoGrad())
	defer g.Release()
	m.run(g, []*autograd.Parameter{m.v})
	require.NoError(t, m.v.Tensor().FillInPlace(3))
	y := m.run(g, []*autograd.Parameter{m.v})
	require.NoError(t, g.Err())
	v, err := y.Float64s()
	require.NoError(t, err)
	require.EqualValues(t, 192, v[0])
}

func TestWeightCache_ServesAllGraphsOfAStepAndGivesTheMemoryBack(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		m := newCachedModel(t, r)
		base := r.allocated()
		m.train()
		require.EqualValues(t, base+2*unit/2+2*unit, r.allocated(), "two casts and two gradients")
		if _, ok := r.dev.(*sim.Device); ok {
			first := m.launches(m.train)
			require.Equal(t, first, m.launches(m.train), "no graph casts again")
			require.NoError(t, m.v.Tensor().FillInPlace(1))
			require.Equal(t, first+1, m.launches(m.train), "but for a weight that has changed")
		}
		require.EqualValues(t, base+2*unit/2+2*unit, r.allocated())
		m.weights.Release()
		require.EqualValues(t, base+2*unit, r.allocated(), "the gradients")
		m.v.ZeroGrad()
		m.w.ZeroGrad()
	})
}

func TestWeightCache_LivesAsLongAsAGraphUsesIt(t *testing.T) {
	m := newCachedModel(t, onHost(t))
	base := m.allocated()
	g := m.graph(amp.Autocast(tensor.Float16, m.weights))
	y := m.run(g, []*autograd.Parameter{m.v}).Mean(nil, false)
	m.weights.Release()
	require.NoError(t, y.Backward())
	g.Release()
	m.v.ZeroGrad()
	require.Equal(t, base, m.allocated())
}

func TestWeightCache_ForgetsWhatIsUsedNoMore(t *testing.T) {
	m := newCachedModel(t, onSim(t))
	m.forward(m.v, m.w)
	base := m.allocated()
	for range 2 {
		require.NoError(t, m.v.Tensor().FillInPlace(1))
		require.NoError(t, m.w.Tensor().FillInPlace(1))
		m.forward(m.v)
	}
	require.EqualValues(t, base-unit/2, m.allocated(), "only the cast of the one that is used")
	m.v.Release()
	m.weights.Release()
	m.forward(m.w)
}

func TestWeightCache_KeepsNothingWhenMemoryOrALaunchFails(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallSubmit, sim.CallMalloc} {
		for nth := 1; nth <= 4; nth++ {
			m := newCachedModel(t, onSim(t))
			dev := m.dev.(*sim.Device)
			m.forward(m.v, m.w)
			require.NoError(t, m.v.Tensor().FillInPlace(1))
			require.NoError(t, m.w.Tensor().FillInPlace(1))
			m.weights.Release()
			require.NoError(t, m.alloc.EmptyCache())
			base := m.allocated()
			dev.FailNext(kind, nth, errors.New("injected"))
			g := m.graph(amp.Autocast(tensor.Float16, m.weights))
			m.run(g, []*autograd.Parameter{m.v, m.w})
			g.Release()
			m.weights.Release()
			require.Equal(t, base, m.allocated(), "%v %d", kind, nth)
			m.forward(m.v, m.w)
		}
	}
}

func TestWeightCache_OfNilIsNone(t *testing.T) {
	m := newCachedModel(t, onHost(t))
	m.weights = nil
	require.EqualValues(t, 32, m.forward(m.v))
	m.weights.Release()
}
