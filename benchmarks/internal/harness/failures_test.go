package harness

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// broken is a device that an error has ended.
type broken struct{ device.Device }

func (broken) Err() error { return errors.New("lost") }

func TestFailures_EndWithTheDeviceAlone(t *testing.T) {
	var f Failures
	require.NoError(t, f.Err())
	wrong := errors.New("wrong")
	require.NoError(t, f.Add(nil, "a", wrong))
	require.EqualError(t, f.Err(), "one cell failed: a: wrong")
	var out strings.Builder
	require.NoError(t, f.Print(&out))
	require.Equal(t, "FAILED a: wrong\n", out.String())
	require.ErrorIs(t, f.Add(broken{}, "b", wrong), wrong)
	require.EqualError(t, f.Err(), "2 cells failed, first a: wrong")
}
