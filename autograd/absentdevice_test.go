package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

func TestNoDevice_IsADeviceError(t *testing.T) {
	never := func([]*autograd.Variable) *autograd.Variable { return nil }
	numbers, err := data.Slices([]float32{1}, nil, []float32{1}, nil)
	require.NoError(t, err)
	for _, d := range []device.Device{
		nil, (*host.Device)(nil), new(host.Device), (*sim.Device)(nil), new(sim.Device), (*cuda.Device)(nil), new(cuda.Device),
	} {
		g := autograd.NewGraph(d)
		loader := data.NewLoader(d, numbers, 1)
		for range loader.Batches() {
			t.Fatal("a batch")
		}
		calls := map[string]error{
			"NewGraph": g.Err(), "NewLoader": loader.Err(), "Check": gradcheck.Check(d, never, nil), "To": nn.Linear(1, 1).To(d), "ToDevice": nn.Checkpointed(nn.Linear(1, 1)).To(d),
		}
		g.Release()
		_, calls["On"] = tensor.On(d)
		_, calls["On with a stream"] = tensor.On(d, tensor.WithStream(host.Default().DefaultStream()))
		for call, err := range calls {
			var typed *tensor.DeviceError
			require.ErrorAs(t, err, &typed, "%T: %s", d, call)
			require.Contains(t, typed.Detail, "no device", "%T: %s", d, call)
		}
	}
}
