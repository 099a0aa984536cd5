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
	reuse  reuse // what was freed in a capture, with graph_capture_record_stream_reuse: it waits for the graph, not for events
}

// newEventQueues is for allocators of this driver.
func newEventQueues(d Driver) eventqueue.Queues[*block] {
	return eventqueue.New[*block](eventqueue.ByStream, func(device.Stream) (device.Event, error) { return d.NewEvent() })
}

// park adds b, for each stream that used it, to the queue of what waits for that stream. b is pending and counts len(users) arrivals,
// none of which can come before it is in a queue: so it is this goroutine's alone. No lock is held.
//
// Between the shard's lock, under which b became pending, and events.mu another goroutine may poll or wait for events and not see
// this one's. It does no harm: the block is free a little later, and checks know of it.
func (a *Caching) park(b *block, users []use) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	if a.keepForCapture(b, users) {
		return
	}
	// What is freed in a capture that uses it is free when the capture ends, on whatever stream the use was: the graph's order sees to it. Other
	// uses end with an event, those in a capture that is over too: replays of its graph may be under way on that stream. But an event recorded
	// while the stream is being captured would be part of the graph. PyTorch asks whether the current stream is being captured, and if so puts
	// all frees of blocks with recorded streams off.
	for _, u := range users {
		switch {
		case u.capture != 0 && !u.over():
			a.events.queues.AddCaptured(u.stream, b, u.capture)
		case streams.Capturing(u.stream):
			a.events.queues.AddLate(u.stream, b)
		default:
			a.events.queues.Add(u.stream, b)
		}
	}
	a.pendingWork.Add(int64(len(users))) // last, so that who sees it finds the entries
}

// pollEvents completes the frees of blocks whose events have completed. It does not block. s is the stream that is to have memory,
// or nil: of blocks freed in a capture that goes on, only its own are looked at. No lock is held.
func (a *Caching) pollEvents(s device.Stream) {
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	a.pollReuse(s)
	a.events.queues.Poll(a.arrive) // the locks of shards are taken inside, one at a time
}

// syncEvents waits for all outstanding events and completes the frees that waited for them, except during a graph capture,
// where nothing may wait. Caller holds a.mu.
func (a *Caching) syncEvents() error {
	if a.inCapture() { // nobody may wait for the device while one of its streams is being captured
		return nil
	}
	a.syncs.Add(1) // also if nothing is outstanding: PyTorch counts calls
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	a.pollReuse(nil)
	wait := a.beginWait()
	defer func() { a.noteDeed(wait) }()
	// The lock is held while the device works. Frees with recorded streams wait for it, and Allocs too if anything is pending; the
	// caller is about to give the cache back, after which they would ask the driver anyway.
	return a.events.queues.Drain(a.arrive)
}

// arrive tells a pending block that one of the things it waits for is over, and completes its free if it was the last.
// Caller holds events.mu.
func (a *Caching) arrive(b *block) {
	a.pendingWork.Add(-1)
	sh := b.shard
	sh.mu.Lock()
	// Until the last arrival the block is active and no neighbour merges with it. Then the free goes on where Free left it.
	if b.events--; b.events == 0 {
		sh.completePending(b)
	}
	over := sh.tally.over
	sh.mu.Unlock()
	if over != 0 {
		a.settlePeaks(sh)
	}
}

// completePending completes the free of a block that waits for nothing any more. Caller holds events.mu and sh.mu.
func (sh *shard) completePending(b *block) {
	clear(b.users) // do not keep closed streams alive
	b.users = b.users[:0]
	if sh.log.On() {
		sh.noteCompleted(b)
	}
	sh.complete(b)
}
