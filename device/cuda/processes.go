package cuda

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Processes asks NVIDIA's management library (libnvidia-ml.so.1, nvml.dll), which comes with the driver and is opened at the
// first call. Without it the error is an ErrUnavailable.
func (d *Device) Processes() ([]device.Process, error) {
	d = d.orAbsent()
	const call = "Processes"
	n, err := d.system.management()
	if err != nil {
		return nil, d.fail(call, device.ErrUnavailable, "%v", err)
	}
	// Its numbers of devices are the machine's: CUDA_VISIBLE_DEVICES hides and reorders the driver's.
	uuid, err := d.uuid()
	if err != nil {
		return nil, err
	}
	list, err := n.Processes(uuid)
	if err != nil {
		return nil, d.fail(call, device.ErrUnavailable, "%v", err)
	}
	all := make([]device.Process, len(list))
	for i, p := range list {
		all[i] = device.Process{PID: p.PID, Name: p.Name, Memory: p.Used}
	}
	slices.SortFunc(all, func(a, b device.Process) int {
		return cmp.Or(cmp.Compare(b.Memory, a.Memory), cmp.Compare(a.PID, b.PID))
	})
	return all, nil
}

// uuid is the device's name for the management library.
func (d *Device) uuid() (uuid [16]byte, err error) {
	var f driver.Func
	switch {
	case d.library.Has(driver.DeviceGetUUID2):
		f = driver.DeviceGetUUID2
	case d.library.Has(driver.DeviceGetUUID):
		f = driver.DeviceGetUUID
	default:
		return uuid, d.fail("Processes", device.ErrUnavailable, "the driver has no %s", driver.DeviceGetUUID)
	}
	b := d.library.Batch()
	defer b.Release()
	out := make([]byte, len(uuid))
	b.Add(f, b.Bytes(out), d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return uuid, d.failed(f, r, "")
	}
	return [16]byte(out), nil
}
