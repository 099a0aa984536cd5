package nn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestInit_DrawsWhatToWouldHaveDrawn(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		for name, init := range map[string]autograd.Initializer{
			"XavierUniform": nn.XavierUniform(2), "KaimingNormal": nn.KaimingNormal(nn.FanOut, nn.ReLUGain), "Orthogonal": nn.Orthogonal(1),
			"TruncNormal": nn.TruncNormal(0, 1, -2, 2), "Eye": nn.Eye, "Constant": nn.Constant(3), "Zeros": nn.Zeros,
		} {
			r := onHost(t)
			want, l := nn.Linear(5, 4, nn.NoBias(), nn.WeightInit(init)), nn.Linear(5, 4, nn.NoBias())
			r.place(want, nn.Seed(7), nn.DType(dt))
			r.place(l, nn.DType(dt))
			before, value := r.allocated(), l.Weight.Tensor()
			require.NoError(t, nn.Init(l.Weight, init, tensor.NewGenerator(7)), name)
			require.Equal(t, valuesOf(t, want.Weight), valuesOf(t, l.Weight), "%s %s", name, dt)
			require.Same(t, value, l.Weight.Tensor())
			require.Equal(t, dt, l.Weight.Tensor().DType())
			require.Equal(t, before, r.allocated())
		}
	}
}

func TestInit_LeavesAllButTheValue(t *testing.T) {
	r := onHost(t)
	embed, head := nn.Embedding(3, 2), nn.Linear(2, 3, nn.NoBias())
	head.Weight = embed.Weight
	m := nn.Sequential(embed, head)
	r.place(m)
	p := embed.Weight
	require.NoError(t, p.SetGrad(r.tensor([]float32{1, 2, 3, 4, 5, 6}, 3, 2).Retain()))
	p.SetRequiresGrad(false)
	view, err := p.Tensor().Select(0, 1)
	require.NoError(t, err)
	defer view.Release()
	require.NoError(t, nn.Init(p, nn.Constant(2), nil))
	require.Equal(t, []float64{2, 2, 2, 2, 2, 2}, valuesOf(t, head.Weight))
	seen, err := view.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{2, 2}, seen, "the memory is the same")
	require.NotNil(t, p.Grad())
	require.False(t, p.RequiresGrad())

	norm := nn.BatchNorm1d(2)
	r.place(norm)
	require.NoError(t, nn.Init(norm.RunningMean, nn.Constant(5), nil))
	require.Equal(t, []float64{5, 5}, valuesOf(t, norm.RunningMean))

	require.NoError(t, nn.Init(p, nn.Normal(0, 1), nil))
	first := valuesOf(t, p)
	require.NoError(t, nn.Init(p, nn.Normal(0, 1), nil))
	require.NotEqual(t, first, valuesOf(t, p), "the process's generator goes on")
}

func TestInit_BetweenForwardAndBackwardIsAnError(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 2)
	r.place(l)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2}, 1, 2), autograd.RequiresGrad())
	loss := l.Forward(x).Sum(nil, false)
	require.NoError(t, nn.Init(l.Weight, nn.Zeros, nil))
	var modified *autograd.ModifiedError
	require.ErrorAs(t, loss.Backward(), &modified)
}

func TestInit_RefusesWhatItCannotDo(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 3)
	var absent *autograd.ParameterError
	require.ErrorAs(t, nn.Init(nil, nn.Zeros, nil), &absent)
	require.ErrorAs(t, nn.Init(l.Weight, nn.Zeros, nil), &absent)
	require.ErrorContains(t, nn.Init(l.Weight, nn.Zeros, nil), "call To first")
	mistake := errors.New("mistake")
	require.ErrorIs(t, nn.Init(autograd.RefusedParameter("p", mistake), nn.Zeros, nil), mistake)
	r.place(l)
	before, held := valuesOf(t, l.Weight), r.allocated()
	var argument *nn.ArgumentError
	require.ErrorAs(t, nn.Init(l.Weight, nil, nil), &argument)
	require.ErrorAs(t, nn.Init(l.Bias, nn.XavierUniform(1), nil), &argument, "a bias has no fans")
	require.ErrorContains(t, nn.Init(l.Bias, nn.XavierUniform(1), nil), `nn: Init: parameter "bias": nn: XavierUniform: fan in and fan out of [3]`)
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	var released *tensor.ReleasedError
	require.ErrorAs(t, nn.Init(l.Weight, func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, _ ...int) (*tensor.Tensor, error) {
		return tensor.Ones(e, dt, 2)
	}, nil), &shape)
	require.ErrorAs(t, nn.Init(l.Weight, func(e tensor.Exec, _ *tensor.Generator, _ tensor.DType, shape ...int) (*tensor.Tensor, error) {
		return tensor.Ones(e, tensor.Float64, shape...)
	}, nil), &dtype)
	require.ErrorAs(t, nn.Init(l.Weight, func(tensor.Exec, *tensor.Generator, tensor.DType, ...int) (*tensor.Tensor, error) {
		return nil, nil
	}, nil), &released)
	require.ErrorIs(t, nn.Init(l.Weight, func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		x, err := tensor.Ones(e, dt, shape...)
		require.NoError(t, err)
		return x, mistake
	}, nil), mistake)
	require.Equal(t, before, valuesOf(t, l.Weight))
	require.Equal(t, held, r.allocated())
}

func TestInit_OfAParametrizedWeightNamesItsOriginals(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 3)
	require.NoError(t, nn.WeightNorm(l))
	r.place(l)
	c, err := nn.Clone(l)
	require.NoError(t, err)
	defer c.Release()
	const originals = "parametrizations.weight.original0, parametrizations.weight.original1"
	for _, l := range []*nn.LinearLayer{l, c} {
		var absent *autograd.ParameterError
		err = nn.Init(l.Weight, nn.Zeros, nil)
		require.ErrorAs(t, err, &absent)
		require.EqualError(t, err, `nn: Init: parameter "weight" [3, 2] has no tensor: it is parametrized, and computed from `+originals+`: initialise these, or RemoveParametrization first`)
		_, err = nn.ParametersToVector([]*autograd.Parameter{l.Weight})
		require.ErrorContains(t, err, `parameter 0, "weight", has no memory: it is parametrized: take `+originals)
		g := r.graph()
		g.Param(l.Weight)
		require.ErrorContains(t, g.Err(), "it is parametrized: its module computes it from "+originals)
		g.Release()
	}
	require.NoError(t, nn.RemoveParametrization(l, "weight"))
	require.Empty(t, l.Weight.ComputedFrom())
	require.NoError(t, nn.Init(l.Weight, nn.Zeros, nil))
}

// Each driver call fails in turn: nothing is kept, and the value's own memory stays.
func TestInit_FailsAtEveryCallAndKeepsNothing(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	x, err := tensor.Zeros(e, tensor.Float32, 4, 3)
	require.NoError(t, err)
	p := autograd.NewParameter("p", x)
	held := alloc.Stats().AllocatedBytes.All.Current
	injected := errors.New("injected")
	failed := 0
	for nth, more := 1, true; more; nth++ {
		calls := 0
		dev.Inject(func(sim.Call) error {
			if calls++; calls == nth {
				return injected
			}
			return nil
		})
		if err := nn.Init(p, nn.XavierNormal(1), tensor.NewGenerator(1)); err != nil {
			require.ErrorIs(t, err, injected)
			failed++
		}
		dev.Inject(nil)
		require.NoError(t, alloc.EmptyCache())
		require.Equal(t, held, alloc.Stats().AllocatedBytes.All.Current, nth)
		require.Same(t, x, p.Tensor())
		more = calls >= nth
	}
	require.Greater(t, failed, 1)
	p.Release()
	require.NoError(t, dev.Close())
}
