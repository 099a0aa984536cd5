package cuda_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/devicetest"
)

func TestConformance(t *testing.T) {
	devicetest.TestDevice(t, func(t *testing.T) device.Device { return cudatest.New(t, 1).Devices[0] })
}

// TestConformance_OfASharedDevice runs all tests on one device, as on that of a process.
func TestConformance_OfASharedDevice(t *testing.T) {
	d := cudatest.New(t, 1).Devices[0]
	devicetest.TestDevice(t, func(*testing.T) device.Device { return d }, devicetest.Shared())
}
