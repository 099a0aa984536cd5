package cuda

import (
	"sync/atomic"

	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// loaded is a module or a graph: what ends it, and the memory that it left.
type loaded struct {
	end    driver.Func
	handle uintptr
	left   []*graphMemory
}

// keepCode notes what was loaded, until unload. closed is the flag of its owner, whose address tells it from all other code.
func (d *Device) keepCode(closed *atomic.Bool, l loaded) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.code[closed] = l
}

// unload is Close of modules and graphs: once, and again only if the driver refused.
func (d *Device) unload(call string, closed *atomic.Bool, f driver.Func, handle uintptr) error {
	if d.closed.Load() || closed.Swap(true) { // Close of a device takes its context, and what is loaded there with it
		return nil
	}
	if err := d.call(call, f, handle); err != nil {
		closed.Store(!d.usable()) // it can be closed again, unless the context is lost
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.code, closed)
	return nil
}

// unloadAll ends what is left of modules and graphs. It is part of the device's end.
func (d *Device) unloadAll() (first error) {
	d.mu.Lock()
	code := d.mu.code
	d.mu.code = nil
	d.mu.Unlock()
	note := keepFirst(&first)
	for closed, l := range code { // in any order: a GraphExec does not need its Graph any more
		closed.Store(true) // a Close that comes later finds nothing to do
		note(d.last(l.end, l.handle))
		for _, m := range l.left {
			if m.live && !m.held {
				m.live = false
				note(d.last(driver.MemFree, uintptr(m.ptr)))
			}
		}
	}
	return first
}

// keepFirst returns a function that keeps the first error that it is given.
func keepFirst(first *error) func(error) {
	return func(err error) {
		if *first == nil {
			*first = err
		}
	}
}
