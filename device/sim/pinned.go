package sim

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// AllocPinned returns real, zeroed host memory: host memory is the one thing that a simulated device cannot leave out. It
// does not count against the capacity.
func (d *Device) AllocPinned(bytes uint64) ([]byte, error) {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallAllocPinned, Segment: none, Bytes: bytes}
	if err := d.open(c.Kind); err != nil {
		return nil, err
	}
	if !d.begin(&c) {
		return nil, d.end(&c)
	}
	size := osmem.RoundUp(bytes)
	switch {
	case bytes == 0:
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "0 bytes")
		return nil, d.end(&c)
	case size == 0:
		c.Err = d.fail(c.Kind, device.ErrOutOfMemory, "%d bytes wanted", bytes)
		return nil, d.end(&c)
	}
	p, err := osmem.Alloc(size)
	if err != nil {
		c.Err = d.fail(c.Kind, device.ErrOutOfMemory, "%d bytes wanted, refused by the operating system: %v", bytes, err)
		return nil, d.end(&c)
	}
	d.mu.pinned[p] = size
	return osmem.Bytes(p, bytes), d.end(&c)
}

// FreePinned gives back what AllocPinned returned.
func (d *Device) FreePinned(b []byte) error {
	d = d.orAbsent()
	d.mu.Lock()
	defer d.mu.Unlock()
	p := osmem.Address(b)
	c := Call{Kind: CallFreePinned, Segment: none, Bytes: uint64(len(b))}
	if err := d.open(c.Kind); err != nil {
		return err
	}
	if !d.begin(&c) {
		return d.end(&c)
	}
	size, found := d.mu.pinned[p]
	if !found {
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "address %#x was not returned by AllocPinned or is freed", p)
		return d.end(&c)
	}
	delete(d.mu.pinned, p)
	if err := osmem.Free(p, size); err != nil {
		c.Err = d.fail(c.Kind, device.ErrInvalidValue, "address %#x: %v", p, err)
	}
	return d.end(&c)
}

// freeAllPinned gives all pinned memory back. The caller holds d.mu.
func (d *Device) freeAllPinned() error {
	var first error
	for p, size := range d.mu.pinned {
		if err := osmem.Free(p, size); err != nil && first == nil {
			first = d.fail(CallFreePinned, device.ErrInvalidValue, "address %#x: %v", p, err)
		}
	}
	clear(d.mu.pinned)
	return first
}
