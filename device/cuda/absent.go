package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// absent is what a nil pointer or a zero Device stands for: a device that is closed, of a driver that has no functions, so that its calls
// fail and nothing is changed.
var absent = func() *Device {
	none := &system{
		library:    new(driver.Library),
		cublas:     func() (*cublas.Library, error) { return nil, noDevice("BLAS") },
		management: func() (*driver.NVML, error) { return nil, noDevice("Processes") },
	}
	d := &Device{system: none, library: none.library, gate: driver.NewGate()}
	d.stream.device = d
	d.stream.closed.Store(true)
	d.closed.Store(true)
	d.gate.Shut()
	return d
}()

// orAbsent is d, or absent if d is of no driver.
func (d *Device) orAbsent() *Device {
	if d == nil || d.system == nil {
		return absent
	}
	return d
}

// noDevice is the error of a call of absent.
func noDevice(call string) error {
	return &device.Error{Call: call, Err: device.ErrUnavailable, Detail: "no device: a device is what Devices or Open returned"}
}
