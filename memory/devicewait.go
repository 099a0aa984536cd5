package memory

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// A freed block that other streams used is pending until their work is done, and the processor finds that out by asking. Often the next request of
// the block's own stream comes before: then memory is free soon, and the driver is asked for more. With record_stream_device_wait the
// stream is made to wait instead, on the device: what it enqueues from now on comes after that work, so the block is free for this stream, and
// for it alone, like any other that is cached. The processor goes on.
//
//	stream 0   use b | free b     Alloc: wait for e | use b
//	stream 1      use b | e
//
// It is the last thing before memory that is not the stream's own: a block that nobody uses costs no wait. An event may be used again at once, as
// a wait is for what it stood for when it was called.

// waitOnDevice serves r with a pending block of its own stream, and returns it in no index, or nil. A stream that cannot be made to wait is no error: the
// block stays pending as it was, and the driver is asked. Caller holds a.mu and no shard.
func (a *Caching) waitOnDevice(r *request) *block {
	if !r.policy.deviceWait || a.pendingWork.Load() == 0 || !a.mayOrder(r.shard) {
		return nil
	}
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	b := a.fittingPending(r)
	if b == nil {
		return nil
	}
	sh := r.shard
	if !a.waitBehind(sh, []*block{b}) {
		return nil
	}
	sh.mu.Lock()
	b.events = 0
	sh.completePending(b)
	// Under the same lock: nobody else may be given it. It may have merged with its neighbours, and another block may fit better by now.
	found := sh.take(r.policy, r.kind, r.size)
	over := sh.tally.over
	sh.mu.Unlock()
	if over != 0 {
		a.settlePeaks(sh)
	}
	return found
}

// waitBehind makes the stream of a shard wait, on the device, for the events of pending blocks, which are in no queue then. It reports false, and the
// blocks stay pending as they were, if the stream cannot be made to wait. Caller holds a.mu and events.mu.
func (a *Caching) waitBehind(sh *shard, blocks []*block) bool {
	set := make(map[*block]bool, len(blocks))
	for _, b := range blocks {
		set[b] = true
	}
	s := sh.stream()
	for b, e := range a.events.queues.Marks() {
		if set[b] && s.Wait(e) != nil {
			return false
		}
	}
	a.spoil() // when the work would have been done is not known
	a.pendingWork.Add(-int64(a.events.queues.Drop(func(b *block) bool { return set[b] })))
	return true
}

// fittingPending is the pending block of r's stream that leaves least over once it is merged with its free neighbours; nil if none is large enough,
// or if what it waits for is no event. Caller holds a.mu and events.mu.
func (a *Caching) fittingPending(r *request) (best *block) {
	sh := r.shard
	otherwise := a.withoutEvent(sh)
	least := unlimited
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for b := range a.events.queues.All() {
		if b.shard != sh || b.kind != r.kind || b.slot != nil || otherwise[b] || b.expandable() && !r.policy.expandable {
			continue
		}
		n := b.mergedSize()
		if n >= r.size && !(r.policy.maxSplit != unlimited && r.policy.tooLarge(n, r.size)) &&
			(n < least || n == least && b.ptr < best.ptr) {
			best, least = b, n
		}
	}
	return best
}

// withoutEvent has the pending blocks of a shard for which a stream cannot be made to wait: they wait for the end of a capture, or for all work of a
// stream for which there was no event. Caller holds events.mu.
func (a *Caching) withoutEvent(sh *shard) (blocks map[*block]bool) {
	for b, e := range a.events.queues.Marks() {
		if e == nil && b.shard == sh {
			if blocks == nil {
				blocks = map[*block]bool{}
			}
			blocks[b] = true
		}
	}
	return blocks
}

// mergedSize is the size of the block that b becomes when it is free. Caller holds the shard.
func (b *block) mergedSize() uint64 {
	n := b.size
	for _, x := range [...]*block{b.prev, b.next} {
		if x != nil && x.state == stateCached {
			n += x.size
		}
	}
	return n
}

// mayOrder reports whether the stream of a shard may be made to wait for others. During a capture it may not: a wait would be part of the graph,
// or draw the stream into it, and a replay would not wait for what ran once. Nor may it in a pool that graphs have the addresses of: they may be replayed on
// other streams, which would have to wait as well. Caller holds a.mu.
func (a *Caching) mayOrder(sh *shard) bool {
	return !a.inCapture() && a.mayLend(sh)
}

// mayLend is mayOrder for the shard that has the memory.
func (a *Caching) mayLend(sh *shard) bool {
	s := sh.stream()
	return (sh.pool == nil || !sh.pool.captured.Load()) && !streams.Capturing(s)
}

// order makes the stream of one shard wait, on the device, for the work that is now on that of another. Caller holds a.mu, of no shard the lock.
func (a *Caching) order(first, then device.Stream) error {
	if streams.Closed(first) { // closing has waited
		return nil
	}
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	return a.events.queues.Order(first, then)
}
