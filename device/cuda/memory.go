package cuda

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Malloc takes memory from the driver, which may wait for the device's work before. That, and the page tables, make it dear: package
// memory asks seldom, for large pieces.
func (d *Device) Malloc(bytes uint64) (device.Ptr, error) {
	d = d.orAbsent()
	const call = "Malloc"
	b, err := d.begin(call)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	if bytes == 0 {
		return 0, d.fail(call, device.ErrInvalidValue, "0 bytes")
	}
	if beyondSense(bytes) {
		return 0, d.fail(call, device.ErrOutOfMemory, "%d bytes wanted", bytes)
	}
	b.Add(driver.MemAlloc, b.Out(0), uintptr(bytes))
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "%d bytes wanted", bytes)
	}
	p := device.Ptr(b.Value(0))
	d.keepMemory(p, bytes)
	return p, nil
}

// beyondSense reports whether no address space holds so many bytes. Drivers are not asked for them: some say that the value is
// invalid, not that there is no memory.
func beyondSense(bytes uint64) bool { return bytes >= 1<<48 }

// Free gives memory back. The driver waits for the work that uses it.
func (d *Device) Free(p device.Ptr) error {
	d = d.orAbsent()
	const call = "Free"
	b, err := d.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	bytes, ok := d.forgetMemory(p) // of two that free the same, one gets this far
	if !ok {
		return d.fail(call, device.ErrInvalidValue, "address %#x was not returned by Malloc or is freed", uintptr(p))
	}
	b.Add(driver.MemFree, uintptr(p))
	if f, r := b.Run(); r != driver.Success {
		d.keepMemory(p, bytes)
		return d.failed(f, r, "address %#x, %d bytes", uintptr(p), bytes)
	}
	return nil
}

// keepMemory notes an allocation. It is taken off the books before the driver has it back, so that the driver can give the
// address out anew at any moment.
func (d *Device) keepMemory(p device.Ptr, bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.memory[p] = bytes
}

func (d *Device) forgetMemory(p device.Ptr) (bytes uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bytes, ok = d.mu.memory[p]
	delete(d.mu.memory, p)
	return bytes, ok
}

// MemInfo returns the driver's numbers: what all processes together left.
func (d *Device) MemInfo() (device.MemInfo, error) {
	d = d.orAbsent()
	b, err := d.begin("MemInfo")
	if err != nil {
		return device.MemInfo{}, err
	}
	defer b.Release()
	b.Add(driver.MemGetInfo, b.Out(0), b.Out(1))
	if f, r := b.Run(); r != driver.Success {
		return device.MemInfo{}, d.failed(f, r, "")
	}
	total := d.properties.TotalMemory // the driver's own number here is the same, or smaller by what it keeps for itself
	return device.MemInfo{Free: min(b.Value(0), total), Total: total}, nil
}

// check returns an error if [p, p+n) cannot be device memory.
func (d *Device) check(call string, p device.Ptr, n uint64) error {
	if n > 0 && (p == 0 || uint64(p)+n < n) { // the end wraps around
		return d.fail(call, device.ErrInvalidValue, "%d bytes at address %#x", n, uintptr(p))
	}
	return nil
}
