package timing

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
)

func TestEach_CountsNoCallBeforeTheMeasurement(t *testing.T) {
	calls := 0
	s, err := Each(host.Default().DefaultStream(), time.Nanosecond, func() error { calls++; return nil })
	require.NoError(t, err)
	require.Positive(t, s)
	require.GreaterOrEqual(t, calls, 3)
}

func TestEach_ReturnsTheErrorOfACall(t *testing.T) {
	wrong := errors.New("wrong")
	for fails := range 3 {
		calls := 0
		_, err := Each(host.Default().DefaultStream(), time.Nanosecond, func() error {
			if calls++; calls > fails {
				return wrong
			}
			return nil
		})
		require.ErrorIs(t, err, wrong)
	}
}

func TestOf_IsTheMedianWithLowestAndHighest(t *testing.T) {
	require.Equal(t, Spread{Microseconds: 2e6, Fastest: 1e6, Slowest: 9e6}, Of([]float64{9, 1, 2}))
	require.InDelta(t, 1.5, Median([]float64{2, 1}), 0)
}
