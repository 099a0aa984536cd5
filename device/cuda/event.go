package cuda

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Event is a point in the work of a stream. Its methods make no Go heap allocation unless they fail.
type Event struct {
	device  *Device
	handle  uintptr // the driver's CUevent
	timing  bool    // it notes when it happens
	closed  atomic.Bool
	waiters sync.WaitGroup // goroutines in the driver whose caller's ctx ended; Close waits for them

	// Where it was recorded last: to know what has succeeded when the event has, and its place in a capture if it is part of
	// one. A goroutine that looks while another records sees the one place or the other, or the new stream with the old
	// position; the names in an error are then a little more or fewer.
	on   atomic.Pointer[Stream]
	at   atomic.Uint64
	mark atomic.Pointer[captureMark]
}

// NewEvent returns an event without a clock, which is the cheaper kind: the device writes no time.
func (d *Device) NewEvent() (device.Event, error) {
	d = d.orAbsent()
	e, err := d.newEvent(driver.EventDisableTiming)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// NewTimingEvent returns an event that notes when it happens; see Elapsed.
func (d *Device) NewTimingEvent() (*Event, error) { return d.orAbsent().newEvent(0) }

func (d *Device) newEvent(flags uintptr) (*Event, error) {
	b, err := d.begin("NewEvent")
	if err != nil {
		return nil, err
	}
	defer b.Release()
	b.Add(driver.EventCreate, b.Out(0), flags)
	if f, r := b.Run(); r != driver.Success {
		return nil, d.failed(f, r, "")
	}
	e := &Event{device: d, handle: uintptr(b.Value(0)), timing: flags == 0}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.events[e] = struct{}{}
	return e, nil
}

// Record makes e stand for what is on the stream.
func (s *Stream) Record(e device.Event) error {
	const call = "Record"
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	own, ok := e.(*Event)
	if !ok || own == nil || own.device != s.device { // the driver records an event on streams of its own context; any may wait for it
		return s.device.wrongDevice(call, "event")
	}
	if own.closed.Load() {
		return s.device.fail(call, device.ErrClosed, "the event is closed")
	}
	// Before the call: the event is behind all that is noted by now. What somebody else enqueues meanwhile may be behind the event.
	at := s.work.position()
	mark := s.markAt(at)
	b.Add(driver.EventRecord, own.handle, s.handle)
	if f, r := b.Run(); r != driver.Success {
		return s.device.failed(f, r, "stream %d", s.id)
	}
	own.on.Store(s) // now that the driver has it: until then the event stands for what it stood for
	own.at.Store(at)
	own.mark.Store(mark)
	return nil
}

// Wait makes the stream wait for e, which may be of another CUDA device. An event that was recorded in a capture draws the
// stream into it.
func (s *Stream) Wait(e device.Event) error {
	const call = "Wait"
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	own, ok := e.(*Event)
	if !ok || own == nil || own.device.system != s.device.system {
		return s.device.wrongDevice(call, "event")
	}
	if own.closed.Load() {
		return s.device.fail(call, device.ErrClosed, "the event is closed")
	}
	// To wait for an event of a capture makes the stream part of it. That is BeginCapture for this stream, and takes the same locks in
	// the same order. Other events cost no lock.
	m := own.mark.Load()
	if m != nil {
		s.looking.Lock()
		defer s.looking.Unlock()
		s.device.waiting.Lock()
		defer s.device.waiting.Unlock()
	}
	// The wait is for what the event stands for now; recording it again changes nothing. An event that was never recorded is no wait.
	b.Add(driver.StreamWaitEvent, s.handle, own.handle, 0)
	if f, r := b.Run(); r != driver.Success {
		return s.device.failed(f, r, "stream %d", s.id)
	}
	if m != nil {
		m.capture.join(s, m)
	}
	return nil
}

// begin is Device.begin for calls that ask for the event's state.
func (e *Event) begin(call string) (*driver.Batch, error) {
	b, err := e.device.begin(call)
	if err != nil {
		return nil, err
	}
	if err := e.unasked(call); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// unasked is why the driver must not be asked for the event's state: its handle may be another's by now, or the question would end a capture.
func (e *Event) unasked(call string) error {
	if e.closed.Load() {
		return e.device.fail(call, device.ErrClosed, "the event is closed")
	}
	if e.mark.Load() != nil {
		return e.device.fail(call, device.ErrInvalidValue,
			"the event was recorded in a capture, which runs nothing; record it again after the capture")
	}
	return nil
}

// Done asks the driver.
func (e *Event) Done() (bool, error) {
	b, err := e.begin("Event.Done")
	if err != nil {
		return false, err
	}
	defer b.Release()
	on, at := e.on.Load(), e.at.Load() // before the question: what is recorded after the answer is not done
	b.Add(driver.EventQuery, e.handle)
	f, r := b.Run()
	switch {
	case r == driver.NotReady:
		return false, nil
	case r != driver.Success:
		return false, e.device.failed(f, r, "")
	}
	if on != nil {
		on.work.settle(at)
	}
	return true, nil
}

// Synchronize waits for the event. If ctx ends before that, the wait goes on in the background, and Close will wait for it.
func (e *Event) Synchronize(ctx context.Context) error {
	on := e.on.Load()
	if err := e.drain(ctx); err != nil || on == nil {
		return err
	}
	return on.work.take()
}

// drain is Synchronize that leaves what Stream.Fail has said to somebody else.
func (e *Event) drain(ctx context.Context) error {
	if ctx.Done() == nil {
		return e.synchronize()
	}
	return e.device.await(ctx, "Event.Synchronize", &e.waiters, e.Done, e.synchronize)
}

func (e *Event) synchronize() error {
	b, err := e.begin("Event.Synchronize")
	if err != nil {
		return err
	}
	defer b.Release()
	on, at := e.on.Load(), e.at.Load()
	b.Add(driver.EventSynchronize, e.handle)
	if f, r := b.Run(); r != driver.Success {
		return e.device.failed(f, r, "")
	}
	if on != nil {
		on.work.settle(at)
	}
	return e.device.waited()
}

// Elapsed returns the time from one timing event to another, with a resolution of about half a microsecond. Both must be done:
// else, and if one of them has no clock, it is an ErrInvalidValue.
func (e *Event) Elapsed(since *Event) (time.Duration, error) {
	const call = "Elapsed"
	if since == nil || since.device != e.device { // each device has a clock of its own
		return 0, e.device.wrongDevice(call, "event")
	}
	if !e.timing || !since.timing {
		return 0, e.device.fail(call, device.ErrInvalidValue, "an event was not made by NewTimingEvent")
	}
	b, err := e.begin(call)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	if err := since.unasked(call); err != nil {
		return 0, err
	}
	b.Add(driver.EventElapsedTime, b.Out(0), since.handle, e.handle)
	f, r := b.Run()
	if r == driver.NotReady {
		return 0, e.device.fail(call, device.ErrInvalidValue, "an event has not happened yet")
	}
	if r != driver.Success {
		return 0, e.device.failed(f, r, "")
	}
	return milliseconds(uint32(b.Value(0))), nil
}

// Close ends the event. Streams that wait for it still do.
func (e *Event) Close() error {
	if e.device.closed.Load() || e.closed.Swap(true) { // Close of the device destroys what is left
		return nil
	}
	e.waiters.Wait() // goroutines in the driver, with the handle: it does not count who uses one that is destroyed
	if err := e.device.call("Event.Close", driver.EventDestroy, e.handle); err != nil {
		e.closed.Store(!e.device.usable()) // it can be closed again, unless the context is lost
		return err
	}
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	delete(e.device.mu.events, e)
	return nil
}
