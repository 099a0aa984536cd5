package host

import (
	"context"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// event is a position on a queue. Recording moves it; nobody keeps a reference to an event for longer than a call.
type event struct {
	device *Device
	mu     struct {
		sync.Mutex
		on     *queue // nil: never recorded, or recorded on the inline stream, and so complete
		at     uint64 // position on the queue
		closed bool
	}
}

// record makes e stand for everything up to position at of q, or for nothing if q is nil.
func (e *event) record(q *queue, at uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return e.device.fail("Record", device.ErrClosed, "the event is closed")
	}
	e.mu.on, e.mu.at = q, at
	return nil
}

// point is what e stands for.
func (e *event) point(call string) (*queue, uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed || e.device.closed.Load() {
		return nil, 0, e.device.fail(call, device.ErrClosed, "the event is closed")
	}
	return e.mu.on, e.mu.at, nil
}

// Done reports whether the work that the event stands for has finished.
func (e *event) Done() (bool, error) {
	q, at, err := e.point("Event.Done")
	if err != nil || q == nil {
		return err == nil, err
	}
	return q.finished(at), nil
}

// Synchronize waits for that work and returns its error, if nobody was told yet.
func (e *event) Synchronize(ctx context.Context) error {
	q, at, err := e.point("Event.Synchronize")
	if err != nil || q == nil {
		return err
	}
	if err := q.wait(ctx, at); err != nil {
		return e.device.fail("Event.Synchronize", err, "")
	}
	return q.take(at)
}

// Close ends the event. Streams that wait for what it stood for still do.
func (e *event) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.closed = true
	e.mu.on = nil
	return nil
}

// own returns e as an event of this device.
func (d *Device) own(call string, e device.Event) (*event, error) {
	own, ok := e.(*event)
	if !ok || own == nil || own.device != d {
		return nil, d.fail(call, device.ErrInvalidValue, "the event is not of this device")
	}
	return own, nil
}
