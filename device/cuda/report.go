package cuda

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// report is pinned memory in which kernels leave errors, and the function that reads them.
type report struct {
	mu     sync.Mutex // held while check runs
	memory []byte
	check  func([]byte) error
}

// reports is the report of a device, if it has one.
type reports struct{ current atomic.Pointer[report] }

// Report implements device.Reporter. Pinned memory has one address for host and device, since all addresses are unified.
func (d *Device) Report(bytes uint64, check func([]byte) error) (device.Ptr, error) {
	d = d.orAbsent()
	var next *report
	if bytes > 0 {
		b, err := d.begin("Report") // the device does not end before the report can be found
		if err != nil {
			return 0, err
		}
		defer b.Release()
		memory, err := d.AllocPinned(bytes)
		if err != nil {
			return 0, err
		}
		next = &report{memory: memory, check: check}
	}
	// Kernels that were launched with the old address must be done: only the caller knows that, and it is its duty.
	if last := d.reports.current.Swap(next); last != nil {
		last.mu.Lock() // a check may still be running
		defer last.mu.Unlock()
		if err := d.FreePinned(last.memory); err != nil {
			return 0, err
		}
		last.check = nil
	}
	if next == nil {
		return 0, nil
	}
	return device.Ptr(osmem.Address(next.memory)), nil
}

// endReport ends it. The memory is given back with all other pinned memory.
func (d *Device) endReport() {
	if last := d.reports.current.Swap(nil); last != nil {
		last.mu.Lock() // a check may still be running
		defer last.mu.Unlock()
		last.check = nil
	}
}

// waited is the end of every wait that succeeded: profiles look at what is done, and the error is what kernels have reported.
func (d *Device) waited() error {
	if p := d.profiler.Load(); p != nil {
		p.drain()
	}
	return d.reported()
}

// reported is the error that kernels have left.
func (d *Device) reported() error {
	r := d.reports.current.Load()
	if r == nil {
		return nil
	}
	// The lock is for goroutines, not for the device: a kernel of another stream may be writing. What it has not finished yet is found by
	// the next wait.
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.check == nil { // given back since
		return nil
	}
	return r.check(r.memory)
}
