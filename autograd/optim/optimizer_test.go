package optim_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestState_IsMadeAtTheFirstStepOfEachParameter(t *testing.T) {
	e, alloc := newExec(t, host.New())
	ps := params{param(t, e, 0, 256, tensor.Float32), param(t, e, 1, 512, tensor.Float32)}
	allocated := func() uint64 { return uint64(alloc.Stats().AllocatedBytes.All.Current) }
	before := allocated()
	opt := optim.Adam(ps)
	require.Zero(t, opt.StateBytes())
	require.NoError(t, opt.Step())
	require.Equal(t, before, allocated(), "no parameter has a gradient")

	setGradient(t, e, ps[0], 1, 0)
	require.NoError(t, opt.Step())
	require.EqualValues(t, 2*1024, opt.StateBytes())
	setGradient(t, e, ps[1], 1, 1)
	require.NoError(t, opt.Step())
	require.EqualValues(t, 2*1024+2*2048, opt.StateBytes())
	opt.ZeroGrad()
	require.Equal(t, before+opt.StateBytes(), allocated())
	opt.Release()
	require.Equal(t, before, allocated())
	require.Zero(t, opt.StateBytes())
}

func TestState_OfSGDIsOneBufferOnlyWithMomentum(t *testing.T) {
	e, _ := newExec(t, host.New())
	for momentum, bytes := range map[float64]uint64{0: 0, 0.9: 1024} {
		ps := params{param(t, e, 0, 256, tensor.Float32)}
		opt := optim.SGD(ps, optim.Momentum(momentum))
		setGradient(t, e, ps[0], 1, 0)
		require.NoError(t, opt.Step())
		require.Equal(t, bytes, opt.StateBytes())
		opt.Release()
	}
}

func TestStep_AllocatesNothingOnceStateIsThere(t *testing.T) {
	e, alloc := newExec(t, sim.New(1<<30))
	ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float64)}
	opt := optim.AdamW(ps)
	defer opt.Release()
	for i, p := range ps {
		setGradient(t, e, p, 1, i)
	}
	require.NoError(t, opt.Step())
	before := alloc.Stats().Allocation.All.Allocated
	require.NoError(t, opt.Step())
	require.Equal(t, before, alloc.Stats().Allocation.All.Allocated)
}

func TestStep_ChangesTheVersionOfParameters(t *testing.T) {
	e, _ := newExec(t, host.New())
	p := param(t, e, 0, 3, tensor.Float64)
	opt := optim.SGD(params{p}, optim.LR(0.1))
	g := autograd.NewGraph(e.Device(), autograd.WithAllocator(e.Allocator()))
	defer g.Release()
	loss := g.Param(p).Mul(g.Param(p)).Sum(nil, false)
	setGradient(t, e, p, 1, 0)
	require.NoError(t, opt.Step())
	require.ErrorIs(t, loss.Backward(), autograd.ErrModified)
}

func TestStep_OutOfMemory_LeavesParametersAlone(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	p := param(t, e, 0, 3, tensor.Float32)
	setGradient(t, e, p, 1, 0)
	version := p.Tensor().Version()
	opt := optim.Adam(params{p})
	for nth := 1; nth <= 2; nth++ {
		dev.FailNext(sim.CallMalloc, nth, device.ErrOutOfMemory)
		err := opt.Step()
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
		require.ErrorContains(t, err, `Adam: state of parameter "p"`)
		require.Equal(t, version, p.Tensor().Version())
		opt.Release()
	}
	require.NoError(t, opt.Step())
	opt.Release()
}

func TestSettings_AreRefusedWithPyTorchsRules(t *testing.T) {
	e, _ := newExec(t, host.New())
	p := param(t, e, 0, 3, tensor.Float32)
	for name, opt := range map[string]*optim.Grouped{
		"learning rate":     optim.SGD(params{p}, optim.LR(-1)),
		"not a number":      optim.SGD(params{p}, optim.LR(math.NaN())),
		"weight decay":      optim.AdamW(params{p}, optim.WeightDecay(-1)),
		"momentum":          optim.SGD(params{p}, optim.Momentum(-1)),
		"nesterov":          optim.SGD(params{p}, optim.Nesterov()),
		"nesterov dampened": optim.SGD(params{p}, optim.Nesterov(), optim.Momentum(0.9), optim.Dampening(0.1)),
		"beta":              optim.Adam(params{p}, optim.Betas(0.9, 1)),
		"epsilon":           optim.Adam(params{p}, optim.Eps(-1)),
		"twice":             optim.Adam(params{p, p}),
		"in two groups":     optim.Adam(params{p}).AddGroup(params{p}),
		"in a group":        optim.Adam(nil).AddGroup(params{p}, optim.LR(-1)),
	} {
		var invalid *optim.ConfigError
		require.ErrorAs(t, opt.Step(), &invalid, name)
		require.ErrorIs(t, opt.Err(), optim.ErrInvalid, name)
	}
}

func TestOptions_OfAnotherOptimizerAreRefused(t *testing.T) {
	for want, opt := range map[string]*optim.Grouped{
		"optim: SGD: it has no option Betas":            optim.SGD(nil, optim.Betas(0.9, 0.99), optim.AMSGrad()),
		"optim: SGD: it has no option AMSGrad":          optim.SGD(nil).AddGroup(nil, optim.LR(1), optim.AMSGrad()),
		"optim: Adam: it has no option Momentum":        optim.Adam(nil, optim.Momentum(0)),
		"optim: AdamW: it has no option Nesterov":       optim.AdamW(nil, optim.Nesterov()),
		"optim: Lion: it has no option Eps":             optim.Lion(nil, optim.Eps(1)),
		"optim: RMSprop: it has no option Dampening":    optim.RMSprop(nil, optim.Dampening(2)),
		"optim: Adagrad: it has no option Alpha":        optim.Adagrad(nil, optim.Alpha(math.NaN())),
		"optim: SGD: SetLR: there is no group 3, of 1":  setLR(optim.SGD(nil), 3),
		"optim: SGD: SetLR: there is no group -1, of 1": setLR(optim.SGD(nil), -1),
	} {
		require.EqualError(t, opt.Err(), want)
		require.ErrorIs(t, opt.Err(), optim.ErrInvalid)
	}
	opt := optim.SGD(nil)
	opt.SetMomentum(0.5, 7)
	require.EqualError(t, opt.Err(), "optim: SGD: SetMomentum: there is no group 7, of 1")
	for _, opt := range []*optim.Grouped{
		optim.SGD(nil, optim.Momentum(1), optim.Nesterov(), optim.Maximize(), optim.Capturable()),
		optim.Adam(nil, optim.Betas(0, 0), optim.Eps(1), optim.WeightDecay(1), optim.AMSGrad()),
		optim.SGD(nil, func(s *optim.Settings) { s.LR *= 2 }),
	} {
		require.NoError(t, opt.Err())
	}
}

func setLR(o *optim.Grouped, group int) *optim.Grouped {
	o.SetLR(0.1, group)
	return o
}

func TestSetLR_ChangesTheGivenGroupsOrAll(t *testing.T) {
	e, _ := newExec(t, host.New())
	opt := optim.SGD(params{param(t, e, 0, 1, tensor.Float32)}, optim.LR(1)).AddGroup(params{param(t, e, 1, 1, tensor.Float32)}, optim.LR(2))
	require.Equal(t, 2, opt.Groups())
	require.Len(t, opt.Parameters(), 2)
	opt.SetLR(3, 1)
	require.Equal(t, []float64{1, 3, 0}, []float64{opt.LR(0), opt.LR(1), opt.LR(2)})
	opt.SetLR(4)
	require.Equal(t, []float64{4, 4}, []float64{opt.LR(0), opt.LR(1)})
	opt.SetLR(-1)
	require.ErrorIs(t, opt.Step(), optim.ErrInvalid)
}
