package memory

import (
	"context"
	"errors"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/streams"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Free implements Allocator. If the driver refuses, the block is in use as before.
func (a *Async) Free(h Block) error {
	if a.absent() {
		return argumentErr("Free", text.NilAllocator)
	}
	if h.b == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	use, ok := a.live[h.b]
	if !ok || h.b.state != stateAllocated {
		return a.stale("Free", h, ErrDoubleFree)
	}
	if use.inOtherCapture() {
		h.b.state = statePending // what it waits for is the end of the capture
		a.deferred = append(a.deferred, h.b)
		return nil
	}
	return a.give(h.b, use)
}

// inOtherCapture reports whether a stream that used the block is part of a capture that the block is not of.
func (u *asyncUse) inOtherCapture() bool {
	other := func(s device.Stream) bool {
		id := streams.Capture(s)
		return id != 0 && id != u.capture
	}
	return other(u.stream) || slices.ContainsFunc(u.users, other)
}

// give lets the driver have a block, behind the work of all streams that used it. Caller holds a.mu.
func (a *Async) give(b *block, use *asyncUse) error {
	var err error
	switch {
	case len(use.users) == 0:
		err = a.driver.FreeAsync(b.ptr, use.stream)
		if errors.Is(err, device.ErrClosed) { // closing has waited for the work
			err = a.giveAfter(b, nil)
		}
	case streams.Capturing(use.stream):
		err = a.giveInCapture(b, use)
	default:
		err = a.giveAfter(b, append(use.users, use.stream))
	}
	if use.capture != 0 && errors.Is(err, device.ErrInvalidValue) && !streams.Capturing(use.stream) {
		err = nil // its graph was not replayed since it was freed, or is closed: there is no memory
	}
	if err != nil {
		return err
	}
	delete(a.live, b)
	a.stats.NumDeviceFree++
	a.count(-int64(b.size))
	return nil
}

// giveAfter frees a block on the allocator's own stream when all the others have done what is on them now.
func (a *Async) giveAfter(b *block, streams []device.Stream) error {
	if a.releaser == nil {
		s, err := a.driver.NewStream()
		if err != nil {
			return err
		}
		a.releaser = s
	}
	for _, s := range streams {
		if err := a.order(s, a.releaser); err != nil {
			return err
		}
	}
	return a.driver.FreeAsync(b.ptr, a.releaser)
}

// giveInCapture frees a block in its own capture. The allocator's stream would become part of the capture, and nobody would join
// it again before the end; so the block's stream waits for the others.
func (a *Async) giveInCapture(b *block, use *asyncUse) error {
	for _, s := range use.users {
		if streams.Capture(s) != use.capture {
			continue // what is not captured has not used it yet
		}
		if err := a.order(s, use.stream); err != nil {
			return err
		}
	}
	return a.driver.FreeAsync(b.ptr, use.stream)
}

// order makes one stream wait for another. The event may be used again at once: a wait is for what the event stood for when it
// was called.
func (a *Async) order(s, waiter device.Stream) error {
	if len(a.events) == 0 {
		e, err := a.driver.NewEvent()
		if err != nil {
			return err
		}
		a.events = append(a.events, e)
	}
	err := s.Record(a.events[0])
	if errors.Is(err, device.ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	return waiter.Wait(a.events[0])
}

// freeDeferred frees the blocks whose frees waited for the end of a capture, if it is over. A block that the driver refuses
// waits for the next time. Caller holds a.mu.
func (a *Async) freeDeferred() {
	if len(a.deferred) == 0 {
		return
	}
	a.deferred = slices.DeleteFunc(a.deferred, func(b *block) bool {
		use := a.live[b]
		return !use.inOtherCapture() && a.give(b, use) == nil
	})
}

// FreeLater implements Allocator.
func (a *Async) FreeLater(h Block) {
	if a.absent() || h.b == nil {
		return
	}
	if home := h.b.home(); home != a {
		home.FreeLater(h)
		return
	}
	if a.closed.Load() {
		return
	}
	a.deferredFrees.add(h)
}

// EmptyCache implements Allocator: it waits for the device, and the pool gives back what nobody uses.
func (a *Async) EmptyCache() error {
	if a.absent() {
		return argumentErr("EmptyCache", text.NilAllocator)
	}
	a.deferredFrees.drain(a.Free)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.freeDeferred()
	if err := a.driver.Synchronize(context.Background()); err != nil {
		return err
	}
	return a.driver.TrimPool(0)
}

// Close implements Allocator.
func (a *Async) Close() error {
	if a.absent() {
		return nil
	}
	a.deferredFrees.drain(a.Free)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Swap(true) {
		return nil
	}
	a.freeDeferred()
	var errs []error
	if n := len(a.live); n > 0 {
		errs = append(errs, &LeakError{Device: a.id, Blocks: int64(n), Bytes: uint64(a.stats.AllocatedBytes.All.Current)})
	}
	for b, use := range a.live {
		errs = append(errs, a.give(b, use))
	}
	if a.releaser != nil {
		errs = append(errs, a.releaser.Close())
	}
	for _, e := range a.events {
		errs = append(errs, e.Close())
	}
	errs = append(errs, a.driver.Synchronize(context.Background()), a.driver.TrimPool(0))
	return errors.Join(errs...)
}

// Closed implements CloseReporter.
func (a *Async) Closed() bool { return a.absent() || a.closed.Load() }
