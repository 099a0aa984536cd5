package memory

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/eventqueue"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// events delays the reuse of freed blocks that other streams have used. When such a block is freed, an event is recorded on
// each of those streams; the block stays active until all have completed. They are looked at by every Alloc, stream by
// stream, in order (package eventqueue): a stream that runs for long holds up only the blocks that wait for it.
type events struct {
	mu     sync.Mutex // after Caching.mu, before the locks of shards
	queues eventqueue.Queues[*block]
	reuse  reuse
}

// newEventQueues is for allocators of this driver.
func newEventQueues(d Driver) eventqueue.Queues[*block] {
	return eventqueue.New[*block](eventqueue.ByStream, func(device.Stream) (device.Event, error) { return d.NewEvent() })
}

// park adds b, for each stream that used it, to the queue of what waits for that stream. b is pending, and this goroutine's alone.
// No lock is held.
func (a *Caching) park(b *block, users []use) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	if a.keepForCapture(b, users) {
		return
	}
	for _, u := range users {
		switch {
		case u.capture != 0:
			a.events.queues.AddCaptured(u.stream, b, u.capture)
		case streams.Capturing(u.stream):
			a.events.queues.AddLate(u.stream, b)
		default:
			a.events.queues.Add(u.stream, b)
		}
	}
	a.pendingWork.Add(int64(len(users)))
}

// pollEvents completes the frees of blocks whose events have completed. It does not block. s is the stream that is to have memory,
// or nil: of blocks freed in a capture that goes on, only its own are looked at. No lock is held.
func (a *Caching) pollEvents(s device.Stream) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	a.pollReuse(s)
	a.events.queues.Poll(a.arrive)
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
	return a.events.queues.Drain(a.arrive)
}

// arrive tells a pending block that one of the things it waits for is over, and completes its free if it was the last.
// Caller holds events.mu.
func (a *Caching) arrive(b *block) {
	a.pendingWork.Add(-1)
	sh := b.shard
	sh.mu.Lock()
	if b.events--; b.events == 0 {
		clear(b.users) // do not keep closed streams alive
		b.users = b.users[:0]
		if sh.log.On() {
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
