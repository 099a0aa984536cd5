package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
)

// Unmap gives pages back, in the order of their addresses. Unlike cuMemFree, cuMemUnmap does not wait for the work that uses
// the memory, so this does. It stops at the first page that the driver refuses; that and those behind it stay mapped.
func (d *Device) Unmap(p device.Ptr, bytes uint64) error {
	d = d.orAbsent()
	const call = "Unmap"
	b, err := d.begin(call) // the device does not end before the books are right
	if err != nil {
		return err
	}
	defer b.Release()
	if err := d.waitForAll(call); err != nil { // refused while a stream is captured, whose work may use the memory later
		return err
	}
	if err := d.dropOrphans(); err != nil {
		return err
	}
	pages := d.takePages(p, bytes)
	if pages == nil { // also if another Unmap of the range has come first
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x are not whole pages that were mapped", bytes, uintptr(p))
	}
	for i, e := range pages {
		err := d.dropPage(page{addr: e.Addr, size: e.Size, handle: uint64(e.Tag), mapped: true})
		if err != nil {
			d.putBack(pages[i:])
			return err
		}
	}
	return nil
}

// takePages takes the pages that a range consists of off the books, or returns nil.
func (d *Device) takePages(p device.Ptr, bytes uint64) []extent.Extent {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.mu.pages.Within(uint64(p), bytes)
	if len(found) == 0 {
		return nil
	}
	for _, e := range found {
		if e.Tag == 0 { // still being mapped
			return nil
		}
	}
	pages := append([]extent.Extent(nil), found...)
	d.mu.pages.RemoveWithin(uint64(p), bytes)
	return pages
}

func (d *Device) putBack(pages []extent.Extent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range pages {
		d.mu.pages.Insert(e)
	}
}

// dropPage unmaps a page and gives its memory back. It fails if it cannot be unmapped. If only the memory cannot be given
// back, the page becomes an orphan, which is tried again later.
func (d *Device) dropPage(q page) error {
	// In this order a failure leaves the page mapped, or an orphan without an address, and nothing else. The driver would take a release
	// of mapped memory, and give it back with its last mapping.
	if q.mapped {
		if err := d.call("Unmap", driver.MemUnmap, uintptr(q.addr), uintptr(q.size)); err != nil {
			return err
		}
		q.mapped = false
	}
	if err := d.call("Unmap", driver.MemRelease, uintptr(q.handle)); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mu.orphans = append(d.mu.orphans, q)
	}
	return nil
}

// discard gives pages of a Map that failed back, as far as the driver lets it; the others become orphans.
func (d *Device) discard(pages []*page) {
	for _, q := range pages {
		if err := d.dropPage(*q); err != nil {
			d.mu.Lock()
			d.mu.orphans = append(d.mu.orphans, *q)
			d.mu.Unlock()
		}
	}
}

// dropOrphans tries to give back what the driver did not take the first time.
func (d *Device) dropOrphans() error {
	d.mu.Lock()
	orphans := d.mu.orphans
	d.mu.orphans = nil
	d.mu.Unlock()
	for i, q := range orphans { // dropPage may append to the list, which is empty now
		if err := d.dropPage(q); err != nil {
			d.mu.Lock()
			d.mu.orphans = append(d.mu.orphans, orphans[i:]...)
			d.mu.Unlock()
			return err
		}
	}
	return nil
}
