package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Alias maps a page a second time. Each mapping has a reference to the page's memory of its own, which Unmap releases, so nobody counts them.
func (d *Device) Alias(p, of device.Ptr) error {
	d = d.orAbsent()
	const call = "Alias"
	b, err := d.begin(call) // for its checks; the device does not end before the books are right
	if err != nil {
		return err
	}
	defer b.Release()
	if !d.library.Has(driver.MemRetainAllocationHandle) {
		return d.fail(call, device.ErrUnavailable, "the driver has no cuMemRetainAllocationHandle")
	}
	d.mu.Lock()
	e, found := d.mu.pages.Get(uint64(of))
	d.mu.Unlock()
	if !found || e.Tag == 0 { // not there, or still being mapped
		return d.fail(call, device.ErrInvalidValue, "no page is mapped at address %#x", uintptr(of))
	}
	if uint64(p)%d.granularity != 0 {
		return d.fail(call, device.ErrInvalidValue, "address %#x is not a multiple of a page's size, %d bytes", uintptr(p), d.granularity)
	}
	if err := d.dropOrphans(); err != nil {
		return err
	}
	d.mapping.RLock() // as in Map
	defer d.mapping.RUnlock()
	owner, err := d.claim(call, p, e.Size, e.Size)
	if err != nil {
		return err
	}
	pages, err := d.retainPage(uint64(p), uint64(of), e.Size)
	if err == nil {
		err = d.mapPages(pages)
	}
	if err == nil {
		err = d.allowAccess(p, e.Size, d)
	}
	if err != nil {
		d.discard(pages)
		pages = nil
	}
	d.settleClaim(owner, uint64(p), e.Size, e.Size, pages)
	return err
}

// retainPage takes another reference to the memory behind an address, to be mapped at p.
func (d *Device) retainPage(p, of, size uint64) ([]*page, error) {
	b, err := d.begin("Alias")
	if err != nil {
		return nil, err
	}
	defer b.Release()
	b.Add(driver.MemRetainAllocationHandle, b.Out(0), uintptr(of))
	if f, r := b.Run(); r != driver.Success {
		return nil, d.failed(f, r, "address %#x", uintptr(of))
	}
	return []*page{{addr: p, size: size, handle: b.Value(0)}}, nil
}
