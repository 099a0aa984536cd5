package cuda

import (
	"math"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/internal/extent"
	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// Pinned memory is pinned for all devices of the process. Its table belongs to the system; entries know by whom they were
// made, and whether the driver's or the caller's memory it is.
const (
	pinnedByDriver = iota
	pinnedByRegistration
)

// AllocPinned returns zeroed memory of the driver's. The driver may take it from a used page, so it is cleared here.
func (d *Device) AllocPinned(bytes uint64) ([]byte, error) {
	d = d.orAbsent()
	const call = "AllocPinned"
	b, err := d.begin(call)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	if bytes == 0 {
		return nil, d.fail(call, device.ErrInvalidValue, "0 bytes")
	}
	if beyondSense(bytes) {
		return nil, d.fail(call, device.ErrOutOfMemory, "%d bytes wanted", bytes)
	}
	// Portable: pinned for the contexts of all devices, those that are made later included. Else a copy by another device would be one
	// from pageable memory, which waits.
	b.Add(driver.MemHostAlloc, b.Out(0), uintptr(bytes), driver.HostAllocPortable)
	if f, r := b.Run(); r != driver.Success {
		return nil, d.failed(f, r, "%d bytes wanted", bytes)
	}
	address := uintptr(b.Value(0))
	d.system.pin(extent.Extent{Addr: uint64(address), Size: bytes, Owner: uint64(d.id.Index), Tag: pinnedByDriver})
	memory := osmem.Bytes(address, bytes)
	clear(memory)
	return memory, nil
}

// FreePinned gives back what AllocPinned of this device returned. Copies from and to it must be done.
func (d *Device) FreePinned(b []byte) error {
	d = d.orAbsent()
	return d.unpin("FreePinned", b, pinnedByDriver, driver.MemFreeHost)
}

// RegisterPinned pins memory that the caller has from the operating system, whole pages of it. Memory of the Go heap must not
// be given: the garbage collector may give it to others while the device still uses it.
func (d *Device) RegisterPinned(memory []byte) error {
	d = d.orAbsent()
	const call = "RegisterPinned"
	if len(memory) == 0 {
		return d.fail(call, device.ErrInvalidValue, "0 bytes")
	}
	address, n := osmem.Address(memory), uintptr(len(memory))
	if err := d.call(call, driver.MemHostRegister, address, n, driver.HostRegisterPortable); err != nil {
		return err
	}
	d.system.pin(extent.Extent{Addr: uint64(address), Size: uint64(n), Owner: uint64(d.id.Index), Tag: pinnedByRegistration})
	return nil
}

// UnregisterPinned undoes RegisterPinned, for the same slice.
func (d *Device) UnregisterPinned(memory []byte) error {
	d = d.orAbsent()
	return d.unpin("UnregisterPinned", memory, pinnedByRegistration, driver.MemHostUnregister)
}

// unpin takes memory off the table and lets the driver have it.
func (d *Device) unpin(call string, memory []byte, how int, f driver.Func) error {
	b, err := d.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	address := osmem.Address(memory)
	e, ok := d.system.unpin(uint64(address), how) // before the driver has it, which may give it out anew at once
	if !ok {
		return d.fail(call, device.ErrInvalidValue, "address %#x is not the first of such memory, or was given back", address)
	}
	b.Add(f, address)
	if f, r := b.Run(); r != driver.Success {
		d.system.pin(e)
		return d.failed(f, r, "address %#x, %d bytes", address, e.Size)
	}
	return nil
}

func (s *system) pin(e extent.Extent) {
	s.pinnedMu.Lock()
	defer s.pinnedMu.Unlock()
	s.pinned.Insert(e)
}

func (s *system) unpin(address uint64, how int) (extent.Extent, bool) {
	s.pinnedMu.Lock()
	defer s.pinnedMu.Unlock()
	if e, ok := s.pinned.Get(address); !ok || e.Tag != how {
		return extent.Extent{}, false
	}
	return s.pinned.Remove(address)
}

// isPinned reports whether all of b is in one piece of pinned memory.
func (s *system) isPinned(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	address := uint64(osmem.Address(b))
	s.pinnedMu.Lock()
	defer s.pinnedMu.Unlock()
	e, ok := s.pinned.Find(address) // a slice of it will do; one over two neighbours would not be one piece for the driver
	return ok && uint64(len(b)) <= e.End()-address
}

// releasePinned gives back what the device pinned and nobody gave back. It is part of the device's end.
func (d *Device) releasePinned() (first error) {
	d.system.pinnedMu.Lock()
	var mine []extent.Extent
	for _, e := range d.system.pinned.All() {
		if e.Owner == uint64(d.id.Index) {
			mine = append(mine, e)
		}
	}
	for _, e := range mine {
		d.system.pinned.Remove(e.Addr)
	}
	d.system.pinnedMu.Unlock() // the table is everybody's: no driver call under its lock
	for _, e := range mine {
		f := driver.MemFreeHost
		if e.Tag == pinnedByRegistration {
			f = driver.MemHostUnregister
		}
		if err := d.last(f, uintptr(e.Addr)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// milliseconds is the driver's unit of time, a float32, from its bits.
func milliseconds(bits uint32) time.Duration {
	return time.Duration(float64(math.Float32frombits(bits)) * float64(time.Millisecond))
}
