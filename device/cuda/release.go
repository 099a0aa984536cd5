package cuda

import (
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// The end of a device has two parts. The gate is shut, so that calls are refused from then on; when the last batch of a call that
// came before is out, nobody but the goroutine that ends the device uses the context, and it passes the gate by Device.last.

// shut begins the end. It reports false if that has been done.
func (d *Device) shut() bool {
	if d.closed.Swap(true) {
		return false
	}
	d.gate.Shut()
	return true
}

// end waits for the device's work and gives everything back to the driver. It follows shut and the gate's Wait.
func (d *Device) end() error {
	if d.context.Load() == 0 {
		return nil
	}
	d.endCaptures() // the wait below would be refused
	err := d.last(driver.CtxSynchronize)
	if err == nil {
		err = d.reported()
	}
	d.endReport()
	return join(err, d.finishProfiles(), d.releaseAll())
}

// releaseAll gives everything back that nobody gave back, and the context. Once the context is lost the driver refuses all
// of it, and takes it back when the last user of the context is gone: only the first error is worth telling.
//
// Modules and graphs of a device that has an owner are the owner's to close, for whom it is a mistake to forget them. Those of
// a shared device may be anybody's.
func (d *Device) releaseAll() (first error) {
	note := keepFirst(&first)
	d.blas.destroy(d) // its handles hold memory of the driver's in the context
	if d.shared {
		note(d.unloadAll())
	}
	note(d.releaseStreams()) // after captures ended and work is done: nothing uses the memory below
	note(d.releaseMemory())
	note(d.releasePages())
	note(d.releasePinned())
	note(d.releaseContext())
	return first
}

// releaseStreams ends streams and events. The pinned memory of the streams goes with all other.
func (d *Device) releaseStreams() (first error) {
	note := keepFirst(&first)
	for _, s := range d.streams() {
		s.closed.Store(true)
		if s.handle != 0 {
			note(d.last(driver.StreamDestroy, s.handle))
		}
	}
	for _, e := range d.events() {
		e.closed.Store(true)
		note(d.last(driver.EventDestroy, e.handle))
	}
	return first
}

func (d *Device) events() []*Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.mu.events))
}

// releaseMemory gives back what Malloc and AllocAsync returned, and what the pool keeps.
func (d *Device) releaseMemory() (first error) {
	note := keepFirst(&first)
	d.mu.Lock()
	memory, async := d.mu.memory, d.mu.async
	d.mu.memory, d.mu.async = nil, nil
	d.mu.Unlock()
	for p, m := range async {
		if m == nil || m.live {
			note(d.last(driver.MemFreeAsync, uintptr(p), 0)) // on the default stream, the only one left; all work is done
		}
	}
	if len(async) > 0 {
		note(d.last(driver.StreamSynchronize, 0)) // a pool gives back only what somebody has seen to be free
	}
	// The pool is the device's, not the context's: what it kept for the next allocation would stay taken if somebody else retains the
	// context.
	if pool := d.pool.Load(); pool != 0 {
		note(d.last(driver.MemPoolTrimTo, pool, 0))
		if d.library.Has(driver.DeviceGraphMemTrim) {
			note(d.last(driver.DeviceGraphMemTrim, d.ordinal))
		}
	}
	for p := range memory {
		note(d.last(driver.MemFree, uintptr(p)))
	}
	return first
}

// releasePages gives back pages and reserved ranges.
func (d *Device) releasePages() (first error) {
	note := keepFirst(&first)
	d.mu.Lock()
	pages, orphans, ranges := d.mu.pages.All(), d.mu.orphans, d.mu.ranges
	d.mu.pages, d.mu.orphans, d.mu.ranges = extent.Set{}, nil, nil
	d.mu.Unlock()
	for _, e := range pages {
		orphans = append(orphans, page{addr: e.Addr, size: e.Size, handle: uint64(e.Tag), mapped: true})
	}
	for _, q := range orphans {
		if q.mapped {
			note(d.last(driver.MemUnmap, uintptr(q.addr), uintptr(q.size)))
		}
		note(d.last(driver.MemRelease, uintptr(q.handle)))
	}
	for p, size := range ranges {
		note(d.last(driver.MemAddressFree, uintptr(p), uintptr(size)))
	}
	return first
}

// releaseContext drops the use of the primary context. The driver destroys it, with all that is in it, when nobody else in the
// process uses it.
func (d *Device) releaseContext() error {
	b := d.library.Batch() // without making the context current: it may be gone when the call returns
	defer b.Release()
	b.Add(driver.DevicePrimaryCtxRelease, d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return &device.Error{Device: d.id, Call: f.String(), Err: Result(r)}
	}
	d.context.Store(0)
	return nil
}
