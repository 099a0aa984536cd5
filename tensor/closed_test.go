package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestClosedDevice_RefusesTensors(t *testing.T) {
	for name, dev := range map[string]device.Device{"host": host.New(), "sim": sim.New(1 << 30)} {
		queue, err := dev.NewStream()
		require.NoError(t, err)
		var execs []tensor.Exec
		var kept []*tensor.Tensor
		for _, s := range []device.Stream{dev.DefaultStream(), queue} {
			e, err := tensor.On(dev, tensor.WithStream(s))
			require.NoError(t, err)
			cached, err := tensor.Ones(e, tensor.Float32, 4)
			require.NoError(t, err)
			x, err := tensor.Ones(e, tensor.Float32, 4)
			require.NoError(t, err)
			cached.Release() // its memory is handed out without asking the device
			execs, kept = append(execs, e), append(kept, x)
		}
		require.NoError(t, dev.Close())
		for i, e := range execs {
			x := kept[i]
			_, err := tensor.Ones(e, tensor.Float32, 4)
			require.ErrorIs(t, err, device.ErrClosed, name)
			_, err = x.Add(x)
			require.ErrorIs(t, err, device.ErrClosed, name)
			_, err = x.MatMul(x)
			require.ErrorIs(t, err, device.ErrClosed, name)
			require.ErrorIs(t, x.FillInPlace(2), device.ErrClosed, name)
			_, err = x.Float64s()
			require.ErrorIs(t, err, device.ErrClosed, name)
			_, err = tensor.FromSlice(e, []float32{1, 2, 3, 4})
			require.ErrorIs(t, err, device.ErrClosed, name)
			x.Release()
		}
		_ = memory.Drop(dev)
	}
}
