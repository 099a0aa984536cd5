package cuda

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// peer returns another device of the same driver.
func (d *Device) peer(call string, other device.Device) (*Device, error) {
	p, ok := other.(*Device)
	if !ok || p == nil || p.system != d.system {
		return nil, d.fail(call, device.ErrInvalidValue, "the other device is not a CUDA device")
	}
	if !d.library.Has(driver.DeviceCanAccessPeer, driver.CtxEnablePeerAccess, driver.MemcpyPeerAsync) {
		return nil, d.fail(call, device.ErrUnavailable, "the driver has no peer functions")
	}
	return p, nil
}

// CanAccessPeer asks the driver. It makes no context.
func (d *Device) CanAccessPeer(other device.Device) (bool, error) {
	d = d.orAbsent()
	if d == absent {
		return false, noDevice("CanAccessPeer")
	}
	p, err := d.peer("CanAccessPeer", other)
	if err != nil {
		return false, err
	}
	b := d.library.Batch()
	defer b.Release()
	b.Add(driver.DeviceCanAccessPeer, b.Out(0), d.ordinal, p.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return false, d.failed(f, r, "%s", p.id)
	}
	return uint32(b.Value(0)) != 0, nil
}

// EnablePeerAccess lets d use the memory of another device: for all that cuMemAlloc returns the driver does that by itself;
// for pages it is done one by one, here for those that exist and in Map for those to come, and for the pool of AllocAsync once.
func (d *Device) EnablePeerAccess(other device.Device) error {
	d = d.orAbsent()
	const call = "EnablePeerAccess"
	p, err := d.peer(call, other)
	if err != nil {
		return err
	}
	can, err := d.CanAccessPeer(p)
	if err != nil {
		return err
	}
	if !can {
		return d.fail(call, device.ErrUnavailable, "the hardware has no way to the memory of %s", p.id)
	}
	if err := d.enablePeer(call, p); err != nil {
		return err
	}
	p.mapping.Lock() // no Map is at work, so all pages in the books are real
	defer p.mapping.Unlock()
	// A copy of the list: access is granted by driver calls, which are not made under p.mu. It stays true, as p.mapping is locked.
	p.mu.Lock()
	known, pages := slices.Contains(p.mu.peers, d), slices.Clone(p.mu.pages.All())
	p.mu.Unlock()
	if known {
		return nil
	}
	for _, e := range pages { // access is an attribute of mapped memory, not of contexts
		if err := p.allowAccess(device.Ptr(e.Addr), e.Size, d); err != nil {
			return err
		}
	}
	if err := p.openPool(d); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.peers = append(p.mu.peers, d)
	return nil
}

// openPool lets another device use what AllocAsync has returned and will return. Peer access of contexts does not reach into pools.
func (d *Device) openPool(to *Device) error {
	if !d.pools || !d.library.Has(driver.MemPoolSetAccess) {
		return nil
	}
	b, err := d.begin("EnablePeerAccess")
	if err != nil {
		return err
	}
	defer b.Release()
	// Not by defaultPool, which would make the pool keep what is freed, for programs that allocate nothing from it.
	b.Add(driver.DeviceGetDefaultMemPool, b.Out(0), d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return d.failed(f, r, "")
	}
	pool := uintptr(b.Value(0))
	b.Reset() // both calls name the device or the pool, and need no context
	b.Add(driver.MemPoolSetAccess, pool, driver.Keep(b, &driver.AccessDesc{
		LocationType: driver.LocationDevice, LocationID: int32(to.ordinal), Flags: driver.AccessReadWrite,
	}), 1)
	if f, r := b.Run(); r != driver.Success {
		return d.failed(f, r, "for %s", to.id)
	}
	return nil
}

func (d *Device) enablePeer(call string, p *Device) error {
	there, err := p.begin(call) // makes the peer's context, which the call below names
	if err != nil {
		return err
	}
	there.Release()
	b, err := d.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	// One way: d's context, the current one, may read and write the memory of p's. A second time is no mistake here, and another library
	// may have been first.
	b.Add(driver.CtxEnablePeerAccess, p.context.Load(), 0)
	if f, r := b.Run(); r != driver.Success && r != driver.PeerAccessAlreadyEnabled {
		return d.failed(f, r, "%s", p.id)
	}
	return nil
}

// CopyPeer copies from another device to this one. The driver finds the way, and handles memory of virtual ranges, which a
// plain copy cannot reach without access.
func (d *Device) CopyPeer(s device.Stream, dst device.Ptr, from device.Device, src device.Ptr, n uint64) error {
	d = d.orAbsent()
	const call = "CopyPeer"
	p, err := d.peer(call, from)
	if err != nil {
		return err
	}
	own, ok := s.(*Stream)
	if !ok || own == nil || own.device != d && own.device != p {
		return d.fail(call, device.ErrInvalidValue, "the stream is of neither device")
	}
	if err := join(d.check(call, dst, n), p.check(call, src, n)); err != nil {
		return err
	}
	for _, side := range []*Device{d, p} { // makes both contexts
		b, err := side.begin(call)
		if err != nil {
			return err
		}
		b.Release()
	}
	// On a stream of the source or of the destination; the call names both contexts, whichever is current.
	b, err := own.begin(call)
	if err != nil {
		return err
	}
	if n == 0 {
		b.Release()
		return nil
	}
	return own.enqueue(b, call, driver.MemcpyPeerAsync, uintptr(dst), d.context.Load(), uintptr(src), p.context.Load(), uintptr(n), own.handle)
}
