package memory

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
)

// events delays the reuse of freed blocks that other streams have used. When such a block is freed, an event is recorded on
// each of those streams; the block stays active until all have completed. They are looked at by every Alloc, stream by
// stream, in order: a stream that runs for long holds up only the blocks that wait for it.
type events struct {
	mu     sync.Mutex     // after Caching.mu, before the locks of shards
	queues []*eventQueue  // by stream, the highest number first: PyTorch's hash map walks them so
	pool   []device.Event // to use again
	reuse  reuse
}

// eventQueue holds the outstanding events of one stream in the order in which they were recorded.
type eventQueue struct {
	stream  device.Stream
	id      device.StreamID
	entries []outstanding
	head    int // entries before it are done
	late    int // entries of which the event is to be recorded
}

// outstanding is one block waiting for one stream. Without an event (it could not be made), the whole stream is waited for.
type outstanding struct {
	event   device.Event
	block   *block
	capture uint64 // wait for its end instead; 0 is none
	late    bool   // the event is to be recorded when the stream is out of its capture
}

// park records an event for b on each stream that used it. b is pending, and this goroutine's alone. No lock is held.
// If the device makes no event, the block waits for all work on the stream instead: it is never lost, and never early.
func (a *Caching) park(b *block, users []use) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	if a.keepForCapture(b, users) {
		return
	}
	for _, u := range users {
		q := a.events.queue(u.stream)
		o := outstanding{block: b, capture: u.capture, late: u.capture == 0 && capturing(u.stream)}
		if u.capture == 0 && !o.late {
			o.event = a.mark(u.stream)
		}
		if o.late {
			q.late++
		}
		q.entries = append(q.entries, o)
		a.pendingWork.Add(1)
	}
}

// mark returns an event recorded on a stream, or nil. Caller holds events.mu.
func (a *Caching) mark(s device.Stream) device.Event {
	e := a.events.take(a.driver)
	if e != nil && s.Record(e) != nil {
		a.events.pool = append(a.events.pool, e)
		return nil
	}
	return e
}

// catchUp records the events that had to wait for the end of the stream's capture, if that is over. Caller holds events.mu.
func (a *Caching) catchUp(q *eventQueue) {
	if q.late == 0 || capturing(q.stream) {
		return
	}
	for i := range q.entries {
		if o := &q.entries[i]; o.late {
			o.event, o.late = a.mark(q.stream), false
		}
	}
	q.late = 0
}

func (ev *events) take(d Driver) device.Event {
	if n := len(ev.pool); n > 0 {
		e := ev.pool[n-1]
		ev.pool = ev.pool[:n-1]
		return e
	}
	e, err := d.NewEvent()
	if err != nil {
		return nil
	}
	return e
}

func (ev *events) queue(s device.Stream) *eventQueue {
	id := s.ID()
	i, ok := slices.BinarySearchFunc(ev.queues, id, func(q *eventQueue, id device.StreamID) int {
		return int(int64(id) - int64(q.id))
	})
	if ok {
		return ev.queues[i]
	}
	q := &eventQueue{stream: s, id: id}
	ev.queues = slices.DeleteFunc(slices.Insert(ev.queues, i, q), func(o *eventQueue) bool {
		return o != q && o.head == len(o.entries) && closed(o.stream)
	})
	return q
}

// pollEvents completes the frees of blocks whose events have completed. It does not block. An event that cannot be asked
// counts as not completed: its error is for those who wait for the stream. s is the stream that is to have memory, or nil: of
// blocks freed in a capture that goes on, only its own are looked at. No lock is held.
func (a *Caching) pollEvents(s device.Stream) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	a.pollReuse(s)
	for _, q := range a.events.queues {
		a.catchUp(q)
		for q.head < len(q.entries) {
			if done, _ := q.done(q.entries[q.head]); !done {
				break
			}
			a.pop(q)
		}
	}
}

// done reports whether an entry has completed. A closed stream has: closing waits for its work.
func (q *eventQueue) done(o outstanding) (bool, error) {
	if o.capture != 0 {
		return captureOf(q.stream) != o.capture, nil
	}
	if o.late {
		return false, nil
	}
	var done bool
	var err error
	if o.event != nil {
		done, err = o.event.Done()
	} else {
		done, err = q.stream.Done()
	}
	if errors.Is(err, device.ErrClosed) {
		return true, nil
	}
	return done, err
}

// syncEvents waits for all outstanding events and completes the frees that waited for them, except during a graph capture,
// where nothing may wait. Caller may hold a.mu.
func (a *Caching) syncEvents() error {
	if a.inCapture() {
		return nil
	}
	a.syncs.Add(1)
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	a.pollReuse(nil)
	var errs []error
	for _, q := range a.events.queues {
		a.catchUp(q)
		for q.head < len(q.entries) {
			if err := q.wait(q.entries[q.head]); err != nil {
				errs = append(errs, err)
				break
			}
			a.pop(q)
		}
	}
	return errors.Join(errs...)
}

func (q *eventQueue) wait(o outstanding) error {
	if o.capture != 0 { // syncEvents is not called in a capture
		return nil
	}
	var err error
	if o.event != nil {
		err = o.event.Synchronize(context.Background())
	} else {
		err = q.stream.Synchronize(context.Background())
	}
	if errors.Is(err, device.ErrClosed) {
		return nil
	}
	return err
}

// pop takes the first entry off a queue and completes its block's free if it was the last that the block waited for.
// Caller holds events.mu.
func (a *Caching) pop(q *eventQueue) {
	o := q.entries[q.head]
	q.entries[q.head] = outstanding{}
	q.head++
	if q.head == len(q.entries) {
		q.entries, q.head = q.entries[:0], 0
	} else if q.head > 1024 && q.head > len(q.entries)/2 {
		q.entries = append(q.entries[:0], q.entries[q.head:]...)
		q.head = 0
	}
	a.pendingWork.Add(-1)
	if o.event != nil {
		a.events.pool = append(a.events.pool, o.event)
	}
	a.arrive(o.block)
}

// arrive tells a pending block that one of the things it waits for is over, and completes its free if it was the last.
// Caller holds events.mu.
func (a *Caching) arrive(b *block) {
	sh := b.shard
	sh.mu.Lock()
	if b.events--; b.events == 0 {
		clear(b.users) // do not keep closed streams alive
		b.users = b.users[:0]
		if sh.log.rec != nil {
			sh.noteCompleted(b)
		}
		sh.complete(b)
	}
	over := sh.tally.over
	sh.mu.Unlock()
	if over != 0 {
		a.settlePeaks(sh)
	}
}
