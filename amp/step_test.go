package amp_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestStep_IsRefusedWhereItMakesNoSense(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(0, 1), tensor.Float32, 4)
	opt := &counter{params: []*autograd.Parameter{p}}
	empty := &counter{params: []*autograd.Parameter{r.param(0, 1)}}
	fails := func(err error, want amp.Misuse, text string) {
		t.Helper()
		var typed *amp.ScalerError
		require.ErrorAs(t, err, &typed)
		require.ErrorIs(t, err, want)
		require.Equal(t, "amp: GradScaler."+typed.Method+": "+text, err.Error())
	}
	const unscaled = "  This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
	fresh := amp.NewGradScaler()
	fails(fresh.Unscale(opt), amp.NotScaled, "Attempted unscale_ but _scale is None."+unscaled)
	fails(fresh.Step(opt), amp.NotScaled, "Attempted step but _scale is None."+unscaled)
	fails(fresh.Update(), amp.NotScaled, "Attempted update but _scale is None."+unscaled)

	s := r.scaled(amp.InitScale(4))
	fails(s.Update(), amp.NothingToUpdate, "No inf checks were recorded prior to update.")
	fails(s.Step(empty), amp.NothingChecked, "No inf checks were recorded for this optimizer.")
	require.NoError(t, s.Unscale(opt))
	fails(s.Unscale(opt), amp.UnscaledTwice, "unscale_() has already been called on this optimizer since the last update().")
	require.NoError(t, s.Step(opt))
	fails(s.Step(opt), amp.SteppedTwice, "step() has already been called since the last update().")
	fails(s.Unscale(opt), amp.UnscaledTooLate, "unscale_() is being called after step().")
	require.NoError(t, s.Update())
	require.NoError(t, s.Step(opt))
	require.Equal(t, 2, opt.steps)

	fails(s.Step(nil), amp.BadOptimizer, "the optimizer must be comparable and not nil: pass a pointer.")
	fails(s.Unscale(incomparable{}), amp.BadOptimizer, "the optimizer must be comparable and not nil: pass a pointer.")
	fails(s.Update(amp.NewScaleTensor(nil)), amp.BadNewScale, "new_scale should be a float or a 1-element float32 tensor.")
	fails(s.LoadState(amp.State{}), amp.EmptyState,
		"The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
	require.Equal(t, "Misuse(99)", amp.Misuse(99).Error())
}

// incomparable is an optimizer that Go cannot compare.
type incomparable struct{ params []*autograd.Parameter }

func (o incomparable) Parameters() []*autograd.Parameter { return o.params }
func (o incomparable) Step() error                       { return nil }

func TestStep_ThatFailsCanBeCalledAgain(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(0, 1), tensor.Float32, 4)
	cause := errors.New("no memory for state")
	opt := &counter{params: []*autograd.Parameter{p}, err: cause}
	s := r.scaled(amp.InitScale(4))
	require.Equal(t, cause, s.Step(opt), "the optimizer's error as it is")
	require.Equal(t, cause, s.Step(opt))
	opt.err = nil
	require.NoError(t, s.Step(opt))
	require.Equal(t, 1.0, item(t, p.Grad()), "unscaled once")
	require.Equal(t, 1, opt.steps)
}
