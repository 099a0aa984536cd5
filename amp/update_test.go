package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func TestUpdate_GrowsAtTheIntervalAndBacksOffAtOnce(t *testing.T) {
	r := onHost(t)
	p := r.param(0, 1)
	opt := &counter{params: []*autograd.Parameter{p}}
	s := r.scaled(amp.InitScale(4), amp.GrowthFactor(2), amp.BackoffFactor(0.25), amp.GrowthInterval(2))
	for i, c := range []struct {
		gradient, scale float64
		tracker         int
	}{{1, 4, 1}, {1, 8, 0}, {1, 8, 1}, {math.NaN(), 2, 0}, {math.Inf(1), 0.5, 0}, {1, 0.5, 1}, {1, 1, 0}} {
		r.with(p, tensor.Float32, c.gradient)
		require.NoError(t, s.Step(opt))
		require.NoError(t, s.Update())
		require.Equal(t, c.scale, scaleOf(t, s), "iteration %d", i)
		require.Equal(t, c.tracker, trackerOf(t, s), "iteration %d", i)
	}
	s.SetGrowthFactor(16)
	s.SetGrowthInterval(1)
	r.with(p, tensor.Float32, 1)
	require.NoError(t, s.Step(opt))
	require.NoError(t, s.Update())
	require.Equal(t, 16.0, scaleOf(t, s), "settings can be changed on the way")
}

func TestUpdate_SumsWhatEveryOptimizerFound(t *testing.T) {
	r := onHost(t)
	good := &counter{params: []*autograd.Parameter{r.param(0, 1)}}
	bad := &counter{params: []*autograd.Parameter{r.param(0, 1)}}
	worse := &counter{params: []*autograd.Parameter{r.param(0, 1)}}
	s := r.scaled(amp.InitScale(8), amp.GrowthInterval(1))
	base := r.allocated()
	r.with(good.params[0], tensor.Float32, 1)
	r.with(bad.params[0], tensor.Float32, math.Inf(1))
	r.with(worse.params[0], tensor.Float32, math.NaN())
	for _, opt := range []*counter{bad, good, worse} {
		require.NoError(t, s.Step(opt))
	}
	require.EqualValues(t, 3*block+3*block, r.allocated()-base, "three gradients and three flags")
	require.Equal(t, []int{1, 0, 0}, []int{good.steps, bad.steps, worse.steps})
	require.NoError(t, s.Update())
	require.Equal(t, 4.0, scaleOf(t, s), "it backs off once")
	require.EqualValues(t, 3*block, r.allocated()-base, "the flags are gone")
}

func TestUpdate_WillNotGrowBeyondFloat32(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(0, 1), tensor.Float32, 1)
	opt := &counter{params: []*autograd.Parameter{p}}
	s := r.scaled(amp.InitScale(1e38), amp.GrowthFactor(4), amp.GrowthInterval(1))
	require.NoError(t, s.Step(opt))
	require.NoError(t, s.Update())
	require.Equal(t, float64(float32(1e38)), scaleOf(t, s))
}

func TestUpdate_TakesANewScale(t *testing.T) {
	r, other := onHost(t), onHost(t)
	p := r.with(r.param(0, 1), tensor.Float32, 1)
	opt := &counter{params: []*autograd.Parameter{p}}
	s := r.scaled(amp.InitScale(8), amp.GrowthInterval(3))
	require.NoError(t, s.Step(opt))
	require.NoError(t, s.Update())
	require.NoError(t, s.Step(opt))
	require.NoError(t, s.Update(amp.NewScale(5)))
	require.Equal(t, 5.0, scaleOf(t, s))
	require.Equal(t, 1, trackerOf(t, s), "the tracker stays")
	require.NoError(t, s.Step(opt), "the iteration has ended")
	require.NoError(t, s.Update(amp.NewScaleTensor(r.full(7, tensor.Float32, 1))))
	require.Equal(t, 7.0, scaleOf(t, s))
	require.NoError(t, s.Update(amp.NewScaleTensor(other.full(9, tensor.Float32))), "also without a Step")
	require.Equal(t, 9.0, scaleOf(t, s))
	for _, wrong := range []*tensor.Tensor{r.full(1, tensor.Float64), r.full(1, tensor.Float32, 2), nil} {
		require.ErrorIs(t, s.Update(amp.NewScaleTensor(wrong)), amp.BadNewScale)
	}
	require.Equal(t, 9.0, scaleOf(t, s))
}

func TestState_IsRestoredOverOtherValuesBeforeAndAfterTheScaleIsMade(t *testing.T) {
	r := onHost(t)
	saved := amp.NewGradScaler(amp.InitScale(3), amp.GrowthFactor(4), amp.BackoffFactor(0.5), amp.GrowthInterval(2))
	st, err := saved.State()
	require.NoError(t, err)
	require.Equal(t, amp.State{Scale: 3, GrowthFactor: 4, BackoffFactor: 0.5, GrowthInterval: 2}, st)

	for _, made := range []bool{false, true} {
		s := amp.NewGradScaler(amp.InitScale(6), amp.GrowthFactor(7), amp.BackoffFactor(0.8), amp.GrowthInterval(1))
		scale := func() {
			x, err := s.ScaleTensor(r.full(4, tensor.Float32))
			require.NoError(t, err)
			x.Release()
		}
		if made {
			scale()
		}
		require.NoError(t, s.LoadState(st))
		got, err := s.State()
		require.NoError(t, err)
		require.Equal(t, st, got)
		require.Equal(t, 3.0, scaleOf(t, s))

		// A tracker that is not 0 is gone on from.
		p := r.with(r.param(0, 1), tensor.Float32, 1)
		scale()
		require.NoError(t, s.Step(&counter{params: []*autograd.Parameter{p}}))
		require.NoError(t, s.Update())
		got, err = s.State()
		require.NoError(t, err)
		require.Equal(t, 1, got.GrowthTracker)
		if made {
			require.NoError(t, s.LoadState(st))
			require.Zero(t, trackerOf(t, s))
		} else {
			s.Release()
		}
		require.NoError(t, s.LoadState(got))
		scale()
		require.NoError(t, s.Step(&counter{params: []*autograd.Parameter{p}}))
		require.NoError(t, s.Update())
		require.Equal(t, 12.0, scaleOf(t, s), "the second step of two: it grows")
		s.Release()
	}
}

// PyTorch's test_graph_grad_scaling, without the capture: float16 overflows in the backward pass.
func TestScaling_FollowsWhatOverflowsInFloat16(t *testing.T) {
	r := onHost(t)
	w := r.param(1, 100)
	opt := optim.SGD([]*autograd.Parameter{w}, optim.LR(0.1))
	s := amp.NewGradScaler(amp.InitScale(4))
	defer s.Release()
	for i, c := range []struct {
		input, scale, gradient float64
		tracker                int
	}{{5, 4, 5 * 4, 1}, {20000, 2, math.Inf(1), 0}, {5, 2, 5 * 2, 1}, {40000, 1, math.Inf(1), 0}} {
		g := r.graph()
		x := g.Input(r.full(c.input, tensor.Float32, 100))
		require.NoError(t, s.Backward(g.Param(w).To(tensor.Float16).Mul(x).Sum(nil, false)))
		require.Equal(t, c.gradient, values(t, w.Grad())[99])
		g.Release()
		require.NoError(t, s.Step(opt))
		require.NoError(t, s.Update())
		opt.ZeroGrad()
		require.Equal(t, c.scale, scaleOf(t, s), "iteration %d", i)
		require.Equal(t, c.tracker, trackerOf(t, s), "iteration %d", i)
	}
	require.InDelta(t, 1-0.1*5-0.1*5, values(t, w.Tensor())[0], 1e-6)
}
