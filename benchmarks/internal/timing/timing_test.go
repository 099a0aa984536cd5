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

func TestRuns_MakeTheSameNumberOfCallsInEach(t *testing.T) {
	calls := 0
	seconds, err := Runs(host.Default().DefaultStream(), 3, time.Nanosecond, func() error { calls++; return nil })
	require.NoError(t, err)
	require.Len(t, seconds, 3)
	require.Zero(t, (calls-2)%4, "two calls, then four runs, of which three count")
	wrong := errors.New("wrong")
	for fails := range 4 {
		calls := 0
		_, err := Runs(host.Default().DefaultStream(), 1, time.Nanosecond, func() error {
			if calls++; calls > fails {
				return wrong
			}
			return nil
		})
		require.ErrorIs(t, err, wrong)
	}
}

func TestIssued_MakesSoManyCalls(t *testing.T) {
	calls := 0
	s, err := Issued(host.Default().DefaultStream(), 7, func() error { calls++; return nil })
	require.NoError(t, err)
	require.Equal(t, 7, calls)
	require.GreaterOrEqual(t, s, 0.0)
	wrong := errors.New("wrong")
	_, err = Issued(host.Default().DefaultStream(), 7, func() error { return wrong })
	require.ErrorIs(t, err, wrong)
}

func TestOf_IsTheMedianWithLowestAndHighest(t *testing.T) {
	require.Equal(t, Spread{Microseconds: 2e6, Fastest: 1e6, Slowest: 9e6}, Of([]float64{9, 1, 2}))
	require.InDelta(t, 1.5, Median([]float64{2, 1}), 0)
}
