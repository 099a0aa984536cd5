package amp_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// fused is an optimizer, p -= gradient, that unscales and decides on the device. preset is a factor of its own.
type fused struct {
	counter
	t      *testing.T
	preset float64
	scales []*float64 // what it was given, nil for none
}

func (f *fused) StepScaled(gradScale, foundInf *tensor.Tensor) error {
	f.scales = append(f.scales, nil)
	divide := 1.0
	if gradScale != nil {
		divide = item(f.t, gradScale)
		f.scales[len(f.scales)-1] = &divide
	}
	apply := 1 - math.Min(item(f.t, foundInf), 1)
	for _, p := range f.params {
		if p.Grad() == nil || apply == 0 {
			continue
		}
		if err := p.Tensor().AddInPlace(p.Grad(), -f.preset/divide); err != nil {
			return err
		}
	}
	return nil
}

func TestStep_OfAFusedOptimizerEqualsThatOfAnother(t *testing.T) {
	for name, separate := range map[string]bool{"at once": false, "after Unscale": true} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			plain, other := r.param(1, 2), r.param(1, 2)
			sgd := optim.SGD([]*autograd.Parameter{plain}, optim.LR(1))
			f := &fused{counter: counter{params: []*autograd.Parameter{other}}, t: t, preset: 1}
			s := r.scaled(amp.InitScale(128), amp.GrowthInterval(1))
			for i, gradient := range []float64{64, 32, math.Inf(1), 128} {
				r.with(plain, tensor.Float32, gradient, 1)
				r.with(other, tensor.Float32, gradient, 1)
				if separate {
					require.NoError(t, s.Unscale(f))
				}
				before := scaleOf(t, s)
				require.NoError(t, s.Step(f))
				require.NoError(t, s.Step(sgd))
				require.NoError(t, s.Update())
				require.Equal(t, values(t, plain.Tensor()), values(t, other.Tensor()), "iteration %d", i)
				if separate {
					require.Nil(t, f.scales[i], "the gradients are unscaled already")
				} else {
					require.Equal(t, before, *f.scales[i])
					require.Equal(t, []float64{gradient, 1}, values(t, other.Grad()), "the scaler only looked at them")
				}
			}
			require.Equal(t, 128*math.Pow(2, 3)*0.5, scaleOf(t, s))
			require.Zero(t, f.steps, "Step itself is not called")
		})
	}
}

// PyTorch's test_grad_scaler_with_preset_grad_scale: 15 is divided by the user's 3 and by the scale 5.
func TestStep_OfAFusedOptimizerWithAFactorOfItsOwn(t *testing.T) {
	for name, separate := range map[string]bool{"at once": false, "after Unscale": true} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			p := r.with(r.param(0, 1), tensor.Float32, 15)
			f := &fused{counter: counter{params: []*autograd.Parameter{p}}, t: t, preset: 1.0 / 3}
			s := r.scaled(amp.InitScale(5))
			if separate {
				require.NoError(t, s.Unscale(f))
			}
			require.NoError(t, s.Step(f))
			require.InDelta(t, -1, item(t, p.Tensor()), 1e-6)
		})
	}
}

func TestStep_OfAFusedOptimizerDoesNotWait(t *testing.T) {
	dev := sim.New(1 << 30)
	r := newRig(t, dev)
	p := r.with(r.param(0, 2), tensor.Float16, 1, 1) // never written, so float16 is allowed
	s := r.scaled()
	f := &blind{counter{params: []*autograd.Parameter{p}}}
	require.NoError(t, s.Step(f))
	require.ErrorIs(t, s.Step(f), amp.SteppedTwice)
	require.NoError(t, s.Update())
	require.Equal(t, 1, f.steps)
	require.Zero(t, waits(dev))
	empty := &blind{counter{params: []*autograd.Parameter{r.param(0, 2)}}}
	require.ErrorIs(t, s.Step(empty), amp.NothingChecked)
}

// blind is a fused optimizer that looks at nothing.
type blind struct{ counter }

func (b *blind) StepScaled(_, _ *tensor.Tensor) error { return b.Step() }

func TestStep_OfAFusedOptimizerThatFailsCanBeCalledAgain(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(0, 1), tensor.Float32, 1)
	f := &blind{counter{params: []*autograd.Parameter{p}, err: errors.New("not now")}}
	s := r.scaled()
	base := r.allocated()
	for range 3 {
		require.Equal(t, f.err, s.Step(f))
		require.EqualValues(t, block, r.allocated()-base, "one flag")
	}
	f.err = nil
	require.NoError(t, s.Step(f))
	require.NoError(t, s.Update())
	require.Equal(t, base, r.allocated())
}
