package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/sim"
)

func TestClipGradNormAsync_ClipsAsClipGradNorm(t *testing.T) {
	for stage := range 4 {
		c := small(stage)
		c.clip = 0.1
		unread := trained(t, 2, c)
		c.read = true
		require.Equal(t, trained(t, 2, c), unread, "ZeRO %d", stage)
		c.clip = 100
		require.NotEqual(t, trained(t, 2, c), unread, "it clips")
	}
}

func TestClipGradNormAsync_DoesNotWait(t *testing.T) {
	for stage := range 4 {
		waits := 0
		dev := sim.New(1<<30, sim.OnCall(func(c sim.Call) {
			if c.Kind == sim.CallCopyToHost || c.Kind == sim.CallStreamSync || c.Kind == sim.CallEventSync || c.Kind == sim.CallDeviceSync {
				waits++
			}
		}))
		r := newRank(t, dev)
		var err error
		r.comm, err = comm.Simulated(dev, 0, 2)
		require.NoError(t, err)
		require.NoError(t, withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			if err := r.backward(d, 64); err != nil {
				return err
			}
			defer d.ZeroGrad()
			waits = 0
			require.NoError(t, d.ClipGradNormAsync(1))
			require.Zero(t, waits, "ZeRO %d", stage)
			_, err := d.ClipGradNorm(1)
			require.Equal(t, 1, waits, "ZeRO %d", stage)
			return err
		}))
	}
}
