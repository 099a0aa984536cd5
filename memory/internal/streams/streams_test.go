package streams

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// captured is a stream in a capture.
type captured struct{ device.Capturer }

func (captured) CaptureID() uint64 { return 7 }

func TestCapture_IsZeroForWorkThatRuns(t *testing.T) {
	require.EqualValues(t, 7, Capture(captured{}))
	require.True(t, Capturing(captured{}))
	require.Zero(t, Capture(sim.New(1).DefaultStream()))
	require.False(t, Capturing(sim.New(1).DefaultStream()))
}

func TestClosed_AsksTheStream(t *testing.T) {
	s, err := sim.New(1).NewStream()
	require.NoError(t, err)
	require.False(t, Closed(s))
	require.NoError(t, s.Close())
	require.True(t, Closed(s))
}

func TestSame_ComparesDevicesToo(t *testing.T) {
	a, b := sim.New(1), sim.New(1)
	require.True(t, Same(a.DefaultStream(), a.Stream(a.DefaultStream().ID())))
	require.Equal(t, a.DefaultStream().ID(), b.DefaultStream().ID())
	require.False(t, Same(a.DefaultStream(), b.DefaultStream()))
}

func TestIgnoreClosed_IgnoresNothingElse(t *testing.T) {
	other := errors.New("other")
	require.NoError(t, IgnoreClosed(&device.Error{Err: device.ErrClosed}))
	require.Equal(t, other, IgnoreClosed(other))
}
