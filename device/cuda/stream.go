package cuda

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// Stream is a queue of work on a Device. Its methods make no Go heap allocation unless they fail, or a profile runs.
type Stream struct {
	device  *Device
	id      device.StreamID
	handle  uintptr // the driver's CUstream; 0 is its legacy default stream
	closed  atomic.Bool
	waiters sync.WaitGroup          // goroutines in the driver whose caller's ctx ended; dispose waits for them
	work    inflight                // what an error may be of
	staging staging                 // for copies from memory that is not pinned
	capture atomic.Pointer[capture] // that the stream is part of

	// looking is read-locked by what looks at the stream's progress, and locked by what makes the stream part of a capture, which
	// that would end. Taken before Device.waiting.
	looking sync.RWMutex

	// timing is held, while a profile runs, from an operation's first timing event to its last, so that nobody else's operation
	// comes between them. Taken after looking.
	timing sync.Mutex
}

// NewStream returns a new stream of normal priority.
func (d *Device) NewStream() (device.Stream, error) {
	d = d.orAbsent()
	s, err := d.NewStreamWithPriority(0)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// NewStreamWithPriority returns a new stream. Lower numbers have precedence, as with the driver; a number outside of what
// PriorityRange returns counts as the nearest inside. Waiting blocks of a stream with precedence start first; running blocks
// go on.
func (d *Device) NewStreamWithPriority(priority int) (*Stream, error) {
	d = d.orAbsent()
	b, err := d.begin("NewStream")
	if err != nil {
		return nil, err
	}
	defer b.Release()
	// Without StreamNonBlocking each operation on the default stream would wait for those on this one, and the other way round. The
	// priority is a C int: its 32 bits, not extended by its sign. The driver clamps it.
	b.Add(driver.StreamCreateWithPriority, b.Out(0), driver.StreamNonBlocking, uintptr(uint32(int32(priority))))
	if f, r := b.Run(); r != driver.Success {
		return nil, d.failed(f, r, "")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.lastStream++
	s := &Stream{device: d, id: d.mu.lastStream, handle: uintptr(b.Value(0))}
	d.mu.open[s] = struct{}{}
	return s, nil
}

// PriorityRange returns the priorities that streams can have, as in 0, -5: from the least precedence to the most.
func (d *Device) PriorityRange() (least, greatest int, err error) {
	d = d.orAbsent()
	b, err := d.begin("PriorityRange")
	if err != nil {
		return 0, 0, err
	}
	defer b.Release()
	b.Add(driver.CtxGetStreamPriorityRange, b.Out(0), b.Out(1))
	if f, r := b.Run(); r != driver.Success {
		return 0, 0, d.failed(f, r, "")
	}
	return int(int32(b.Value(0))), int(int32(b.Value(1))), nil
}

// ID is 0 for the default stream, and otherwise how many streams the device had made with this one.
func (s *Stream) ID() device.StreamID {
	if s == nil { // which is of no device, but allocators ask for the ID first
		return 0
	}
	return s.id
}

// Device returns the *Device.
func (s *Stream) Device() device.Device { return s.device }

// Handle is the driver's CUstream, for libraries that enqueue work on it. Note, called before, names that work in errors and
// counts it in the order of a capture.
func (s *Stream) Handle() uintptr { return s.handle }

// Note remembers an operation that somebody else is about to enqueue on the stream under its Handle, so that an error can name it,
// and so that CaptureMark knows of it.
func (s *Stream) Note(operation string) { s.work.note(operation) }

// Fail says that an operation which somebody else has enqueued on the stream has not done what it should, though the driver knows of no
// error: one that a library has given up. The next wait for the stream, for an event on it or for the device returns it as a LaunchError, as
// does Close. Only the first of several is kept for one wait.
func (s *Stream) Fail(operation string, cause error) {
	s.work.fail(device.LaunchError(s.device.id, operation, cause))
}

// begin is Device.begin for calls that concern the stream.
func (s *Stream) begin(call string) (*driver.Batch, error) {
	b, err := s.device.begin(call)
	if err != nil {
		return nil, err
	}
	if s.closed.Load() {
		b.Release()
		return nil, s.device.fail(call, device.ErrClosed, "stream %d", s.id)
	}
	return b, nil
}

// enqueue makes a call that enqueues an operation on the stream. It releases the batch.
func (s *Stream) enqueue(b *driver.Batch, operation string, f driver.Func, args ...uintptr) error {
	return s.enqueueFor(b, operation, "", f, args...)
}

// enqueueFor is enqueue that says what for, in profiles.
func (s *Stream) enqueueFor(b *driver.Batch, operation, what string, f driver.Func, args ...uintptr) error {
	defer b.Release()
	s.work.note(operation) // before it is there: a wait that begins in between must not settle a position that lacks it
	if s.device.profiler.Load() != nil {
		return s.enqueueTimed(b, operation, what, f, args...)
	}
	b.Add(f, args...)
	if f, r := b.Run(); r != driver.Success {
		return s.device.failed(f, r, "stream %d", s.id)
	}
	return nil
}

// enqueueTimed is enqueue while a profile runs. It does not release the batch.
func (s *Stream) enqueueTimed(b *driver.Batch, operation, what string, f driver.Func, args ...uintptr) error {
	t := s.time() // nil if it is not to be timed, for which all methods do nothing more than the call
	t.begin(b)
	b.Add(f, args...)
	t.end(b)
	failing, r := t.run(b) // one crossing: the time is the operation's, and not that of a goroutine switch
	if t != nil {
		t.operation = s.device.operation(operation, f, args)
		t.operation.For = what
	}
	t.finish(r == driver.Success)
	if r != driver.Success {
		return s.device.failed(failing, r, "stream %d", s.id)
	}
	return nil
}

// Copy copies within the device.
func (s *Stream) Copy(dst, src device.Ptr, n uint64) error {
	const call = "Copy"
	d := s.device
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	if err = d.checkCopy(call, dst, src, n); err != nil || n == 0 {
		b.Release()
		return err
	}
	return s.enqueue(b, call, driver.MemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(n), s.handle)
}

// checkCopy is check for the two ranges of a copy within the device, which must not overlap.
func (d *Device) checkCopy(call string, dst, src device.Ptr, n uint64) error {
	if err := d.check(call, dst, n); err != nil {
		return err
	}
	if err := d.check(call, src, n); err != nil {
		return err
	}
	// The driver takes overlapping ranges and leaves open what then is in them.
	if dst < src.Add(n) && src < dst.Add(n) && n > 0 {
		return d.fail(call, device.ErrInvalidValue, "%d bytes from address %#x to %#x overlap", n, uintptr(src), uintptr(dst))
	}
	return nil
}

// Fill sets bytes.
func (s *Stream) Fill(dst device.Ptr, value byte, n uint64) error {
	const call = "Fill"
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	if err = s.device.check(call, dst, n); err != nil || n == 0 {
		b.Release()
		return err
	}
	return s.enqueue(b, call, driver.MemsetD8Async, uintptr(dst), uintptr(value), uintptr(n), s.handle)
}

// Done asks the driver.
func (s *Stream) Done() (bool, error) {
	const call = "Stream.Done"
	s.looking.RLock()
	defer s.looking.RUnlock()
	if err := s.notCapturing(call); err != nil {
		return false, err
	}
	b, err := s.begin(call)
	if err != nil {
		return false, err
	}
	defer b.Release()
	at := s.work.position() // before the question: the answer need not cover what is enqueued while it is asked
	b.Add(driver.StreamQuery, s.handle)
	f, r := b.Run()
	switch {
	case r == driver.NotReady:
		return false, nil
	case r != driver.Success:
		return false, s.device.failed(f, r, "stream %d", s.id)
	}
	s.work.settle(at)
	return true, nil
}

// Synchronize waits for the work put here so far. If ctx ends before that, the wait goes on in the background, and Close will
// wait for it.
func (s *Stream) Synchronize(ctx context.Context) error {
	if err := s.drain(ctx); err != nil {
		return err
	}
	return s.work.take()
}

// drain is Synchronize that leaves what Fail has said to somebody else.
func (s *Stream) drain(ctx context.Context) error {
	if ctx.Done() == nil {
		return s.synchronize()
	}
	return s.device.await(ctx, "Stream.Synchronize", &s.waiters, s.Done, s.synchronize)
}

func (s *Stream) synchronize() error {
	const call = "Stream.Synchronize"
	s.looking.RLock() // until the wait is over, so that BeginCapture on this stream comes after it
	defer s.looking.RUnlock()
	if err := s.notCapturing(call); err != nil {
		return err
	}
	b, err := s.begin(call)
	if err != nil {
		return err
	}
	defer b.Release()
	at := s.work.position() // before the call: what is noted later need not be waited for
	b.Add(driver.StreamSynchronize, s.handle)
	if f, r := b.Run(); r != driver.Success {
		return s.device.failed(f, r, "stream %d", s.id)
	}
	s.work.settle(at)
	return s.device.waited()
}

// Close lets the work finish and ends the stream. If the driver refuses, the stream is as it was, unless the device is lost. An error that
// Fail has left is returned by a Close that has ended the stream.
func (s *Stream) Close() error {
	if s == &s.device.stream {
		return s.device.fail("Stream.Close", device.ErrInvalidValue, "the default stream is not the caller's to close")
	}
	if s.closed.Load() || s.device.closed.Load() {
		return nil
	}
	// The driver would let the work of a destroyed stream finish, but the staging memory is freed here, and an error of the work
	// would have nobody to be told to.
	if err := s.drain(context.Background()); err != nil && s.device.usable() {
		return err
	} else if err != nil { // the context is lost, and the stream with it
		s.closed.Store(true)
		return err
	}
	if err := s.dispose(); err != nil {
		return err
	}
	return s.work.take()
}

// Closed reports whether Close has ended the stream.
func (s *Stream) Closed() bool { return s.closed.Load() }

// dispose ends a stream whose work is done.
func (s *Stream) dispose() error {
	d := s.device
	s.waiters.Wait() // in the driver, with the handle
	if err := s.staging.release(d); err != nil {
		return err
	}
	if s.handle != 0 {
		if err := d.call("Stream.Close", driver.StreamDestroy, s.handle); err != nil {
			return err
		}
	}
	s.closed.Store(true) // only now: a stream that the driver did not take can be closed again
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.open, s)
	return nil
}
