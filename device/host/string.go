package host

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
)

// String is the device and its memory in one line, as in "host: 2MiB of 16GiB in use". What is in use is what this device has mapped.
func (d *Device) String() string {
	if d = d.orAbsent(); d == absent {
		return "host: no device"
	}
	if d.closed.Load() {
		return fmt.Sprintf("%s: closed", d.id)
	}
	d.mu.Lock()
	used := d.mu.memory.Bytes()
	d.mu.Unlock()
	return fmt.Sprintf("%s: %s of %s in use", d.id, device.FormatBytes(used), device.FormatBytes(d.capacity))
}
