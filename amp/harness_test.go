package amp_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

var (
	_ amp.Optimizer = optim.Optimizer(nil)
	_ amp.Optimizer = (*optim.Grouped)(nil)
)

// trainee is a model of two layers of 8 by 8 in training.
type trainee struct {
	model *nn.SequentialModule
	opt   *optim.Grouped
}

// overflowAt is the batch at which an infinity is written into a gradient.
const overflowAt = 2

// harness is PyTorch's for scalers (_run_scaling_case): one model is trained with the scaler and one without, which leaves the
// step at overflowAt out itself; afterwards they must be equal.
type harness struct {
	*rig
	inputs, targets []*tensor.Tensor
	scaler          *amp.GradScaler
	autocast        bool
}

func newHarness(t *testing.T, enabled bool) *harness {
	h := &harness{rig: onHost(t)}
	for i := range uint64(4) {
		h.inputs = append(h.inputs, h.random(2*i+1, tensor.Float32, 8, 8))
		h.targets = append(h.targets, h.random(2*i+2, tensor.Float32, 8, 8))
	}
	h.scaler = amp.NewGradScaler(amp.InitScale(128), amp.GrowthFactor(2), amp.GrowthInterval(1), amp.Enabled(enabled))
	t.Cleanup(func() { h.scaler.Release() })
	return h
}

// train makes a model, always the same.
func (h *harness) train(seed uint64) *trainee {
	h.t.Helper()
	m := nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
	require.NoError(h.t, m.To(h.dev, nn.Seed(seed), nn.WithAllocator(h.alloc)))
	h.t.Cleanup(m.Release)
	return &trainee{m, optim.SGD(m.Parameters(), optim.LR(1))}
}

// loss is the mean squared error of a batch, in a graph of its own; f goes backward.
func (h *harness) loss(try bool, x *trainee, batch int, f func(loss *autograd.Variable)) {
	h.t.Helper()
	var opts []autograd.Option
	if h.autocast && try {
		opts = append(opts, amp.Autocast(tensor.Float16))
	}
	g := h.graph(opts...)
	defer g.Release()
	f(x.model.Forward(g.Input(h.inputs[batch])).MSELoss(g.Input(h.targets[batch]), autograd.MeanReduction))
}

// backward leaves the gradients of a batch, with an infinity at overflowAt if the scaler would see it.
func (h *harness) backward(try bool, x *trainee, batch int, divide float64) {
	h.t.Helper()
	h.loss(try, x, batch, func(loss *autograd.Variable) {
		loss = loss.DivScalar(divide)
		if !try {
			require.NoError(h.t, loss.Backward())
			return
		}
		require.NoError(h.t, h.scaler.Backward(loss))
	})
}

// overflow writes the infinity.
func (h *harness) overflow(x *trainee, batch int) {
	h.t.Helper()
	if batch == overflowAt && h.scaler.IsEnabled() {
		require.NoError(h.t, x.model.Parameters()[2].Grad().FillInPlace(math.Inf(1)))
	}
}

// control is the step of the model without scaler.
func (h *harness) control(x *trainee, batch int) {
	h.t.Helper()
	if batch != overflowAt || !h.scaler.IsEnabled() {
		require.NoError(h.t, x.opt.Step())
	}
	x.opt.ZeroGrad()
}

// finish ends an iteration with the scaler, and starts the next one with a scaler restored from saved state.
func (h *harness) finish(xs ...*trainee) {
	h.t.Helper()
	for _, x := range xs {
		require.NoError(h.t, h.scaler.Step(x.opt))
		x.opt.ZeroGrad()
	}
	require.NoError(h.t, h.scaler.Update())
	if !h.scaler.IsEnabled() {
		return
	}
	st, err := h.scaler.State()
	require.NoError(h.t, err)
	text, err := json.Marshal(st)
	require.NoError(h.t, err)
	var restored amp.State
	require.NoError(h.t, json.Unmarshal(text, &restored))
	h.scaler.Release()
	h.scaler = amp.NewGradScaler(amp.InitScale(1), amp.GrowthInterval(77))
	require.NoError(h.t, h.scaler.LoadState(restored))
}

// equal compares models.
func (h *harness) equal(a, b *trainee, tolerance float64) {
	h.t.Helper()
	p, q := a.model.Parameters(), b.model.Parameters()
	for i := range p {
		require.InDeltaSlice(h.t, values(h.t, p[i].Tensor()), values(h.t, q[i].Tensor()), tolerance)
	}
}

func (h *harness) scaleIs(unskipped, skipped int) {
	h.t.Helper()
	want := 1.0
	if h.scaler.IsEnabled() {
		want = 128 * math.Pow(2, float64(unskipped)) * math.Pow(0.5, float64(skipped))
	}
	got, err := h.scaler.GetScale()
	require.NoError(h.t, err)
	require.Equal(h.t, want, got)
}

// bothWays runs a case with the scaler enabled and disabled.
func bothWays(t *testing.T, f func(h *harness)) {
	for name, enabled := range map[string]bool{"enabled": true, "disabled": false} {
		t.Run(name, func(t *testing.T) { f(newHarness(t, enabled)) })
	}
}

func TestScaling_OfATrainingLoop(t *testing.T) {
	for name, autocast := range map[string]bool{"float32": false, "autocast": true} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(h *harness) {
				h.autocast = autocast
				x, y := h.train(1), h.train(1)
				for i := range h.inputs {
					h.backward(true, x, i, 1)
					h.overflow(x, i)
					h.finish(x)
					h.backward(false, y, i, 1)
					h.control(y, i)
				}
				tolerance := 1e-7
				if autocast {
					tolerance = 1e-3
				}
				h.equal(x, y, tolerance)
				h.scaleIs(3, 1)
			})
		})
	}
}

func TestScaling_WithClipping(t *testing.T) {
	const maxNorm = 0.2
	clip := func(h *harness, x *trainee, limit float64) {
		norm, err := optim.ClipGradNorm(x.model.Parameters(), limit)
		if !math.IsInf(norm, 0) { // what overflowed is left to the scaler
			require.NoError(h.t, err)
		}
	}
	for name, separate := range map[string]bool{"scaled gradients": false, "after Unscale": true} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(h *harness) {
				x, y := h.train(1), h.train(1)
				for i := range h.inputs {
					h.backward(true, x, i, 1)
					h.overflow(x, i)
					if separate {
						require.NoError(t, h.scaler.Unscale(x.opt))
						clip(h, x, maxNorm)
					} else {
						scale, err := h.scaler.GetScale()
						require.NoError(t, err)
						clip(h, x, maxNorm*scale)
					}
					h.finish(x)
					h.backward(false, y, i, 1)
					clip(h, y, maxNorm)
					h.control(y, i)
				}
				h.equal(x, y, 1e-6)
				h.scaleIs(3, 1)
			})
		})
	}
}

func TestScaling_WithAccumulation(t *testing.T) {
	const every = 2
	bothWays(t, func(h *harness) {
		x, y := h.train(1), h.train(1)
		for i := range h.inputs {
			h.backward(true, x, i, every)
			h.backward(false, y, i, every)
			if (i+1)%every == 0 {
				h.finish(x)
				require.NoError(t, y.opt.Step())
				y.opt.ZeroGrad()
			}
		}
		h.equal(x, y, 1e-7)
		h.scaleIs(2, 0)
	})
}

func TestScaling_OfSeveralModelsSkipsOnlyTheOneThatOverflowed(t *testing.T) {
	bothWays(t, func(h *harness) {
		x0, x1, y0, y1 := h.train(1), h.train(2), h.train(1), h.train(2)
		// Two losses, each of both models, as a generator and a discriminator may have.
		both := func(try bool, a, b *trainee, i int) {
			var opts []autograd.Option
			g := h.graph(opts...)
			defer g.Release()
			target := g.Input(h.targets[i])
			u, v := a.model.Forward(g.Input(h.inputs[i])), b.model.Forward(g.Input(h.inputs[i]))
			first := u.MulScalar(0.3).Add(v.MulScalar(0.7)).MSELoss(target, autograd.MeanReduction)
			second := u.MulScalar(0.6).Sub(v.MulScalar(0.4)).MSELoss(target, autograd.MeanReduction)
			losses := vars{first, second}
			if try {
				losses = h.scaler.ScaleAll(losses...)
			}
			require.NoError(t, losses[0].Backward(autograd.RetainGraph()))
			require.NoError(t, losses[1].Backward())
		}
		for i := range h.inputs {
			both(true, x0, x1, i)
			h.overflow(x0, i)
			if i == 0 { // a separate Unscale of one optimizer does not disturb the other
				require.NoError(t, h.scaler.Unscale(x1.opt))
			}
			if h.scaler.IsEnabled() {
				require.NoError(t, h.scaler.Step(x0.opt))
				require.Equal(t, i == overflowAt, skipped(t, h.scaler, x0.opt))
				require.NoError(t, h.scaler.Step(x1.opt))
				require.False(t, skipped(t, h.scaler, x1.opt))
				for _, x := range []*trainee{x0, x1} {
					require.Len(t, h.scaler.FoundInf(x.opt), 1, "one flag for each optimizer and device")
					x.opt.ZeroGrad()
				}
				require.NoError(t, h.scaler.Update())
			} else {
				h.finish(x0, x1)
			}
			both(false, y0, y1, i)
			h.control(y0, i)
			require.NoError(t, y1.opt.Step())
			y1.opt.ZeroGrad()
		}
		h.equal(x0, y0, 1e-7)
		h.equal(x1, y1, 1e-7)
		h.scaleIs(3, 1)
	})
}

func TestScaling_ToleratesGradientsDroppedBetweenUnscaleAndStep(t *testing.T) {
	h := newHarness(t, true)
	x, y := h.train(1), h.train(1)
	for i := range h.inputs {
		h.backward(true, x, i, 1)
		require.NoError(t, h.scaler.Unscale(x.opt))
		x.opt.ZeroGrad()
		h.finish(x)
	}
	h.equal(x, y, 0)
	h.scaleIs(4, 0)
}
