package host_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/devicetest"
	"github.com/cistern-ml/cistern/device/host"
)

func TestConformance(t *testing.T) {
	devicetest.TestDevice(t, func(*testing.T) device.Device { return host.New(host.Capacity(64<<20), nil) }, nil)
}

func TestConformance_WithBoundsChecks(t *testing.T) {
	devicetest.TestDevice(t, func(*testing.T) device.Device {
		return host.New(host.Capacity(64<<20), host.CheckBounds())
	})
}
