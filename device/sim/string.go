package sim

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
)

// String is the device and its memory in one line, as in "sim: 6MiB of 80GiB in use", what other processes hold included. It is no
// driver call, and may be printed by the function of OnCall or Inject: while a call is under way, what is in use is left out.
func (d *Device) String() string {
	if d = d.orAbsent(); d == absent {
		return "sim: no device"
	}
	capacity := device.FormatBytes(d.capacity)
	if !d.mu.TryLock() {
		return fmt.Sprintf("%s: %s", d.id, capacity)
	}
	defer d.mu.Unlock()
	if d.mu.closed {
		return fmt.Sprintf("%s: closed", d.id)
	}
	return fmt.Sprintf("%s: %s of %s in use", d.id, device.FormatBytes(d.capacity-d.free()), capacity)
}
