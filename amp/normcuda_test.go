package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A step of a residual block in mixed precision, with the weights cast together: with cuBLAS, with the committed PTX alone, and on the processor.
func TestResidualBlock_HasTheSameGradientsOnEveryDevice(t *testing.T) {
	var want [][]float64
	for _, c := range []struct {
		name string
		on   func(t *testing.T) device.Device
	}{
		{"host", nil},
		{"PTX", func(t *testing.T) device.Device { d, _ := emulatedtest.NewPTX(t); return d }},
		{"cuBLAS", func(t *testing.T) device.Device { return emulatedtest.Load(t, cudatest.NewCUBLAS(t, 1)).Devices[0] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r *rig
			if c.on == nil {
				r = onHost(t)
			} else {
				dev := c.on(t)
				alloc, err := memory.New(dev, memory.Config{})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, alloc.Close()) })
				e, err := tensor.On(dev, tensor.WithAllocator(alloc))
				require.NoError(t, err)
				r = &rig{t: t, dev: dev, alloc: alloc, exec: e}
			}
			n := newNormed(t, r)
			weights := amp.NewWeightCache()
			t.Cleanup(weights.Release)
			var got [][]float64
			for range 3 { // the second has the casts, the third makes them anew in one launch
				got = append(got, n.gradients(t, amp.Autocast(tensor.BFloat16, weights), n.norm.BeforeLinear))
				if len(got) == 2 {
					require.NoError(t, n.linear.Weight.Tensor().MulScalarInPlace(0.5))
					require.NoError(t, n.linear.Bias.Tensor().MulScalarInPlace(2))
				}
			}
			if want == nil {
				want = got
			}
			for i := range got {
				require.InDeltaSlice(t, want[i], got[i], 0.05, "step %d", i)
			}
			require.NotEqual(t, got[1], got[2])
		})
	}
}
