package sim

import (
	"cmp"
	"os"
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// OccupyBy says which other processes hold memory of the device, as Occupy says how much they hold; each call of either replaces
// what was set before. From the first OccupyBy on, the device can tell about processes: see Processes.
func (d *Device) OccupyBy(others ...device.Process) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.occupied = 0
	for _, p := range others {
		d.mu.occupied += p.Memory
	}
	d.mu.processes = append([]device.Process{}, others...)
}

// Processes lists those of OccupyBy, and this process with what it holds. Before OccupyBy it is an ErrUnavailable.
func (d *Device) Processes() ([]device.Process, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d == absent {
		return nil, noDevice("Processes")
	}
	if d.mu.closed || d.mu.processes == nil {
		return nil, &device.Error{Device: d.id, Call: "Processes", Err: device.ErrUnavailable, Detail: "nobody has called OccupyBy"}
	}
	all := slices.Clone(d.mu.processes)
	if own := d.mu.calls.BytesNow; own > 0 {
		all = append(all, device.Process{PID: os.Getpid(), Name: os.Args[0], Memory: own})
	}
	slices.SortStableFunc(all, func(a, b device.Process) int { return cmp.Compare(b.Memory, a.Memory) })
	return all, nil
}
