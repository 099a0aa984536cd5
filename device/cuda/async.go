package cuda

import (
	"math"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// The driver's own stream-ordered allocator, cudaMallocAsync in the runtime's words. The device's default pool is used.

// StreamOrdered reports whether the device has such memory: a driver of CUDA 11.2 or newer that supports it.
func (d *Device) StreamOrdered() bool { return d.orAbsent().pools }

// AllocAsync takes memory for work on s, behind what is on it. It is not freed by Free but by FreeAsync. In a capture it becomes
// part of the graph: there is memory from the launch on, until the graph frees it, or FreeAsync after the launch, or the next
// launch. What was freed by FreeAsync after a launch, and made again by another launch, is freed with the graph's Close.
func (d *Device) AllocAsync(bytes uint64, s device.Stream) (device.Ptr, error) {
	d = d.orAbsent()
	const call = "AllocAsync"
	own, err := d.ownStream(call, s)
	if err != nil {
		return 0, err
	}
	if bytes == 0 {
		return 0, d.fail(call, device.ErrInvalidValue, "0 bytes")
	}
	if beyondSense(bytes) {
		return 0, d.fail(call, device.ErrOutOfMemory, "%d bytes wanted, stream %d", bytes, own.id)
	}
	if _, err := d.defaultPool(); err != nil {
		return 0, err
	}
	b, err := own.begin(call)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	// The address is good at once, for calls that enqueue work; the memory is, for that work, behind this place of the stream. Other
	// streams have to wait for an event.
	b.Add(driver.MemAllocAsync, b.Out(0), uintptr(bytes), own.handle)
	p, m, f, r := own.allocate(b)
	if r != driver.Success {
		return 0, d.failed(f, r, "%d bytes wanted, stream %d", bytes, own.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.async[p] = m
	return p, nil
}

// FreeAsync gives memory back when the work that is on s is done. Memory of a graph that no launch has made is an
// ErrInvalidValue; it is forgotten all the same.
func (d *Device) FreeAsync(p device.Ptr, s device.Stream) error {
	d = d.orAbsent()
	const call = "FreeAsync"
	own, err := d.ownStream(call, s)
	if err != nil {
		return err
	}
	b, err := own.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	// Before the driver has it back, which may give the address out anew to somebody else before this call returns.
	m, undo, err := d.forgetAsync(call, p, own.Capturing())
	if err != nil {
		return err
	}
	b.Add(driver.MemFreeAsync, uintptr(p), own.handle)
	if f, r := b.Run(); r != driver.Success { // the driver has kept it, so it is the caller's still
		d.mu.Lock()
		d.mu.async[p] = m
		if m != nil {
			*m = undo
		}
		d.mu.Unlock()
		return d.failed(f, r, "address %#x, stream %d", uintptr(p), own.id)
	}
	return nil
}

// forgetAsync takes memory off the books. undo is what its graph's entry was.
func (d *Device) forgetAsync(call string, p device.Ptr, capturing bool) (m *graphMemory, undo graphMemory, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.mu.async[p]
	if !ok {
		return nil, undo, d.fail(call, device.ErrInvalidValue, "address %#x was not returned by AllocAsync or is freed", uintptr(p))
	}
	delete(d.mu.async, p)
	if m == nil {
		return nil, undo, nil
	}
	undo = *m
	m.held, m.live = false, false
	// A capture may free what it allocated: both become nodes of the graph. Outside of it there is no memory before a launch.
	if !undo.live && !capturing {
		return nil, undo, d.fail(call, device.ErrInvalidValue, "address %#x belongs to a graph that was not launched", uintptr(p))
	}
	return m, undo, nil
}

// TrimPool gives memory of the pool that nobody uses back, down to keep bytes, and all that graphs have freed, which the driver
// keeps apart. What FreeAsync has given back counts from the next wait for its stream on: who wants all of it waits before.
func (d *Device) TrimPool(keep uint64) error {
	d = d.orAbsent()
	pool, err := d.defaultPool()
	if err != nil {
		return err
	}
	if err := d.call("TrimPool", driver.MemPoolTrimTo, pool, uintptr(keep)); err != nil || !d.library.Has(driver.DeviceGraphMemTrim) {
		return err
	}
	return d.call("TrimPool", driver.DeviceGraphMemTrim, d.ordinal)
}

// PoolUsage returns the pool's statistics.
func (d *Device) PoolUsage() (u device.PoolUsage, err error) {
	d = d.orAbsent()
	for _, want := range []struct {
		attribute uintptr
		to        *uint64
	}{
		{driver.PoolUsedCurrent, &u.Used}, {driver.PoolUsedHigh, &u.UsedPeak},
		{driver.PoolReservedCurrent, &u.Reserved}, {driver.PoolReservedHigh, &u.ReservedPeak},
	} {
		if err := d.poolAttribute("PoolUsage", driver.MemPoolGetAttribute, want.attribute, want.to); err != nil {
			return device.PoolUsage{}, err
		}
	}
	return u, nil
}

// ResetPoolPeaks sets the peaks to the current values.
func (d *Device) ResetPoolPeaks() error {
	d = d.orAbsent()
	for _, attribute := range []uintptr{driver.PoolUsedHigh, driver.PoolReservedHigh} {
		if err := d.poolAttribute("ResetPoolPeaks", driver.MemPoolSetAttribute, attribute, new(uint64)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) poolAttribute(call string, f driver.Func, attribute uintptr, value *uint64) error {
	pool, err := d.defaultPool()
	if err != nil {
		return err
	}
	b, err := d.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	b.Add(f, pool, attribute, driver.Keep(b, value))
	if f, r := b.Run(); r != driver.Success {
		return d.failed(f, r, "attribute %d", attribute)
	}
	return nil
}

// defaultPool returns the device's pool. The first call tells the driver to keep what is freed: by default it gives all
// memory back whenever somebody synchronises.
func (d *Device) defaultPool() (uintptr, error) {
	if pool := d.pool.Load(); pool != 0 {
		return pool, nil
	}
	const call = "StreamOrdered"
	if !d.pools {
		return 0, d.fail(call, device.ErrUnavailable, "the device or its driver has no stream-ordered memory")
	}
	b, err := d.begin(call)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	b.Add(driver.DeviceGetDefaultMemPool, b.Out(0), d.ordinal)
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "")
	}
	// The threshold is that of idle memory which a wait leaves in the pool. With the default, 0, each Synchronize would unmap what the next step asks for.
	pool, everything := uintptr(b.Value(0)), uint64(math.MaxUint64)
	b.Reset()
	b.Add(driver.CtxSetCurrent, d.context.Load()) // another crossing, perhaps on another thread
	b.Add(driver.MemPoolSetAttribute, pool, driver.PoolReleaseThreshold, driver.Keep(b, &everything))
	if f, r := b.Run(); r != driver.Success {
		return 0, d.failed(f, r, "")
	}
	d.pool.Store(pool) // two goroutines may both come here, with the same pool and the same wish
	return pool, nil
}

// ownStream returns s as a stream of this device.
func (d *Device) ownStream(call string, s device.Stream) (*Stream, error) {
	own, ok := s.(*Stream)
	if !ok || own == nil || own.device != d {
		return nil, d.wrongDevice(call, "stream")
	}
	return own, nil
}
