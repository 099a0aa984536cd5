package memory

import (
	"context"

	"github.com/cistern-ml/cistern/device"
)

// ledgerDevice is a device that only keeps accounts: it has as much memory as it is told and virtual memory of the given granularity, and
// neither content nor time. A recorded program can run on it again in microseconds (rehearsal.go). It is one goroutine's.
type ledgerDevice struct {
	device.Device // nil: what an allocator does not call is missing

	id          device.ID
	capacity    uint64 // bytes that can be had
	total       uint64 // bytes that the device says it has
	granularity uint64 // of virtual memory; 0 if it has none
	used        uint64
	next        device.Ptr
	sizes       map[device.Ptr]uint64 // of what Malloc gave
}

func newLedgerDevice(id device.ID, capacity, total, granularity uint64) *ledgerDevice {
	return &ledgerDevice{id: id, capacity: capacity, total: total, granularity: granularity, next: 1 << 40, sizes: map[device.Ptr]uint64{}}
}

// take counts bytes that are asked for.
func (d *ledgerDevice) take(bytes uint64) error {
	if bytes > d.capacity-d.used {
		return &device.Error{Device: d.id, Call: "Malloc", Err: device.ErrOutOfMemory}
	}
	d.used += bytes
	return nil
}

// addresses hands out a range that nobody else has.
func (d *ledgerDevice) addresses(bytes uint64) device.Ptr {
	p := d.next
	d.next = d.next.Add(roundUp(bytes, 1<<30))
	return p
}

func (d *ledgerDevice) ID() device.ID { return d.id }

func (d *ledgerDevice) Malloc(bytes uint64) (device.Ptr, error) {
	if err := d.take(bytes); err != nil {
		return 0, err
	}
	p := d.addresses(bytes)
	d.sizes[p] = bytes
	return p, nil
}

func (d *ledgerDevice) Free(p device.Ptr) error {
	d.used -= d.sizes[p]
	delete(d.sizes, p)
	return nil
}

func (d *ledgerDevice) MemInfo() (device.MemInfo, error) {
	return device.MemInfo{Free: d.capacity - d.used, Total: d.total}, nil
}

func (d *ledgerDevice) NewEvent() (device.Event, error) { return &ledgerEvent{}, nil }

func (d *ledgerDevice) Granularity() uint64 { return d.granularity }

func (d *ledgerDevice) Reserve(bytes uint64) (device.Ptr, error) { return d.addresses(bytes), nil }

func (d *ledgerDevice) Unreserve(device.Ptr) error { return nil }

func (d *ledgerDevice) Map(_ device.Ptr, bytes, _ uint64) error { return d.take(bytes) }

func (d *ledgerDevice) Unmap(_ device.Ptr, bytes uint64) error {
	d.used -= bytes
	return nil
}

// ledgerStream is a stream whose work is over when somebody says so, or waits for it.
type ledgerStream struct {
	device.Stream // nil

	dev  *ledgerDevice
	id   device.StreamID
	done bool
}

func (s *ledgerStream) ID() device.StreamID   { return s.id }
func (s *ledgerStream) Device() device.Device { return s.dev }
func (s *ledgerStream) Done() (bool, error)   { return s.done, nil }

func (s *ledgerStream) Synchronize(context.Context) error {
	s.done = true
	return nil
}

func (s *ledgerStream) Record(e device.Event) error {
	e.(*ledgerEvent).of = s
	return nil
}

// ledgerEvent is complete when the work of its stream is.
type ledgerEvent struct{ of *ledgerStream }

func (e *ledgerEvent) Done() (bool, error)                   { return e.of == nil || e.of.done, nil }
func (e *ledgerEvent) Synchronize(ctx context.Context) error { return e.of.Synchronize(ctx) }
func (e *ledgerEvent) Close() error                          { return nil }
