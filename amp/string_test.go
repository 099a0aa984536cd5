package amp_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestGradScaler_PrintsItsSettings(t *testing.T) {
	r := onHost(t)
	require.Equal(t, "gradient scaler: scale 65536, growth 2 after 2000 steps, backoff 0.5", amp.NewGradScaler().String())
	s := r.scaled(amp.GrowthInterval(1), amp.BackoffFactor(0.25))
	require.Equal(t, "gradient scaler: scale on "+r.exec.Device().ID().String()+", growth 2 after 1 step, backoff 0.25", fmt.Sprint(s))
	s.Release()
	require.Contains(t, s.String(), "scale 65536,", "it would begin anew")
}

func TestGradScaler_StateBytesAreWhatItHolds(t *testing.T) {
	r := onHost(t)
	p := r.with(r.param(0, 1), tensor.Float32, 8)
	s := r.scaled()
	state := s.StateBytes()
	require.NotZero(t, state)
	others := r.allocated() - int64(state)
	require.NoError(t, s.Unscale(&counter{params: []*autograd.Parameter{p}}))
	require.Greater(t, s.StateBytes(), state, "the flag too")
	require.EqualValues(t, r.allocated()-others, s.StateBytes())
	require.NoError(t, s.Update())
	require.Equal(t, state, s.StateBytes())
	s.Release()
	require.Zero(t, s.StateBytes())
	require.Equal(t, others, r.allocated())
	require.Zero(t, amp.NewGradScaler().StateBytes())
	require.Zero(t, (*amp.GradScaler)(nil).StateBytes())
}

func TestGradScaler_PrintsWhyItCannotBeUsed(t *testing.T) {
	require.Equal(t, "gradient scaler (nil)", (*amp.GradScaler)(nil).String())
	require.Equal(t, "gradient scaler, disabled", new(amp.GradScaler).String())
	require.Equal(t, "gradient scaler, disabled", amp.NewGradScaler(amp.Enabled(false), amp.InitScale(-1)).String())
	require.Contains(t, amp.NewGradScaler(amp.InitScale(-1)).String(), "gradient scaler, failed: amp: ")
}
