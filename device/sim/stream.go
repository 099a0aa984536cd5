package sim

import (
	"context"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/internal/failures"
)

// stream counts what is enqueued on it. Work has positions 1, 2, 3, ...; all up to done are finished. The fields below id are
// guarded by the device's lock.
type stream struct {
	device *Device
	id     device.StreamID

	put    uint64
	done   uint64
	waits  []dependency // unfinished ones, by position
	failed failures.List
	closed atomic.Bool // written under the lock
}

// dependency is a position that cannot be finished before stream on has come to position upTo.
type dependency struct {
	at   uint64
	on   *stream
	upTo uint64
}

func (s *stream) ID() device.StreamID   { return s.id }
func (s *stream) Device() device.Device { return s.device }
func (s *stream) Mode() device.ExecMode { return device.ExecDiscard }

// push enqueues a piece of work on the stream and returns its position. The caller holds the device's lock.
func (s *stream) push() uint64 {
	s.put++
	if !s.device.manual {
		s.done = s.put
	}
	return s.put
}

// finish finishes the work up to position at, and before it the work of other streams that this waits for. It ends, because
// each stream is marked before the next is looked at. The caller holds the device's lock.
func (s *stream) finish(at uint64) {
	s.done = max(s.done, at)
	for len(s.waits) > 0 && s.waits[0].at <= s.done {
		first := s.waits[0]
		s.waits = s.waits[1:]
		first.on.finish(first.upTo)
	}
}

// await is a wait for position at: it finishes the stream up to there, unless that takes time and the context has ended, and
// returns the work's first error. The caller holds the device's lock.
func (s *stream) await(ctx context.Context, kind CallKind, at uint64) error {
	if s.done < at {
		if err := ctx.Err(); err != nil {
			return s.device.fail(kind, err, "stream %d", s.id)
		}
		s.finish(at)
	}
	return s.failed.Take(at)
}

// call makes a driver call that only needs the stream to be open. act does what the call does; nil does nothing.
func (s *stream) call(c Call, act func() error) error {
	d := s.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.closed.Load() || d.mu.closed {
		return d.fail(c.Kind, device.ErrClosed, "stream %d", s.id)
	}
	c.Stream, c.Segment = s.id, none
	if d.begin(&c) {
		c.Err = act()
	}
	return d.end(&c)
}

// Submit counts fn and drops it.
func (s *stream) Submit(_ string, _ func() error) error {
	return s.call(Call{Kind: CallSubmit}, func() error {
		s.push()
		return nil
	})
}

// CopyToDevice checks the range and does nothing.
func (s *stream) CopyToDevice(dst device.Ptr, src []byte) error {
	return s.touch(CallCopyToDevice, uint64(len(src)), dst)
}

// CopyToHost checks the range, waits for the stream, and gives zeros.
func (s *stream) CopyToHost(dst []byte, src device.Ptr) error {
	n := uint64(len(dst))
	return s.call(Call{Kind: CallCopyToHost, Bytes: n}, func() error {
		if err := s.device.check(CallCopyToHost, src, n); err != nil {
			return err
		}
		clear(dst)
		return s.await(context.Background(), CallCopyToHost, s.push())
	})
}

// Copy checks the ranges and does nothing.
func (s *stream) Copy(dst, src device.Ptr, n uint64) error {
	if dst < src.Add(n) && src < dst.Add(n) {
		return s.device.fail(CallCopy, device.ErrInvalidValue,
			"%d bytes from address %#x to %#x overlap", n, uintptr(src), uintptr(dst))
	}
	return s.touch(CallCopy, n, dst, src)
}

// Fill checks the range and does nothing.
func (s *stream) Fill(dst device.Ptr, _ byte, n uint64) error { return s.touch(CallFill, n, dst) }

// touch enqueues work on the stream that reads or writes n bytes at each address.
func (s *stream) touch(kind CallKind, n uint64, addresses ...device.Ptr) error {
	return s.call(Call{Kind: kind, Bytes: n}, func() error {
		for _, p := range addresses {
			if err := s.device.check(kind, p, n); err != nil {
				return err
			}
		}
		s.push()
		return nil
	})
}

// Record enqueues e on the stream.
func (s *stream) Record(e device.Event) error {
	return s.call(Call{Kind: CallEventRecord}, func() error {
		own, err := s.device.own(CallEventRecord, e)
		if err == nil {
			own.on, own.at = s, s.push()
		}
		return err
	})
}

// Wait enqueues a wait on the stream.
func (s *stream) Wait(e device.Event) error {
	return s.call(Call{Kind: CallStreamWait}, func() error {
		own, err := s.device.own(CallStreamWait, e)
		if err != nil {
			return err
		}
		at := s.push()
		if own.on != nil && own.on != s && own.on.done < own.at {
			s.waits = append(s.waits, dependency{at: at, on: own.on, upTo: own.at})
		}
		return nil
	})
}

// Done reports whether all that was enqueued on the stream is finished.
func (s *stream) Done() (done bool, err error) {
	err = s.call(Call{Kind: CallStreamQuery}, func() error {
		done = s.done == s.put
		return nil
	})
	return done, err
}

// Synchronize finishes all that was enqueued on the stream.
func (s *stream) Synchronize(ctx context.Context) error {
	return s.call(Call{Kind: CallStreamSync}, func() error { return s.await(ctx, CallStreamSync, s.put) })
}

// Close finishes the stream's work and ends it.
func (s *stream) Close() error {
	d := s.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.id == 0 {
		return d.fail(CallStreamClose, device.ErrInvalidValue, "the default stream cannot be closed")
	}
	if s.closed.Load() || d.mu.closed {
		return nil
	}
	c := Call{Kind: CallStreamClose, Segment: none, Stream: s.id}
	if !d.begin(&c) {
		return d.end(&c)
	}
	delete(d.mu.streams, s.id)
	c.Err = s.await(context.Background(), c.Kind, s.put)
	s.closed.Store(true)
	return d.end(&c)
}

// Closed reports whether Close of the stream or the device was called, which finishes the work.
func (s *stream) Closed() bool { return s.closed.Load() }
