package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// page is a piece of physical memory, and where it is mapped.
type page struct {
	addr, size uint64
	handle     uint64 // of the physical memory, which has no address of its own
	mapped     bool
}

// pageProp says what pages are made of: pinned memory of this device.
func (d *Device) pageProp() *driver.AllocationProp {
	return &driver.AllocationProp{
		Type: driver.AllocationPinned, LocationType: driver.LocationDevice, LocationID: int32(d.ordinal),
	}
}

// askGranularity sets d.granularity. By its documentation the call needs no context, so none is made for it unless the driver wants
// one. A driver that does not answer then has no virtual memory for us, which nobody needs to have.
func (d *Device) askGranularity() {
	b := d.library.Batch()
	b.Add(driver.MemGetAllocationGranularity, b.Out(0), driver.Keep(b, d.pageProp()), driver.GranularityMinimum)
	_, r := b.Run()
	if r == driver.InvalidContext {
		b.Release()
		var err error
		if b, err = d.begin("Open"); err != nil {
			return
		}
		b.Add(driver.MemGetAllocationGranularity, b.Out(0), driver.Keep(b, d.pageProp()), driver.GranularityMinimum)
		_, r = b.Run()
	}
	if r == driver.Success {
		d.granularity = b.Value(0)
	}
	b.Release()
}

// Granularity is the smallest page, 2 MiB on today's GPUs, and 0 if this one has no virtual memory.
func (d *Device) Granularity() uint64 { return d.orAbsent().granularity }

// Reserve takes a range of addresses.
func (d *Device) Reserve(bytes uint64) (device.Ptr, error) {
	d = d.orAbsent()
	const call = "Reserve"
	b, err := d.begin(call)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	if d.granularity == 0 {
		return 0, d.fail(call, device.ErrUnavailable, "the device has no virtual memory")
	}
	if bytes == 0 || bytes%d.granularity != 0 {
		return 0, d.fail(call, device.ErrInvalidValue, "%d bytes are not whole pages of %d", bytes, d.granularity)
	}
	if beyondSense(bytes) {
		return 0, d.fail(call, device.ErrOutOfMemory, "%d bytes wanted", bytes)
	}
	// Addresses alone: no memory is taken, and the range may be larger than the device's. The zeros are the default
	// alignment, no wish for an address, and no flags.
	b.Add(driver.MemAddressReserve, b.Out(0), uintptr(bytes), 0, 0, 0)
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "%d bytes wanted", bytes)
	}
	p := device.Ptr(b.Value(0))
	d.keepRange(p, bytes)
	return p, nil
}

// Unreserve gives an empty range back.
func (d *Device) Unreserve(p device.Ptr) error {
	d = d.orAbsent()
	const call = "Unreserve"
	b, err := d.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	bytes, err := d.forgetRange(call, p)
	if err != nil {
		return err
	}
	b.Add(driver.MemAddressFree, uintptr(p), uintptr(bytes))
	if f, r := b.Run(); r != driver.Success {
		d.keepRange(p, bytes)
		return d.failed(f, r, "address %#x, %d bytes", uintptr(p), bytes)
	}
	return nil
}

func (d *Device) keepRange(p device.Ptr, bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.ranges[uint64(p)] = bytes
}

func (d *Device) forgetRange(call string, p device.Ptr) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes, found := d.mu.ranges[uint64(p)]
	if !found {
		return 0, d.fail(call, device.ErrInvalidValue, "address %#x was not returned by Reserve or is given back", uintptr(p))
	}
	if d.mu.pages.Overlaps(uint64(p), bytes) {
		return 0, d.fail(call, device.ErrInvalidValue, "the range at address %#x still has pages", uintptr(p))
	}
	delete(d.mu.ranges, uint64(p))
	return bytes, nil
}

// Map makes pages and puts them into a reserved range.
func (d *Device) Map(p device.Ptr, bytes, size uint64) error {
	d = d.orAbsent()
	const call = "Map"
	b, err := d.begin(call) // for its checks; the device does not end before the books are right
	if err != nil {
		return err
	}
	defer b.Release()
	g := d.granularity
	if g == 0 || bytes == 0 || size == 0 || size%g != 0 || bytes%size != 0 || uint64(p)%g != 0 {
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x are not whole pages of %d", bytes, uintptr(p), size)
	}
	if err := d.dropOrphans(); err != nil {
		return err
	}
	d.mapping.RLock() // no peer is added meanwhile, who would find the claim's pages, which do not exist yet, or miss the real ones
	defer d.mapping.RUnlock()
	owner, err := d.claim(call, p, bytes, size)
	if err != nil {
		return err
	}
	pages, err := d.makePages(uint64(p), bytes, size) // all of them before any is mapped: memory runs out here
	if err == nil {
		err = d.mapPages(pages)
	}
	if err == nil { // mapped memory is nobody's yet, not even the device's own: touching it would be an illegal address
		err = d.allowAccess(p, bytes, d)
	}
	if err != nil {
		d.discard(pages)
		pages = nil
	}
	d.settleClaim(owner, uint64(p), bytes, size, pages)
	return err
}

// claim checks that a range is reserved and free of pages, and fills it with pages that do not exist yet, so that nobody else
// maps there meanwhile. It returns the range's owner.
func (d *Device) claim(call string, p device.Ptr, bytes, size uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	owner, found := d.reserved(uint64(p), bytes)
	if !found || d.mu.pages.Overlaps(uint64(p), bytes) {
		return 0, d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x are not in a reserved range or have pages", bytes, uintptr(p))
	}
	for at := uint64(p); at < uint64(p)+bytes; at += size {
		d.mu.pages.Insert(extent.Extent{Addr: at, Size: size, Owner: owner})
	}
	return owner, nil
}

// settleClaim puts what was mapped in the place of what claim put there: all pages, or none.
func (d *Device) settleClaim(owner, p, bytes, size uint64, pages []*page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := p; at < p+bytes; at += size {
		d.mu.pages.Remove(at)
	}
	for _, q := range pages {
		d.mu.pages.Insert(extent.Extent{Addr: q.addr, Size: q.size, Owner: owner, Tag: int(q.handle)})
	}
}

// makePages takes pages from the driver; those that it got are returned with an error. Each is an allocation of its own: a mapping can
// only be undone as a whole, and pages are given back one by one.
func (d *Device) makePages(p, bytes, size uint64) ([]*page, error) {
	pages := make([]*page, 0, bytes/size)
	prop := d.pageProp()
	for at := p; at < p+bytes; at += size {
		b, err := d.begin("Map")
		if err != nil {
			return pages, err
		}
		b.Add(driver.MemCreate, b.Out(0), uintptr(size), driver.Keep(b, prop), 0) // a multiple of the granularity, as Map has seen
		f, r := b.Run()
		handle := b.Value(0)
		b.Release()
		if r != driver.Success {
			return pages, d.failed(f, r, "%d bytes wanted, page %d of %d", bytes, len(pages)+1, bytes/size)
		}
		pages = append(pages, &page{addr: at, size: size, handle: handle})
	}
	return pages, nil
}

// mapPages puts the pages behind their addresses.
func (d *Device) mapPages(pages []*page) error {
	for _, q := range pages {
		err := d.call("Map", driver.MemMap, uintptr(q.addr), uintptr(q.size), 0, uintptr(q.handle), 0)
		if err != nil {
			return err
		}
		q.mapped = true
	}
	return nil
}

// allowAccess lets a device, and all peers, use mapped memory of d.
func (d *Device) allowAccess(p device.Ptr, bytes uint64, to *Device) error {
	users := []*Device{to}
	if to == d {
		d.mu.Lock()
		users = append(users, d.mu.peers...)
		d.mu.Unlock()
	}
	for _, user := range users {
		b, err := d.begin("Map")
		if err != nil {
			return err
		}
		b.Add(driver.MemSetAccess, uintptr(p), uintptr(bytes), driver.Keep(b, &driver.AccessDesc{
			// One call for each device: access that others have is left as it is.
			LocationType: driver.LocationDevice, LocationID: int32(user.ordinal), Flags: driver.AccessReadWrite,
		}), 1)
		f, r := b.Run()
		b.Release()
		if r != driver.Success {
			return d.failed(f, r, "address %#x, %d bytes, for %s", uintptr(p), bytes, user.id)
		}
	}
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
