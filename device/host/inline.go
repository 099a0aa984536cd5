package host

import (
	"context"

	"github.com/cistern-ml/cistern/device"
)

// inline is the default stream: its work is done when the call that enqueues it returns.
type inline struct{ device *Device }

func (s *inline) ID() device.StreamID   { return 0 }
func (s *inline) Device() device.Device { return s.device }
func (s *inline) Mode() device.ExecMode { return device.ExecInline }

// Submit calls fn and returns its error.
func (s *inline) Submit(operation string, fn func() error) error {
	if err := s.open(operation); err != nil {
		return err
	}
	return call(s.device.id, operation, fn)
}

func (s *inline) CopyToDevice(dst device.Ptr, src []byte) error {
	if err := s.usable("CopyToDevice", dst, uint64(len(src))); err != nil {
		return err
	}
	copy(Bytes(dst, uint64(len(src))), src)
	return nil
}

func (s *inline) CopyToHost(dst []byte, src device.Ptr) error {
	if err := s.usable("CopyToHost", src, uint64(len(dst))); err != nil {
		return err
	}
	copy(dst, Bytes(src, uint64(len(dst))))
	return nil
}

func (s *inline) Copy(dst, src device.Ptr, n uint64) error {
	if err := s.open("Copy"); err != nil {
		return err
	}
	if err := s.device.checkCopy(dst, src, n); err != nil {
		return err
	}
	move(dst, src, n)
	return nil
}

func (s *inline) Fill(dst device.Ptr, value byte, n uint64) error {
	if err := s.usable("Fill", dst, n); err != nil {
		return err
	}
	fill(Bytes(dst, n), value)
	return nil
}

// Record makes e complete: all work on this stream is.
func (s *inline) Record(e device.Event) error {
	if err := s.open("Record"); err != nil {
		return err
	}
	own, err := s.device.own("Record", e)
	if err != nil {
		return err
	}
	return own.record(nil, 0)
}

// Wait blocks until the work of e is done: later work on this stream is whatever the caller does next. An error of that work
// is left to those who wait on its stream.
func (s *inline) Wait(e device.Event) error {
	if err := s.open("Wait"); err != nil {
		return err
	}
	own, err := s.device.own("Wait", e)
	if err != nil {
		return err
	}
	q, at, err := own.point("Wait")
	if err != nil || q == nil {
		return err
	}
	return q.wait(context.Background(), at)
}

func (s *inline) Done() (bool, error) {
	err := s.open("Stream.Done")
	return err == nil, err
}

func (s *inline) Synchronize(context.Context) error { return s.open("Stream.Synchronize") }

func (s *inline) Close() error {
	return s.device.fail("Stream.Close", device.ErrInvalidValue, "the default stream cannot be closed")
}

// Closed reports whether the device was closed.
func (s *inline) Closed() bool { return s.device.closed.Load() }

// open returns an error if the device is closed.
func (s *inline) open(call string) error {
	if s.device.closed.Load() {
		return s.device.fail(call, device.ErrClosed, "")
	}
	return nil
}

// usable returns an error if the device is closed or [p, p+n) cannot be its memory.
func (s *inline) usable(call string, p device.Ptr, n uint64) error {
	if err := s.open(call); err != nil {
		return err
	}
	return s.device.check(call, p, n)
}

// fill sets all of b to value. Copying what is already filled is as fast as memory is.
func fill(b []byte, value byte) {
	if value == 0 || len(b) == 0 {
		clear(b)
		return
	}
	b[0] = value
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
