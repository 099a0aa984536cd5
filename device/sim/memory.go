package sim

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

const (
	alignment    = 2 * device.MiB // of segments
	quantum      = 512            // what allocations are rounded up to before they count against the capacity
	firstAddress = 1 << 40        // of segment 0: far from addresses that look like small numbers
	lastAddress  = 1 << 62        // where the address space that never ends does end

	none = -1 // Call.Segment of calls that concern no memory
)

// Malloc takes a new segment.
func (d *Device) Malloc(bytes uint64) (device.Ptr, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallMalloc, Segment: none, Bytes: bytes}
	if err := d.open(c.Kind); err != nil {
		return 0, err
	}
	if !d.begin(&c) {
		return 0, d.end(&c)
	}
	if bytes == 0 {
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "0 bytes")
		return 0, d.end(&c)
	}
	if c.Err = d.take(c.Kind, bytes); c.Err != nil {
		return 0, d.end(&c)
	}
	addr, segment := d.newSegment(bytes)
	d.mu.memory.Insert(extent.Extent{Addr: addr, Size: bytes, Owner: addr, Tag: segment})
	c.Segment = segment
	return device.Ptr(addr), d.end(&c)
}

// Free gives back what Malloc returned. It does not wait for streams: work that is not finished has no storage to spoil.
func (d *Device) Free(p device.Ptr) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallFree, Segment: none}
	if err := d.open(c.Kind); err != nil {
		return err
	}
	e, found := d.mu.memory.Get(uint64(p))
	found = found && !d.isPage(e)
	if found {
		c.Segment, c.Bytes = e.Tag, e.Size
	}
	if !d.begin(&c) {
		return d.end(&c)
	}
	if !found {
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "address %#x was not returned by Malloc or is freed", uintptr(p))
		return d.end(&c)
	}
	d.mu.memory.Remove(e.Addr)
	d.give(e.Size)
	return d.end(&c)
}

// MemInfo returns the capacity and what of it is not taken.
func (d *Device) MemInfo() (device.MemInfo, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallMemInfo, Segment: none}
	if err := d.open(c.Kind); err != nil {
		return device.MemInfo{}, err
	}
	if !d.begin(&c) {
		return device.MemInfo{}, d.end(&c)
	}
	return device.MemInfo{Free: d.free(), Total: d.capacity}, d.end(&c)
}

// Occupy sets how much of the capacity other processes hold.
func (d *Device) Occupy(bytes uint64) {
	if d = d.orAbsent(); d == absent {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.occupied, d.mu.processes = bytes, nil
}

// Segment returns the number of the segment in which p lies, and p's offset in it. It is false for an address outside live
// allocations and reserved ranges.
func (d *Device) Segment(p device.Ptr) (number int, offset uint64, ok bool) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	e, found := d.mu.ranges.Find(uint64(p))
	if !found {
		e, found = d.mu.memory.Find(uint64(p))
	}
	if !found {
		return none, 0, false
	}
	return e.Tag, uint64(p) - e.Addr, true
}

// newSegment takes addresses and a number. The caller holds d.mu and has seen to it that there are addresses left.
func (d *Device) newSegment(bytes uint64) (addr uint64, number int) {
	addr, number = d.mu.next, d.mu.segments
	d.mu.next += roundUp(bytes, alignment)
	d.mu.segments++
	return addr, number
}

// take counts bytes against the capacity, or fails. The caller holds d.mu.
func (d *Device) take(kind CallKind, bytes uint64) error {
	if bytes > lastAddress-d.mu.next || roundUp(bytes, quantum) > d.free() {
		return d.fail(kind, device.ErrOutOfMemory, "%d bytes wanted, %d of %d free", bytes, d.free(), d.capacity)
	}
	d.mu.calls.BytesNow += roundUp(bytes, quantum)
	d.mu.calls.BytesPeak = max(d.mu.calls.BytesPeak, d.mu.calls.BytesNow)
	return nil
}

// give is the inverse of take. The caller holds d.mu.
func (d *Device) give(bytes uint64) { d.mu.calls.BytesNow -= roundUp(bytes, quantum) }

// free is what is left of the capacity. The caller holds d.mu.
func (d *Device) free() uint64 {
	used := d.mu.calls.BytesNow + d.mu.occupied
	return d.capacity - min(used, d.capacity)
}

// isPage reports whether e is a page in a reserved range, and not an allocation. The caller holds d.mu.
func (d *Device) isPage(e extent.Extent) bool {
	_, found := d.mu.ranges.Get(e.Owner)
	return found
}

// check fails a call for bytes that are not all in live memory. The caller holds d.mu.
func (d *Device) check(kind CallKind, p device.Ptr, n uint64) error {
	if d.mu.memory.Covers(uint64(p), n) {
		return nil
	}
	return d.fail(kind, device.ErrInvalidValue, "%d bytes at address %#x reach outside live memory", n, uintptr(p))
}

// roundUp rounds n up to a multiple of unit, a power of two. n is far from the largest number.
func roundUp(n, unit uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }
