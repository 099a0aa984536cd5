package sim

import (
	"context"

	"github.com/cistern-ml/cistern/device"
)

// event is a position on a stream. Its fields are guarded by the device's lock.
type event struct {
	device *Device
	on     *stream // nil: never recorded
	at     uint64
	closed bool
}

// Done reports whether the work that the event stands for has finished.
func (e *event) Done() (bool, error) {
	d := e.device
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallEventQuery, Segment: none}
	if err := e.open(c.Kind); err != nil {
		return false, err
	}
	if !d.begin(&c) {
		return false, d.end(&c)
	}
	if e.on == nil {
		return true, d.end(&c)
	}
	c.Stream = e.on.id
	done := e.on.done >= e.at
	if !done {
		d.mu.calls.EventQueryNotReady++
	}
	return done, d.end(&c)
}

// Synchronize finishes that work and returns its error, if nobody was told yet.
func (e *event) Synchronize(ctx context.Context) error {
	d := e.device
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Call{Kind: CallEventSync, Segment: none}
	if err := e.open(c.Kind); err != nil {
		return err
	}
	if e.on != nil {
		c.Stream = e.on.id
	}
	if d.begin(&c) && e.on != nil {
		c.Err = e.on.await(ctx, c.Kind, e.at)
	}
	return d.end(&c)
}

// Close ends the event.
func (e *event) Close() error {
	d := e.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.closed || d.mu.closed {
		return nil
	}
	c := Call{Kind: CallEventClose, Segment: none}
	if d.begin(&c) {
		e.closed, e.on = true, nil
		d.mu.events--
	}
	return d.end(&c)
}

// open returns an error if the event or its device is closed. The caller holds the device's lock.
func (e *event) open(kind CallKind) error {
	if e.closed || e.device.mu.closed {
		return e.device.fail(kind, device.ErrClosed, "the event is closed")
	}
	return nil
}

// own returns e as an open event of this device. The caller holds d.mu.
func (d *Device) own(kind CallKind, e device.Event) (*event, error) {
	own, ok := e.(*event)
	if !ok || own == nil || own.device != d {
		return nil, d.fail(kind, device.ErrInvalidValue, "the event is not of this device")
	}
	return own, own.open(kind)
}
