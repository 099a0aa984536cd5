package pinned

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/invariants"
)

// verify is check in builds with the tag "invariants", and nothing in others. With many blocks it checks less often, once in as
// many calls as there are blocks / 64. No lock is held.
func (p *Allocator) verify() {
	if !invariants.Enabled || p.unverified.Add(-1) >= 0 {
		return
	}
	if err := p.check(); err != nil {
		panic(err) // invariant: the books of Allocator agree with its blocks after each call
	}
	p.unverified.Store(p.Stats().Allocations.Current / 64)
}

// check proves the invariants of Allocator, or says which one does not hold. Tests call it after each step, fuzzing after each
// operation, and builds with the tag "invariants" after each call that moves blocks. No lock is held.
func (p *Allocator) check() error {
	p.events.mu.Lock()
	defer p.events.mu.Unlock()
	p.lockBuckets()
	defer p.unlockBuckets()

	c := checker{queued: map[*block]int{}}
	if flaw := p.events.queues.Flaw(); flaw != "" {
		c.fail("%s", flaw)
	}
	for b := range p.events.queues.All() {
		c.queued[b]++
	}
	for i := range p.buckets {
		c.bucket(i, &p.buckets[i])
	}
	for b, n := range c.queued {
		c.fail("block of %d bytes: %d events are queued, but it is not pending", b.size, n)
	}
	s := &p.books.stats
	for _, sum := range []struct {
		name      string
		got, want int64
	}{
		{"allocations", s.Allocations.Current, c.blocks},
		{"allocated_bytes", s.AllocatedBytes.Current, c.bytes},
		{"active_requests", p.requests.now.Load(), c.active},
		{"active_bytes", p.bytes.now.Load(), c.activeBytes},
		{"outstanding events", p.events.outstanding.Load(), int64(p.events.queues.Len())},
	} {
		if sum.got != sum.want {
			c.fail("%s is %d, the blocks add up to %d", sum.name, sum.got, sum.want)
		}
	}
	if p.requests.peak.Load() < c.active || p.bytes.peak.Load() < c.activeBytes {
		c.fail("a peak of active memory lies below its present value")
	}
	return c.err
}

// checker collects what the walk over all blocks finds, and keeps the first contradiction.
type checker struct {
	err         error
	queued      map[*block]int
	blocks      int64
	bytes       int64
	active      int64
	activeBytes int64
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("memory: pinned: invariant broken: "+format, args...)
	}
}

// bucket: its blocks belong there, and those in its list of free blocks are exactly the cached ones.
func (c *checker) bucket(i int, k *bucket) {
	free := map[*block]bool{}
	for _, b := range k.free {
		if free[b] || b.bucket != k {
			c.fail("bucket %d has a block twice, or of another", i)
		}
		free[b] = true
	}
	for place, b := range k.all {
		if b.bucket != k || b.place != place || bucketIndex(b.size) != i || uint64(len(b.mem)) != b.size {
			c.fail("bucket %d: block of %d bytes at place %d of %d", i, b.size, b.place, place)
		}
		if cached := b.state == stateCached; cached != free[b] {
			c.fail("bucket %d: block of %d bytes: state %d, free %v", i, b.size, b.state, free[b])
		}
		delete(free, b)
		c.block(b)
	}
	if len(free) != 0 {
		c.fail("bucket %d: %d free blocks are not on its books", i, len(free))
	}
}

func (c *checker) block(b *block) {
	c.blocks++
	c.bytes += int64(b.size)
	switch b.state {
	case stateAllocated, statePending:
		c.active++
		c.activeBytes += int64(b.size)
	case stateCached, stateReleasing:
		if len(b.users) != 0 || len(b.holders) != 0 {
			c.fail("free block of %d bytes: %d users, %d holders", b.size, len(b.users), len(b.holders))
		}
	case stateSpare:
		c.fail("block of %d bytes is on the books, but no more", b.size)
	}
	if b.state == statePending {
		// Between the two halves of Free another goroutine may see the block before its events: then there are none.
		if n := c.queued[b]; b.waits != n+len(b.holders) && n != 0 {
			c.fail("pending block of %d bytes waits for %d, of which %d events and %d captures are left", b.size, b.waits, n, len(b.holders))
		}
		delete(c.queued, b)
	}
}
