package host

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// AllocPinned returns zeroed memory outside the Go heap. For this device no memory is better than other memory: the method is
// there so that code written for a GPU runs here. It does not count against the capacity.
func (d *Device) AllocPinned(bytes uint64) ([]byte, error) {
	d = d.orAbsent()
	const call = "AllocPinned"
	if d.closed.Load() {
		return nil, d.fail(call, device.ErrClosed, "%d bytes", bytes)
	}
	if bytes == 0 {
		return nil, d.fail(call, device.ErrInvalidValue, "0 bytes")
	}
	size := osmem.RoundUp(bytes)
	if size == 0 {
		return nil, d.fail(call, device.ErrOutOfMemory, "%d bytes wanted", bytes)
	}
	p, err := osmem.Alloc(size)
	if err != nil {
		return nil, d.refused(call, bytes, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.pinned[uint64(p)] = size
	return osmem.Bytes(p, bytes), nil
}

// FreePinned gives back what AllocPinned returned.
func (d *Device) FreePinned(b []byte) error {
	d = d.orAbsent()
	const call = "FreePinned"
	if d.closed.Load() {
		return d.fail(call, device.ErrClosed, "")
	}
	p := osmem.Address(b)
	d.quiesce()
	d.mu.Lock()
	defer d.mu.Unlock()
	size, found := d.mu.pinned[uint64(p)]
	if !found {
		return d.fail(call, device.ErrInvalidValue, "address %#x was not returned by AllocPinned or is freed", p)
	}
	delete(d.mu.pinned, uint64(p))
	if err := osmem.Free(p, size); err != nil {
		return d.fail(call, device.ErrInvalidValue, "address %#x: %v", p, err)
	}
	return nil
}
