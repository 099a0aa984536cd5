package memory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
)

// pinnedEvents delays the reuse of freed blocks whose memory streams still use. Free records an event on each of those
// streams; Alloc, or the background goroutine, asks which have completed.
//
// The events of one stream complete in the order in which they were recorded, so only the first of each queue is asked. Over
// all queues the one recorded first goes first, and a queue whose first event has not completed is left alone for the rest of
// the round. Nothing blocks the other streams then, and completed blocks enter their buckets in the order of recording.
type pinnedEvents struct {
	outstanding atomic.Int64 // entries in all queues. Changed under mu

	mu       sync.Mutex // first of all: before the locks of buckets
	queues   []*pinnedQueue
	spare    []*pinnedQueue // empty, to use again
	pools    []pinnedEventPool
	recorded uint64 // entries that there ever were
}

// pinnedQueue holds the outstanding events of one stream, the oldest first. There are queues only for streams that have some.
type pinnedQueue struct {
	stream  device.Stream
	entries []pinnedWait
	head    int  // entries before it are done
	stuck   bool // the first entry was asked in this round and has not completed
}

// pinnedWait is one block waiting for one stream. Without an event (it could not be made or recorded), it waits for all work
// on the stream.
type pinnedWait struct {
	event  device.Event
	block  *pinnedBlock
	number uint64 // in the order of recording, over all streams
}

// pinnedEventPool has the events of one device that are not in use.
type pinnedEventPool struct {
	id     device.ID
	events []device.Event
}

// park records an event for b on each stream that uses it. b is pending and waits for all of them, so users does not change
// meanwhile. If a device makes no event, the block waits for all work on the stream: it is never lost, and never early. No
// lock is held.
func (p *Pinned) park(b *pinnedBlock, users []device.Stream) {
	if len(users) == 0 { // captures hold it
		return
	}
	ev := &p.events
	ev.mu.Lock()
	for _, s := range users {
		e := ev.take(s)
		if e != nil && s.Record(e) != nil {
			ev.put(s, e)
			e = nil
		}
		q := ev.queue(s)
		q.entries = append(q.entries, pinnedWait{e, b, ev.recorded})
		ev.recorded++
	}
	ev.outstanding.Add(int64(len(users)))
	ev.mu.Unlock()
	p.worker.rouse()
}

// take returns an event for a stream, or nil if its device makes none. Caller holds ev.mu.
func (ev *pinnedEvents) take(s device.Stream) device.Event {
	pool := ev.pool(s)
	if n := len(pool.events); n > 0 {
		e := pool.events[n-1]
		pool.events = pool.events[:n-1]
		return e
	}
	e, err := s.Device().NewEvent()
	if err != nil {
		return nil
	}
	return e
}

// put keeps an event of the stream's device for later. Caller holds ev.mu.
func (ev *pinnedEvents) put(s device.Stream, e device.Event) {
	pool := ev.pool(s)
	pool.events = append(pool.events, e)
}

// pool returns the unused events of the stream's device. Caller holds ev.mu.
func (ev *pinnedEvents) pool(s device.Stream) *pinnedEventPool {
	id := s.Device().ID()
	for i := range ev.pools {
		if ev.pools[i].id == id {
			return &ev.pools[i]
		}
	}
	ev.pools = append(ev.pools, pinnedEventPool{id: id})
	return &ev.pools[len(ev.pools)-1]
}

// queue returns the queue of a stream, which begins if there is none. Caller holds ev.mu.
func (ev *pinnedEvents) queue(s device.Stream) *pinnedQueue {
	for _, q := range ev.queues {
		if sameStream(q.stream, s) {
			return q
		}
	}
	var q *pinnedQueue
	if n := len(ev.spare); n > 0 {
		q = ev.spare[n-1]
		ev.spare = ev.spare[:n-1]
	} else {
		q = &pinnedQueue{}
	}
	q.stream, q.stuck = s, false
	ev.queues = append(ev.queues, q)
	return q
}

// pollEvents completes the frees of blocks whose events have completed. It does not wait for the device. An event that cannot
// be asked counts as not completed: its error is for those who wait for the stream. No lock is held.
func (p *Pinned) pollEvents() {
	ev := &p.events
	policy := p.policy.Load()
	var back *pinnedBlock // list of those that are too large to be kept
	ev.mu.Lock()
	for _, q := range ev.queues {
		q.stuck = false
	}
	for i := ev.oldest(); i >= 0; i = ev.oldest() {
		q := ev.queues[i]
		w := q.entries[q.head]
		if q.stuck = !w.done(q.stream); q.stuck {
			continue
		}
		ev.pop(i)
		if w.arrive(policy) {
			w.block.next, back = back, w.block
		}
	}
	ev.mu.Unlock()
	_ = p.releaseList(back) // counted in NumFreeErrors, and the block is cached
}

// oldest returns the index of the queue whose first entry was recorded first, stuck ones left out, or -1. There are few
// queues: as many as streams with outstanding events. Caller holds ev.mu.
func (ev *pinnedEvents) oldest() int {
	best := -1
	for i, q := range ev.queues {
		if !q.stuck && (best < 0 || q.entries[q.head].number < ev.queues[best].entries[ev.queues[best].head].number) {
			best = i
		}
	}
	return best
}

// done reports whether the stream s has come so far. A closed one has: closing waits for its work.
func (w pinnedWait) done(s device.Stream) bool {
	var done bool
	var err error
	if w.event != nil {
		done, err = w.event.Done()
	} else {
		done, err = s.Done()
	}
	return done || errors.Is(err, device.ErrClosed)
}

// arrive tells the block that the stream has come so far, and reports whether the block is to be released.
func (w pinnedWait) arrive(policy *pinnedPolicy) (release bool) {
	k := w.block.bucket
	k.mu.Lock()
	defer k.mu.Unlock()
	if w.block.state != pinnedPending { // the allocator was closed meanwhile
		return false
	}
	return k.arrive(w.block, policy)
}

// pop takes the first entry off queue i, and the queue away if it was the last. Caller holds ev.mu.
func (ev *pinnedEvents) pop(i int) {
	q := ev.queues[i]
	if e := q.entries[q.head].event; e != nil {
		ev.put(q.stream, e)
	}
	q.entries[q.head] = pinnedWait{}
	q.head++
	ev.outstanding.Add(-1)
	switch {
	case q.head == len(q.entries):
		q.entries, q.head, q.stream = q.entries[:0], 0, nil
		last := len(ev.queues) - 1
		ev.queues[i], ev.queues[last] = ev.queues[last], nil
		ev.queues = ev.queues[:last]
		ev.spare = append(ev.spare, q)
	case q.head > 1024 && q.head > len(q.entries)/2:
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
}

// waitEvents waits for all outstanding events, and completes the frees that waited for them. Others can free and record
// meanwhile: no lock is held during the wait, so an event may be used again for something later, and the wait be longer than
// it need be. It returns the errors of the work on the streams.
func (p *Pinned) waitEvents() error {
	var last []pinnedWait
	var streams []device.Stream
	ev := &p.events
	ev.mu.Lock()
	for _, q := range ev.queues {
		last = append(last, q.entries[len(q.entries)-1])
		streams = append(streams, q.stream)
	}
	ev.mu.Unlock()
	var errs []error
	for i, w := range last {
		if err := w.wait(streams[i]); !errors.Is(err, device.ErrClosed) {
			errs = append(errs, err)
		}
	}
	p.pollEvents()
	return errors.Join(errs...)
}

func (w pinnedWait) wait(s device.Stream) error {
	if w.event != nil {
		return w.event.Synchronize(context.Background())
	}
	return s.Synchronize(context.Background())
}

// closeEvents gives all events back to their devices. Those still queued belong to blocks that are no more.
func (p *Pinned) closeEvents() error {
	ev := &p.events
	ev.mu.Lock()
	defer ev.mu.Unlock()
	var errs []error
	for _, q := range ev.queues {
		for _, w := range q.entries[q.head:] {
			if w.event != nil {
				ev.put(q.stream, w.event)
			}
			ev.outstanding.Add(-1)
		}
	}
	for _, pool := range ev.pools {
		for _, e := range pool.events {
			if err := e.Close(); !errors.Is(err, device.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	ev.queues, ev.spare, ev.pools = nil, nil, nil
	return errors.Join(errs...)
}
