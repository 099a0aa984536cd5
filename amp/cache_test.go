package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// The tests in this file count in units of one [64, 64] float32 tensor; in 16 bits it takes half of it. Scalars and vectors take
// one block of 512 bytes.
const (
	unit  = 64 * 64 * 4
	block = 512
)

// everywhere runs a test on a device that computes and on one that only counts: the bytes are the same.
func everywhere(t *testing.T, f func(t *testing.T, r *rig)) {
	for name, dev := range map[string]func() device.Device{
		"host": func() device.Device { return host.New() },
		"sim":  func() device.Device { return sim.New(1 << 30) },
	} {
		t.Run(name, func(t *testing.T) { f(t, newRig(t, dev())) })
	}
}

func TestCache_HoldsOneCopyOfEachWeightUntilTheGraphIsReleased(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		w, b := r.param(1, 64, 64), r.param(1, 64)
		x := r.full(1, tensor.Float16, 64, 64)
		base := r.allocated()
		g := r.graph(amp.Autocast(tensor.Float16), autograd.NoGrad())
		in := g.Input(x)
		for range 5 { // each layer uses both
			in = g.Scope(func() *autograd.Variable { return in.Linear(g.Param(w), g.Param(b)) })
			require.EqualValues(t, base+unit/2+block+unit/2, r.allocated(), "the casts, and the result of the last layer")
			old := in
			in = g.Input(x)
			old.Release()
		}
		require.EqualValues(t, base+unit/2+block, r.allocated(), "they outlive the scopes in which they were made")
		g.Release()
		require.Equal(t, base, r.allocated())
	})
}

func TestCache_IsUsedForTrainingAndLeavesTheGradientInFloat32(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		w := r.param(1, 64, 64)
		x := r.full(0.5, tensor.Float16, 64, 64)
		base := r.allocated()
		g := r.graph(amp.Autocast(tensor.Float16))
		loss := g.Scope(func() *autograd.Variable {
			h := g.Input(x).Linear(g.Param(w), nil)
			return h.Linear(g.Param(w), nil).Sum(nil, false)
		})
		require.EqualValues(t, base+unit/2+unit/2+block, r.allocated(), "the cast, the saved input of the second layer, the loss")
		require.NoError(t, loss.Backward())
		require.EqualValues(t, base+unit/2+block+unit, r.allocated(), "the cast, the loss, the gradient in float32")
		require.Equal(t, tensor.Float32, w.Grad().DType())
		g.Release()
		require.EqualValues(t, base+unit, r.allocated())
	})
}

func TestCast_OfAnActivationLivesNoLongerThanItsOperationUnlessItIsSaved(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		w := r.param(1, 64, 64)
		wide := r.full(1, tensor.Float32, 64, 64)
		base := r.allocated()
		g := r.graph(amp.Autocast(tensor.Float16))
		in := g.Input(wide)
		frozen := g.Input(wide) // requires no gradient: its cast is not kept for others
		y := in.Linear(frozen, nil)
		require.EqualValues(t, base+unit/2, r.allocated(), "the result")
		y.Release()
		y = in.Linear(g.Param(w), nil)
		require.EqualValues(t, base+unit/2+unit/2+unit/2, r.allocated(), "the result, the casts of weight and input")
		y.Release()
		require.EqualValues(t, base+unit/2+unit/2, r.allocated())
		in.Sum(nil, false)
		require.EqualValues(t, base+unit/2+unit/2+block, r.allocated())
		g.Release()

		g = r.graph(amp.Autocast(tensor.Float16))
		half := g.Input(r.keep(wide.To(tensor.Float16)))
		before := r.allocated()
		half.Exp()
		require.EqualValues(t, before+unit, r.allocated(), "the result in float32; the argument's cast is gone")
	})
}

func TestCache_KeepsOnlyCastsOfTrainedFloat32Leaves(t *testing.T) {
	r := onSim(t)
	trained, frozen := r.param(1, 64, 64), r.param(1, 64, 64)
	frozen.SetRequiresGrad(false)
	wide, brain := r.full(1, tensor.Float32, 64, 64), r.full(1, tensor.BFloat16, 64, 64)
	for name, c := range map[string]struct {
		weight func(g *autograd.Graph) *autograd.Variable
		opts   []amp.Option
		kept   int64
	}{
		"parameter": {weight: func(g *autograd.Graph) *autograd.Variable { return g.Param(trained) }, kept: unit / 2},
		"leaf": {
			weight: func(g *autograd.Graph) *autograd.Variable { return g.Input(wide, autograd.RequiresGrad()) },
			kept:   unit / 2,
		},
		"frozen parameter": {weight: func(g *autograd.Graph) *autograd.Variable { return g.Param(frozen) }},
		"input":            {weight: func(g *autograd.Graph) *autograd.Variable { return g.Input(wide) }},
		"bfloat16 leaf":    {weight: func(g *autograd.Graph) *autograd.Variable { return g.Input(brain, autograd.RequiresGrad()) }},
		"view of a leaf":   {weight: func(g *autograd.Graph) *autograd.Variable { return g.Param(trained).T() }},
		"cache off": {
			weight: func(g *autograd.Graph) *autograd.Variable { return g.Param(trained) },
			opts:   []amp.Option{amp.CacheEnabled(false)},
		},
		"cache off around": {
			weight: func(g *autograd.Graph) *autograd.Variable {
				amp.Region(g, nil, func() { // as outside
					g.NoGrad(func() *autograd.Variable { g.Input(wide).MatMul(g.Param(trained)).Release(); return nil })
				})
				return g.Param(trained)
			},
			opts: []amp.Option{amp.CacheEnabled(false)},
		},
	} {
		g := r.graph(amp.Autocast(tensor.Float16, c.opts...))
		start := r.allocated()
		w := c.weight(g)
		base := r.allocated()
		g.NoGrad(func() *autograd.Variable { // so that nothing is saved
			y := g.Input(wide).MatMul(w)
			y.Release()
			return y
		})
		require.Equal(t, c.kept, r.allocated()-base, name)
		require.Contains(t, []int64{c.kept, 0}, r.allocated()-start, name)
		g.Release()
	}
}

// PyTorch issue 158232: a cast that was first made under no_grad had no gradient, and a training step that found it in the cache
// left the weight without one.
func TestCache_FilledUnderNoGradServesATrainingStep(t *testing.T) {
	r := onHost(t)
	w := r.param(0.5, 4, 4)
	x := r.random(1, tensor.Float32, 4, 4)
	train := func(peek bool) any {
		w.ZeroGrad()
		g := r.graph(amp.Autocast(tensor.Float16))
		in := g.Input(x)
		if peek {
			base := r.allocated()
			y := g.NoGrad(func() *autograd.Variable { return in.Linear(g.Param(w), nil) })
			require.False(t, y.RequiresGrad())
			y.Release()
			require.EqualValues(t, block, r.allocated()-base, "the cast")
		}
		require.NoError(t, in.Linear(g.Param(w), nil).Sum(nil, false).Backward())
		return bits(t, w.Grad())
	}
	require.Equal(t, train(false), train(true))
}

func TestCache_GrowsNotInRepeatedForwardPasses(t *testing.T) {
	r := onSim(t)
	w := r.param(1, 64, 64)
	x := r.full(1, tensor.Float32, 64, 64)
	g := r.graph(amp.Autocast(tensor.Float16), autograd.NoGrad())
	after := make([]int64, 3)
	for i := range after {
		g.Input(x).Linear(g.Param(w), nil).Release()
		after[i] = r.allocated()
	}
	require.Equal(t, after[0], after[1])
	require.Equal(t, after[0], after[2])
}

func TestCache_NestedRegionsOfTwoTypesHaveOneCopyForEach(t *testing.T) {
	r := onHost(t)
	w := r.param(1.0/3, 64, 64)
	x := r.full(1, tensor.Float32, 64, 64)
	g := r.graph(amp.Autocast(tensor.Float16), autograd.NoGrad())
	base := r.allocated()
	product := func(dt tensor.DType) {
		y := g.Input(x).MatMul(g.Param(w))
		require.Equal(t, dt, y.DType())
		y.Release()
	}
	for range 2 {
		product(tensor.Float16)
		amp.Region(g, amp.DType(tensor.BFloat16), func() { product(tensor.BFloat16) })
	}
	require.EqualValues(t, 2*unit/2, r.allocated()-base)
}

func TestCache_DoesNotServeAWeightThatWasChangedSince(t *testing.T) {
	r := onHost(t)
	w := r.param(1, 2, 2)
	x := r.full(1, tensor.Float32, 2, 2)
	g := r.graph(amp.Autocast(tensor.Float16), autograd.NoGrad())
	require.Equal(t, []float64{2, 2, 2, 2}, values(t, valueOf(t, g.Input(x).MatMul(g.Param(w)))))
	row := r.keep(w.Tensor().Narrow(0, 0, 1)) // a view, as a program that clips weights may have
	require.NoError(t, row.FillInPlace(5))
	require.Equal(t, []float64{6, 6, 6, 6}, values(t, valueOf(t, g.Input(x).MatMul(g.Param(w)))))
}
