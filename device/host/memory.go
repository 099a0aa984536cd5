package host

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/extent"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// Bytes is device memory as a slice, for kernels that run on the processor. The memory must be live, and the work that uses
// the slice must be on a stream of the device or ordered with it by the caller. It does not allocate.
func Bytes(p device.Ptr, n uint64) []byte { return osmem.Bytes(uintptr(p), n) }

// Malloc maps bytes, rounded up to whole pages, of zeroed memory.
func (d *Device) Malloc(bytes uint64) (device.Ptr, error) {
	d = d.orAbsent()
	const call = "Malloc"
	if d.closed.Load() {
		return 0, d.fail(call, device.ErrClosed, "%d bytes", bytes)
	}
	if bytes == 0 {
		return 0, d.fail(call, device.ErrInvalidValue, "0 bytes")
	}
	size := osmem.RoundUp(bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if size == 0 || size > d.free() {
		return 0, d.outOfMemory(call, bytes)
	}
	p, err := osmem.Alloc(size)
	if err != nil {
		return 0, d.refused(call, bytes, err)
	}
	d.mu.memory.Insert(extent.Extent{Addr: uint64(p), Size: size, Owner: uint64(p)})
	return device.Ptr(p), nil
}

// Free unmaps what Malloc returned, after waiting for the work that is on the streams: it may still use the memory.
func (d *Device) Free(p device.Ptr) error {
	d = d.orAbsent()
	const call = "Free"
	if d.closed.Load() {
		return d.fail(call, device.ErrClosed, "address %#x", uintptr(p))
	}
	d.quiesce()
	d.mu.Lock()
	defer d.mu.Unlock()
	e, found := d.mu.memory.Get(uint64(p))
	if !found || e.Owner != e.Addr || d.mu.ranges[e.Owner] != 0 {
		return d.fail(call, device.ErrInvalidValue, "address %#x was not returned by Malloc or is freed", uintptr(p))
	}
	d.mu.memory.Remove(e.Addr)
	if err := osmem.Free(uintptr(e.Addr), e.Size); err != nil {
		return d.fail(call, device.ErrInvalidValue, "address %#x: %v", uintptr(p), err)
	}
	return nil
}

// MemInfo returns the capacity and what of it this device has not mapped.
func (d *Device) MemInfo() (device.MemInfo, error) {
	d = d.orAbsent()
	if d.closed.Load() {
		return device.MemInfo{}, d.fail("MemInfo", device.ErrClosed, "")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return device.MemInfo{Free: d.free(), Total: d.capacity}, nil
}

// Live returns how many allocations, reserved ranges, mapped pages and pinned pieces were handed out and not given back, and
// how many bytes of memory are behind them: evidence for tests that look for leaks.
func (d *Device) Live() (count int, bytes uint64) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.mu.pinned {
		bytes += n
	}
	return d.mu.memory.Len() + len(d.mu.ranges) + len(d.mu.pinned), bytes + d.mu.memory.Bytes()
}

// free is what may still be mapped. The caller holds d.mu.
func (d *Device) free() uint64 { return d.capacity - d.mu.memory.Bytes() }

// outOfMemory is the error of a call for which the capacity does not suffice. The caller holds d.mu.
func (d *Device) outOfMemory(call string, bytes uint64) error {
	return d.fail(call, device.ErrOutOfMemory, "%d bytes wanted, %d of %d free", bytes, d.free(), d.capacity)
}

// refused is the error of a call for which the capacity suffices and the operating system's memory does not.
func (d *Device) refused(call string, bytes uint64, cause error) error {
	return d.fail(call, device.ErrOutOfMemory, "%d bytes wanted, refused by the operating system: %v", bytes, cause)
}

// check returns an error if [p, p+n) cannot be live memory. Without CheckBounds it sees only what costs nothing to see.
func (d *Device) check(call string, p device.Ptr, n uint64) error {
	if n == 0 {
		return nil
	}
	if p == 0 || n > math.MaxInt || uint64(p)+n < n { // nothing in Go is larger than an int
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x", n, uintptr(p))
	}
	if !d.checkBounds || d.closed.Load() { // what is closed is refused with a better reason further on
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mu.memory.Covers(uint64(p), n) {
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x reach outside live memory", n, uintptr(p))
	}
	return nil
}

// checkCopy is check for the two ranges of a copy within the device, which must not overlap.
func (d *Device) checkCopy(dst, src device.Ptr, n uint64) error {
	if err := d.check("Copy", dst, n); err != nil {
		return err
	}
	if err := d.check("Copy", src, n); err != nil {
		return err
	}
	if dst < src.Add(n) && src < dst.Add(n) && n > 0 {
		return d.fail("Copy", device.ErrInvalidValue, "%d bytes from address %#x to %#x overlap", n, uintptr(src), uintptr(dst))
	}
	return nil
}

// releaseAll gives all memory back to the operating system and returns its first complaint.
func (d *Device) releaseAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = d.fail("Close", device.ErrInvalidValue, "%v", err)
		}
	}
	for _, e := range d.mu.memory.All() {
		if d.mu.ranges[e.Owner] == 0 { // pages go with their range
			note(osmem.Free(uintptr(e.Addr), e.Size))
		}
	}
	for p, n := range d.mu.ranges {
		note(osmem.Release(uintptr(p), n))
	}
	for p, n := range d.mu.pinned {
		note(osmem.Free(uintptr(p), n))
	}
	d.mu.memory = extent.Set{}
	clear(d.mu.ranges)
	clear(d.mu.pinned)
	return first
}
