package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
)

// apart is so far, in bytes, that offsets of slices need more than 32 bits, counted in bytes as well as in elements.
const apart = 9 << 30

// conformApart runs the cases whose tensors have gaps with slices that lie gibibytes apart.
func conformApart(t *testing.T, d device.Device, n int, types func(op.ID) []dtype.DType) {
	for id := op.Invalid + 1; id.Valid(); id++ {
		t.Run(id.String(), func(t *testing.T) {
			ran := 0
			for _, kind := range types(id) {
				require.NoError(t, kerneltest.Each(d, id, kind, func(_ int, run func() error) error {
					ran++
					return run()
				}, kerneltest.Every(max(n, *every)), kerneltest.Apart(apart), kerneltest.Small()))
			}
			t.Logf("%d cases", ran)
		})
	}
}

func TestConformance_OfSlicesFarApart(t *testing.T) {
	d, _ := onPTX(t)
	if fulltests.Enabled() {
		conformApart(t, d, 163, op.ID.Types)
		return
	}
	conformApart(t, d, 211, func(id op.ID) []dtype.DType { return []dtype.DType{kerneltest.TypeOf(id, 2)} })
}

func TestGPU_ConformanceOfSlicesFarApart(t *testing.T) {
	conformApart(t, gpu(t, false), 29, op.ID.Types)
}
