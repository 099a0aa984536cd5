package pinned

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// Block is a caller's handle on a piece of pinned host memory, from Alloc until Free. Like memory.Block it is a value, and a
// handle that outlives its Free is recognised. The zero Block is what Alloc returns for zero bytes.
type Block struct {
	b          *block
	generation uint64 // b.generation at hand-out; b.generation moves on at each Free
	mem        []byte
}

// Bytes is the memory, as long as it was asked for. It must not be touched after Free or Allocator.Close (after
// Close that may be a fault that ends the program), nor while a device writes it.
func (h Block) Bytes() []byte { return h.mem }

// Size is the block's size in bytes after rounding: what the statistics count as active.
func (h Block) Size() uint64 {
	if h.b == nil {
		return 0
	}
	return h.b.size
}

// IsZero reports whether h is the zero Block.
func (h Block) IsZero() bool { return h.b == nil }

// valid reports whether the holder of h may use the block. Caller holds the bucket's lock.
func (h Block) valid() bool {
	return h.b.generation == h.generation && h.b.state == stateAllocated
}

// blockState is where a block stands. See doc.go for the legal moves.
type blockState uint8

const (
	stateAllocated blockState = iota // held by a caller
	statePending                     // freed, but work on streams may still use it, or a capture holds it
	stateCached                      // in its bucket's list of free blocks
	stateReleasing                   // on its way to the driver: of the goroutine that brings it there alone
	stateSpare                       // no more: the driver has the memory
)

// origin is where a block's memory came from.
type origin uint8

const (
	fromDriver  origin = iota // AllocPinned
	registered                // ordinary memory, registered
	fromSegment               // cut from the reserve segment: it never goes back
)

// block is a piece of pinned memory and its state. Its object is not used again for other memory, so a stale handle
// always finds the right lock and a generation that has moved on.
type block struct {
	// These never change.
	bucket *bucket
	mem    []byte
	addr   device.Ptr // of mem
	size   uint64
	origin origin

	// Guarded by bucket.mu.
	state      blockState
	generation uint64
	place      int             // index in bucket.all
	users      []device.Stream // streams whose work uses the block
	holders    []*Capture      // captures that hold the block
	waits      int             // of a pending block: events and captures that it waits for

	requested uint64     // by the holder
	stack     fpstack.ID // where it was handed out, if history is recorded
	made      fpstack.ID // where the driver gave it, if history is recorded

	next *block // in a list of blocks that are releasing
}

// addUser notes a stream, once, unless it was closed: Close has waited for its work. Caller holds the bucket's lock.
func (b *block) addUser(s device.Stream) {
	if streams.Closed(s) || slices.ContainsFunc(b.users, func(u device.Stream) bool { return streams.Same(u, s) }) {
		return
	}
	b.users = append(slices.DeleteFunc(b.users, streams.Closed), s)
}

const numBuckets = 64

// bucketIndex is the binary logarithm of a size, rounded up.
func bucketIndex(size uint64) int { return bits.Len64(size - 1) }

func (p *Allocator) bucket(size uint64) *bucket { return &p.buckets[bucketIndex(size)] }

// bucket has the blocks of one power of two.
type bucket struct {
	owner *Allocator

	mu    sync.Mutex
	log   journal.Logbook // of the history
	free  []*block        // cached ones; the last was freed last
	all   []*block        // all but spare ones
	tally struct {        // since the accumulated statistics were reset
		requested, requestedBytes, returned, returnedBytes int64
	}

	_ [64]byte // so that no cache line has data of two buckets
}

// reuse hands out the last free block that is large enough. A bucket of rounded blocks only has no others, so this is the
// last one.
func (k *bucket) reuse(bytes uint64) (Block, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(k.free) - 1; i >= 0; i-- {
		if b := k.free[i]; b.size >= bytes {
			k.free = slices.Delete(k.free, i, i+1)
			return k.handOut(b, bytes, false), true
		}
	}
	return Block{}, false
}

// handOut makes b, which is in no list of free blocks, the caller's; fresh says that it is new. Caller holds k.mu.
func (k *bucket) handOut(b *block, bytes uint64, fresh bool) Block {
	b.state = stateAllocated
	b.requested = bytes
	if k.log.On() {
		k.noteAlloc(b, fresh)
	}
	k.tally.requested++
	k.tally.requestedBytes += int64(b.size)
	k.owner.requests.rise(1)
	k.owner.bytes.rise(int64(b.size))
	return Block{b: b, generation: b.generation, mem: b.mem[:bytes:bytes]}
}

// complete ends the use of a block: it is cached, or releasing if it is too large to be kept, and then the caller has to
// release it. Caller holds k.mu.
func (k *bucket) complete(b *block, policy *policy) {
	k.endUse(b)
	if b.size > policy.maxCached && b.origin != fromSegment {
		k.surrender(b)
		return
	}
	k.cache(b)
}

// surrender takes a block that nobody uses out of everybody's reach, for the driver. Caller holds k.mu.
func (k *bucket) surrender(b *block) {
	b.state = stateReleasing
	if k.log.On() {
		k.noteReleased(b)
	}
}

// endUse takes a block off the counts of active memory. Caller holds k.mu.
func (k *bucket) endUse(b *block) {
	clear(b.users) // do not keep closed streams alive
	b.users = b.users[:0]
	k.tally.returned++
	k.tally.returnedBytes += int64(b.size)
	k.owner.requests.fall(1)
	k.owner.bytes.fall(int64(b.size))
}

// cache puts a block into the list of free blocks. Caller holds k.mu.
func (k *bucket) cache(b *block) {
	b.state = stateCached
	k.free = append(k.free, b)
}

// arrive tells a pending block that one of the things it waits for is over. It reports whether the block is to be released.
// Caller holds k.mu.
func (k *bucket) arrive(b *block, policy *policy) (release bool) {
	if b.waits--; b.waits == 0 {
		if k.log.On() {
			k.noteCompleted(b)
		}
		k.complete(b, policy)
	}
	return b.state == stateReleasing
}

// enroll adds a new block to the bucket. Caller holds k.mu.
func (k *bucket) enroll(b *block) {
	b.place = len(k.all)
	k.all = append(k.all, b)
}

// strike takes a block out of the bucket for good. Caller holds k.mu.
func (k *bucket) strike(b *block) {
	b.state = stateSpare
	last := len(k.all) - 1
	k.all[b.place] = k.all[last]
	k.all[b.place].place = b.place
	k.all[last] = nil
	k.all = k.all[:last]
}
