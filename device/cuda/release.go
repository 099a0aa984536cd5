package cuda

import (
	"maps"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// releaseAll gives everything back that nobody gave back, and the context. Once the context is lost the driver refuses all
// of it, and takes it back when the last user of the context is gone: only the first error is worth telling.
func (d *Device) releaseAll() (first error) {
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	d.blas.destroy(d)
	for _, s := range d.streams() {
		note(s.dispose())
	}
	for _, e := range d.events() {
		note(e.Close())
	}
	d.mu.Lock()
	memory, async, pages, ranges := d.mu.memory, d.mu.async, d.mu.pages.All(), d.mu.ranges
	d.mu.memory, d.mu.async, d.mu.pages, d.mu.ranges = nil, nil, extent.Set{}, nil
	d.mu.Unlock()
	for p, m := range async {
		if m == nil || m.live {
			note(d.call("Close", driver.MemFreeAsync, uintptr(p), 0))
		}
	}
	if len(async) > 0 {
		note(d.TrimPool(0))
	}
	for p := range memory {
		note(d.call("Close", driver.MemFree, uintptr(p)))
	}
	for _, e := range pages {
		note(d.dropPage(page{addr: e.Addr, size: e.Size, handle: uint64(e.Tag), mapped: true}))
	}
	for p, size := range ranges {
		note(d.call("Close", driver.MemAddressFree, uintptr(p), uintptr(size)))
	}
	note(d.dropOrphans())
	note(d.releasePinned())
	note(d.releaseContext())
	return first
}

// releaseContext drops the use of the primary context.
func (d *Device) releaseContext() error {
	b := d.library.Batch()
	defer b.Release()
	b.Add(driver.DevicePrimaryCtxRelease, d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return &device.Error{Device: d.id, Call: f.String(), Err: Result(r)}
	}
	d.context.Store(0)
	return nil
}

func (d *Device) events() []*Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.mu.events))
}
