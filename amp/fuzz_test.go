package amp_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// FuzzGradScaler_LoadState loads any state, before and after there is a scale on the device. What is refused changes nothing, what is loaded is
// saved and loads again to the same.
func FuzzGradScaler_LoadState(f *testing.F) {
	f.Add(65536.0, 2.0, 0.5, 2000, 3)
	f.Add(-1.0, 2.0, 0.5, 1, 0)
	f.Add(math.Inf(1), math.NaN(), math.Inf(-1), -1, -1)
	f.Add(1e-45, math.MaxFloat64, 1e-300, math.MaxInt32, math.MaxInt32)
	f.Add(3.5e38, 1+1e-16, 1-1e-16, math.MaxInt, math.MinInt)
	e, err := tensor.On(host.Default())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, scale, growth, backoff float64, interval, tracker int) {
		for _, made := range []bool{false, true} {
			s := amp.NewGradScaler(amp.InitScale(8))
			defer s.Release()
			if made {
				x, err := tensor.Scalar(e, 1, tensor.Float32)
				require.NoError(t, err)
				y, err := s.ScaleTensor(x)
				require.NoError(t, err)
				x.Release()
				y.Release()
			}
			before, err := s.State()
			require.NoError(t, err)
			err = s.LoadState(amp.State{Scale: scale, GrowthFactor: growth, BackoffFactor: backoff, GrowthInterval: interval, GrowthTracker: tracker})
			after, failed := s.State()
			require.NoError(t, failed)
			if err != nil {
				var wrong *amp.ScalerError
				require.True(t, errors.As(err, &wrong), "%v", err)
				require.Equal(t, before, after)
				continue
			}
			require.NoError(t, s.LoadState(after))
			again, err := s.State()
			require.NoError(t, err)
			require.Equal(t, after, again)
			require.True(t, after.Scale > 0 && after.Scale <= math.MaxFloat64, "%v", after)
		}
	})
}
