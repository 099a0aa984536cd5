package pinned

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/eventqueue"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// events delays the reuse of freed blocks whose memory streams still use. Free records an event on each of those
// streams; Alloc, or the background goroutine, asks which have completed. Completed blocks enter their buckets in the order of
// recording, over all streams.
type events struct {
	outstanding atomic.Int64 // entries in all queues, for those who do not hold mu. Changed under mu

	mu     sync.Mutex // first of all: before the locks of buckets
	queues eventqueue.Queues[*block]
}

// newQueues: streams may be of any device, and each makes its own events.
func newQueues() eventqueue.Queues[*block] {
	return eventqueue.New[*block](eventqueue.ByAge, func(s device.Stream) (device.Event, error) { return s.Device().NewEvent() })
}

// park records an event for b on each stream that uses it. b is pending and waits for all of them, so users does not change
// meanwhile. No lock is held.
func (p *Allocator) park(b *block, users []device.Stream) {
	if len(users) == 0 { // captures hold it
		return
	}
	ev := &p.events
	ev.mu.Lock()
	for _, s := range users {
		ev.queues.Add(s, b)
	}
	ev.outstanding.Add(int64(len(users)))
	ev.mu.Unlock()
	p.worker.rouse()
}

// pollEvents completes the frees of blocks whose events have completed. It does not wait for the device. No lock is held.
func (p *Allocator) pollEvents() {
	policy := p.policy.Load()
	var back *block // list of those that are too large to be kept
	p.events.mu.Lock()
	p.events.queues.Poll(func(b *block) {
		p.events.outstanding.Add(-1)
		if b.arrive(policy) {
			b.next, back = back, b
		}
	})
	p.events.mu.Unlock()
	_ = p.releaseList(back) // counted in NumFreeErrors, and the block is cached
}

// arrive tells the block that a stream has come so far, and reports whether the block is to be released.
func (b *block) arrive(policy *policy) (release bool) {
	k := b.bucket
	k.mu.Lock()
	defer k.mu.Unlock()
	if b.state != statePending { // the allocator was closed meanwhile
		return false
	}
	return k.arrive(b, policy)
}

// waitEvents waits for all outstanding events, and completes the frees that waited for them. Others can free and record
// meanwhile: no lock is held during the wait. It returns the errors of the work on the streams.
func (p *Allocator) waitEvents() error {
	p.events.mu.Lock()
	tails := p.events.queues.Tails()
	p.events.mu.Unlock()
	var errs []error
	for _, t := range tails {
		errs = append(errs, t.Wait())
	}
	p.pollEvents()
	return errors.Join(errs...)
}

// closeEvents gives all events back to their devices, of which some may be closed. Those still queued belong to blocks that are
// no more.
func (p *Allocator) closeEvents() error {
	ev := &p.events
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.outstanding.Add(-int64(ev.queues.Len()))
	var errs []error
	for _, err := range ev.queues.Close() {
		errs = append(errs, streams.IgnoreClosed(err))
	}
	return errors.Join(errs...)
}
