package host

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/extent"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// Granularity is the operating system's page size.
func (d *Device) Granularity() uint64 { return osmem.PageSize() }

// Reserve takes a range of addresses from the operating system. It holds no memory.
func (d *Device) Reserve(bytes uint64) (device.Ptr, error) {
	d = d.orAbsent()
	const call = "Reserve"
	if d.closed.Load() {
		return 0, d.fail(call, device.ErrClosed, "%d bytes", bytes)
	}
	if bytes == 0 || bytes%d.Granularity() != 0 {
		return 0, d.fail(call, device.ErrInvalidValue, "%d bytes are not whole pages of %d", bytes, d.Granularity())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := osmem.Reserve(bytes)
	if err != nil {
		return 0, d.refused(call, bytes, err)
	}
	d.mu.ranges[uint64(p)] = bytes
	return device.Ptr(p), nil
}

// Unreserve gives an empty range back.
func (d *Device) Unreserve(p device.Ptr) error {
	d = d.orAbsent()
	const call = "Unreserve"
	if d.closed.Load() {
		return d.fail(call, device.ErrClosed, "address %#x", uintptr(p))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes, found := d.mu.ranges[uint64(p)]
	if !found {
		return d.fail(call, device.ErrInvalidValue, "address %#x was not returned by Reserve or is given back", uintptr(p))
	}
	if d.mu.memory.Overlaps(uint64(p), bytes) {
		return d.fail(call, device.ErrInvalidValue, "the range at address %#x still has pages", uintptr(p))
	}
	if err := osmem.Release(uintptr(p), bytes); err != nil {
		return d.fail(call, device.ErrInvalidValue, "address %#x: %v", uintptr(p), err)
	}
	delete(d.mu.ranges, uint64(p))
	return nil
}

// Map puts pages into a reserved range. The operating system is asked once for all of them.
func (d *Device) Map(p device.Ptr, bytes, page uint64) error {
	d = d.orAbsent()
	const call = "Map"
	if d.closed.Load() {
		return d.fail(call, device.ErrClosed, "address %#x", uintptr(p))
	}
	if bytes == 0 || page == 0 || page%d.Granularity() != 0 || bytes%page != 0 || uint64(p)%d.Granularity() != 0 {
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x are not whole pages of %d", bytes, uintptr(p), page)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	owner, found := d.reserved(uint64(p), bytes)
	if !found || d.mu.memory.Overlaps(uint64(p), bytes) {
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x are not in a reserved range or have pages", bytes, uintptr(p))
	}
	if bytes > d.free() {
		return d.outOfMemory(call, bytes)
	}
	if err := osmem.Commit(uintptr(p), bytes); err != nil {
		_ = osmem.Decommit(uintptr(p), bytes) // whatever part of it was done
		return d.refused(call, bytes, err)
	}
	for at := uint64(p); at < uint64(p)+bytes; at += page {
		d.mu.memory.Insert(extent.Extent{Addr: at, Size: page, Owner: owner})
	}
	return nil
}

// Unmap takes pages out of a range, after waiting for the work that is on the streams: it may still use them.
func (d *Device) Unmap(p device.Ptr, bytes uint64) error {
	d = d.orAbsent()
	const call = "Unmap"
	if d.closed.Load() {
		return d.fail(call, device.ErrClosed, "address %#x", uintptr(p))
	}
	d.quiesce()
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.reserved(uint64(p), bytes)
	if !found || d.mu.memory.Within(uint64(p), bytes) == nil {
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x are not whole pages that were mapped", bytes, uintptr(p))
	}
	if err := osmem.Decommit(uintptr(p), bytes); err != nil {
		return d.fail(call, device.ErrInvalidValue, "address %#x: %v", uintptr(p), err)
	}
	d.mu.memory.RemoveWithin(uint64(p), bytes)
	return nil
}

// reserved returns the address of the range in which [p, p+n) lies. There are few ranges. The caller holds d.mu.
func (d *Device) reserved(p, n uint64) (uint64, bool) {
	for start, size := range d.mu.ranges {
		if p >= start && p-start <= size && n <= size-(p-start) {
			return start, true
		}
	}
	return 0, false
}
