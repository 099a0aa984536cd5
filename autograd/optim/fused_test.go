package optim_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// taken takes six steps on parameters of its own, and returns them with their state.
func taken(t *testing.T, e tensor.Exec, make func(params) *optim.Grouped, skip skipped, step func(*optim.Grouped) error) (params, optim.StateDict) {
	t.Helper()
	ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
	opt := make(ps)
	t.Cleanup(opt.Release)
	for s := range 6 {
		for i, p := range ps {
			p.ZeroGrad()
			if !skip[[2]int{s + 1, i}] {
				setGradient(t, e, p, s+1, i)
			}
		}
		require.NoError(t, step(opt))
	}
	return ps, dictOf(t, opt)
}

// requireEqual compares parameters and states to the bit.
func requireEqual(t *testing.T, want, got params, a, b optim.StateDict) {
	t.Helper()
	for i, p := range want {
		require.Equal(t, floats(t, p.Tensor()), floats(t, got[i].Tensor()), "parameter %d", i)
		require.Equal(t, a.State[i].Step, b.State[i].Step)
		for name, x := range a.State[i].Tensors {
			require.Equal(t, floats(t, x), floats(t, b.State[i].Tensors[name]), "%s of parameter %d", name, i)
		}
	}
}

func floats(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	require.NoError(t, err)
	return v
}

func TestCapturable_StepsAreThoseThatAreCountedOnTheHost(t *testing.T) {
	e, _ := newExec(t, host.New())
	for name, make := range map[string]func(ps params, opts ...optim.Option) *optim.Grouped{
		"sgd": func(ps params, opts ...optim.Option) *optim.Grouped {
			return optim.SGD(ps, append(opts, optim.Momentum(0.9), optim.Dampening(0.5))...)
		},
		"adam": optim.Adam, "rmsprop": optim.RMSprop, "lion": optim.Lion,
		"adagrad": func(ps params, opts ...optim.Option) *optim.Grouped {
			return optim.Adagrad(ps, append(opts, optim.LRDecay(0.5))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, a := taken(t, e, func(ps params) *optim.Grouped { return make(ps) }, someSkipped, (*optim.Grouped).Step)
			got, b := taken(t, e, func(ps params) *optim.Grouped { return make(ps, optim.Capturable()) }, someSkipped, (*optim.Grouped).Step)
			requireEqual(t, want, got, a, b)
			require.Equal(t, a.Groups, b.Groups, "the option belongs to the program")
		})
	}
}

func TestStepScaled_WithoutScaleIsAStep(t *testing.T) {
	e, _ := newExec(t, host.New())
	found, err := tensor.Zeros(e, tensor.Float32)
	require.NoError(t, err)
	defer found.Release()
	for _, c := range stepCases {
		want, a := taken(t, e, c.make, c.skip, (*optim.Grouped).Step)
		got, b := taken(t, e, c.make, c.skip, func(opt *optim.Grouped) error { return opt.StepScaled(nil, found) })
		requireEqual(t, want, got, a, b)
	}
}

func TestStepScaled_ThatIsLeftOutIsNoStep(t *testing.T) {
	e, _ := newExec(t, host.New())
	found, err := tensor.Ones(e, tensor.Float32)
	require.NoError(t, err)
	defer found.Release()
	for name, c := range stepCases {
		ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
		before := floats(t, ps[0].Tensor())
		opt := c.make(ps)
		setGradient(t, e, ps[0], 1, 0)
		require.NoError(t, opt.StepScaled(found, found))
		require.Equal(t, before, floats(t, ps[0].Tensor()), name)
		for _, s := range dictOf(t, opt).State {
			require.Zero(t, s.Step, "only of optimizers that do not count")
		}
		opt.Release()
	}
}

// Parameters that have taken different steps are updated in one launch, once the device counts.
func TestStepScaled_IsOneLaunchForParametersOfDifferentSteps(t *testing.T) {
	launches := 0
	e, _ := newExec(t, sim.New(1<<30, sim.OnCall(func(c sim.Call) {
		if c.Kind == sim.CallSubmit {
			launches++
		}
	})))
	found, err := tensor.Zeros(e, tensor.Float32)
	require.NoError(t, err)
	defer found.Release()
	ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32), param(t, e, 2, 5, tensor.Float32)}
	opt := optim.Adam(ps)
	defer opt.Release()
	for i, p := range ps {
		setGradient(t, e, p, 1, i)
		require.NoError(t, opt.Step())
	}
	require.NoError(t, opt.StepScaled(nil, found))
	launches = 0
	require.NoError(t, opt.Step())
	require.Equal(t, 1, launches)
}

func TestStepScaled_RefusesWhatIsNotOneFloat32(t *testing.T) {
	e, _ := newExec(t, host.New())
	p := param(t, e, 0, 3, tensor.Float32)
	setGradient(t, e, p, 1, 0)
	opt := optim.SGD(params{p})
	one, err := tensor.Ones(e, tensor.Float32)
	require.NoError(t, err)
	defer one.Release()
	double, err := tensor.Ones(e, tensor.Float64, 2, 3)
	require.NoError(t, err)
	defer double.Release()
	gone := one.Retain()
	gone.Release()
	for _, bad := range []*tensor.Tensor{{}, gone} {
		require.ErrorIs(t, opt.StepScaled(bad, nil), tensor.ErrReleased)
		require.ErrorIs(t, opt.StepScaled(one, bad), tensor.ErrReleased)
	}
	require.ErrorIs(t, opt.StepScaled(double, one), optim.ErrInvalid)
	require.EqualError(t, opt.StepScaled(nil, double), "optim: SGD: StepScaled: foundInf is float64[2, 3]; it must be one float32")
	require.NoError(t, opt.StepScaled(one, nil))
}

func TestStepScaled_ReturnsEveryErrorAndLosesNothing(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallMalloc, sim.CallSubmit, sim.CallFill} {
		dev := sim.New(1 << 30)
		e, err := tensor.On(dev, tensor.WithAllocator(memory.NewDirect(dev)))
		require.NoError(t, err)
		ps := params{param(t, e, 0, 3, tensor.Float32), param(t, e, 1, 5, tensor.Float32)}
		one, err := tensor.Ones(e, tensor.Float32)
		require.NoError(t, err)
		for i, p := range ps {
			setGradient(t, e, p, 1, i)
		}
		base := e.Allocator().Stats().AllocatedBytes.All.Current
		failed := 0
		for nth := 1; ; nth++ {
			opt := optim.Adam(ps)
			dev.FailNext(kind, nth, device.ErrOutOfMemory)
			err := opt.StepScaled(one, one)
			opt.Release()
			require.Equal(t, base, e.Allocator().Stats().AllocatedBytes.All.Current)
			if err == nil {
				break
			}
			require.ErrorContains(t, err, "optim: Adam")
			failed++
		}
		require.Positive(t, failed, kind)
		one.Release()
	}
}

func TestStateDict_SaysThatCountersCannotBeRead(t *testing.T) {
	dev := sim.New(1 << 30)
	e, _ := newExec(t, dev)
	ps := params{param(t, e, 0, 3, tensor.Float32)}
	opt := optim.Adam(ps, optim.Capturable())
	defer opt.Release()
	setGradient(t, e, ps[0], 1, 0)
	require.NoError(t, opt.Step())
	cause := errors.New("lost")
	dev.FailNext(sim.CallCopyToHost, 1, cause)
	_, err := opt.StateDict()
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "optim: Adam: StateDict")
	dictOf(t, opt)
}
