package pinned

import (
	"errors"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// EmptyCache gives all cached blocks back to the driver, except those cut from the reserve segment. Blocks that wait for
// events stay. If the driver refuses some, they stay cached, and its errors are returned, joined.
func (p *Allocator) EmptyCache() error {
	if p.absent() {
		return argumentErr("pinned.EmptyCache", text.NilAllocator)
	}
	p.pollEvents()
	err := p.releaseCached()
	p.verify()
	return err
}

// releaseCached gives what is cached back to the driver, bucket by bucket, the block freed first going first. Driver calls are
// made without a lock: a block on its way is in no list of free blocks.
func (p *Allocator) releaseCached() error {
	var errs []error
	for i := range p.buckets {
		errs = append(errs, p.releaseList(p.buckets[i].takeReleasable()))
	}
	return errors.Join(errs...)
}

// takeReleasable takes all free blocks that the driver can have back, as a list linked by next.
func (k *bucket) takeReleasable() (first *block) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := &first
	kept := k.free[:0]
	for _, b := range k.free {
		if b.origin == fromSegment {
			kept = append(kept, b)
			continue
		}
		k.surrender(b)
		*last = b
		last = &b.next
	}
	clear(k.free[len(kept):])
	k.free = kept
	return first
}

// reclaim is the last resort before an out-of-memory error: it waits for all outstanding events and empties the cache. It
// returns the errors of the work that it waited for; what the driver does not take back does not matter here.
func (p *Allocator) reclaim() error {
	err := p.waitEvents()
	_ = p.releaseCached()
	return err
}

// Close waits for the outstanding events and gives everything back to the driver, blocks in use and held by captures included:
// their handles become stale, and touching their Bytes is a fault that ends the program. It is the last call; Alloc after it fails
// with device.ErrClosed. It returns a *memory.LeakError if blocks were in use, joined with the errors of streams and driver. Closing
// twice is harmless.
func (p *Allocator) Close() error {
	if p.absent() {
		return nil
	}
	if p.closed.Swap(true) {
		return nil
	}
	p.worker.end()
	errs := []error{p.waitEvents()}
	leak := &memory.LeakError{Device: p.id}
	for i := range p.buckets {
		for _, b := range p.buckets[i].abandon(leak) {
			if b.origin != fromSegment {
				errs = append(errs, p.unpin(b.mem, b.origin))
			}
		}
	}
	if leak.Blocks > 0 {
		errs = append(errs, leak)
	}
	r := &p.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.segment != nil {
		errs = append(errs, p.unpin(r.segment, r.origin))
		r.segment, r.rest = nil, nil
	}
	return errors.Join(append(errs, p.closeEvents())...)
}

// abandon takes all blocks off the books, whatever they are used for, and returns them. It adds to leak those that were not
// free. Releasing ones are left to the goroutine that has them.
func (k *bucket) abandon(leak *memory.LeakError) (gone []*block) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = nil
	for i := len(k.all) - 1; i >= 0; i-- { // strike moves the last to i
		b := k.all[i]
		switch b.state {
		case stateReleasing:
			continue
		case stateAllocated, statePending:
			leak.Blocks++
			leak.Bytes += b.size
			b.users = nil
			if k.log.On() {
				k.noteAbandoned(b)
			}
			k.endUse(b)
		}
		b.generation++
		k.surrender(b)
		k.strike(b)
		k.owner.books.countBlock(-int64(b.size))
		gone = append(gone, b)
	}
	return gone
}

func (p *Allocator) errClosed() error {
	return &device.Error{Device: p.id, Call: "pinned.Alloc", Err: device.ErrClosed}
}
