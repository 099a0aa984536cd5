package cuda

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
)

// String is the device in one line, as in "cuda:0: NVIDIA H100, 80GiB". How much of its memory is in use only the driver knows: see
// MemInfo.
func (d *Device) String() string {
	switch {
	case d == nil || d.system == nil:
		return "cuda: no device"
	case d.closed.Load():
		return fmt.Sprintf("%s: closed", d.id)
	case d.broken.Load() != nil:
		return fmt.Sprintf("%s: %s, unusable after an error", d.id, d.properties.Name)
	}
	return fmt.Sprintf("%s: %s, %s", d.id, d.properties.Name, device.FormatBytes(d.properties.TotalMemory))
}
