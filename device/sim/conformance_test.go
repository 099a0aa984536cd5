package sim_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/devicetest"
	"github.com/cistern-ml/cistern/device/sim"
)

func TestConformance(t *testing.T) {
	devicetest.TestDevice(t, func(*testing.T) device.Device { return sim.New(64 << 20) }, devicetest.NoStorage())
}

func TestConformance_WithManualStreams(t *testing.T) {
	devicetest.TestDevice(t, func(*testing.T) device.Device {
		return sim.New(64<<20, sim.ManualStreams())
	}, devicetest.NoStorage())
}
