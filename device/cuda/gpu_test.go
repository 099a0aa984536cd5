package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/devicetest"
)

// TestGPU_Conformance is what all devices must do, on a real one. Other processes may use its memory.
func TestGPU_Conformance(t *testing.T) {
	d := cudatest.GPU(t)
	devicetest.TestDevice(t, func(*testing.T) device.Device { return d }, devicetest.Shared(), devicetest.Inexact())
}

func TestGPU_SaysWhatItIs(t *testing.T) {
	d := cudatest.GPU(t)
	p := d.Properties()
	major, minor := cuda.DriverVersion()
	t.Logf("%s, compute capability %d.%d, %d processors, %d bytes, CUDA %d.%d", p.Name, p.Major, p.Minor, p.Processors, p.TotalMemory,
		major, minor)
	require.NotEmpty(t, p.Name)
	require.Positive(t, p.Processors)
	require.GreaterOrEqual(t, p.Major, 5)
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.LessOrEqual(t, info.Free, info.Total)
}
