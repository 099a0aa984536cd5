package host

import "github.com/cistern-ml/cistern/device"

// absent is what a nil pointer or a zero Device stands for: a device that is closed, so that its calls fail and nothing is changed.
var absent = func() *Device {
	d := new(Device)
	d.inline.device = d
	d.closed.Store(true)
	return d
}()

// orAbsent is d, or absent if neither New nor Default nor Open made d.
func (d *Device) orAbsent() *Device {
	if d == nil || d.inline.device == nil {
		return absent
	}
	return d
}

// noDevice is the error of a call of absent.
func noDevice(call string) error {
	return &device.Error{Call: call, Err: device.ErrUnavailable, Detail: "no device: a device is what New, Default or Open returned"}
}
