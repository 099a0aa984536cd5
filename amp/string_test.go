package amp_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
)

func TestGradScaler_PrintsItsSettings(t *testing.T) {
	r := onHost(t)
	require.Equal(t, "gradient scaler: scale 65536, growth 2 after 2000 steps, backoff 0.5", amp.NewGradScaler().String())
	s := r.scaled(amp.GrowthInterval(1), amp.BackoffFactor(0.25))
	require.Equal(t, "gradient scaler: scale on "+r.exec.Device().ID().String()+", growth 2 after 1 step, backoff 0.25", fmt.Sprint(s))
	s.Release()
	require.Contains(t, s.String(), "scale 65536,", "it would begin anew")
}

func TestGradScaler_PrintsWhyItCannotBeUsed(t *testing.T) {
	require.Equal(t, "gradient scaler (nil)", (*amp.GradScaler)(nil).String())
	require.Equal(t, "gradient scaler, disabled", new(amp.GradScaler).String())
	require.Equal(t, "gradient scaler, disabled", amp.NewGradScaler(amp.Enabled(false), amp.InitScale(-1)).String())
	require.Contains(t, amp.NewGradScaler(amp.InitScale(-1)).String(), "gradient scaler, failed: amp: ")
}
