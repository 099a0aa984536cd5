package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// blockState is where a block stands. See doc.go for the legal moves.
type blockState uint8

const (
	stateSpare     blockState = iota // not part of any segment: the object waits to be used again
	stateAllocated                   // held by a caller
	statePending                     // freed, but work on other streams may still use it
	stateCached                      // free, in its pool's index
	stateUnmapped                    // address range of an expandable segment without memory behind it
	stateVacant                      // a place of a plan that nobody has
	stateLent                        // free, and a plan's to hand out pieces of
	blockStates
)

func (s blockState) String() string {
	return [...]string{"spare", "allocated", "pending", "cached", "unmapped", "vacant", "lent"}[s]
}

// segment is one piece of memory got from the driver. Its blocks are linked by prev and next from head on.
// Guarded by the lock of its shard; the list of segments by Caching.mu.
type segment struct {
	shard *shard
	kind  poolKind
	ptr   device.Ptr
	size  uint64
	reg   uint64 // registration number: how many segments the allocator took before
	place int    // index in Caching.segments
	head  *block
	vm    *virtualRange // nil for a plain segment
	stack fpstack.ID    // where it was got, if history is recorded
}

// block is a piece of a segment. Its object belongs to one shard for ever: when the block is merged away, the object waits
// in the shard's spare list, so allocation from cache makes no Go heap allocation and a stale handle always finds the
// right lock.
//
// While a block is allocated, its holder may read ptr and size, which the handle also carries.
type block struct {
	shard *shard // never written again, so that whoever holds a handle, a stale one too, finds the lock without holding it
	guarded
}

// guarded is what the shard's lock guards of a block. Its fields lie by who reads them, a cache line each: the free index; those who hand blocks out
// and take them back, of a plan or not; and those who cut and merge them.
type guarded struct {
	size        uint64
	reg         uint64 // the segment's
	ptr         device.Ptr
	left, right *block // in the index
	prio        uint32
	kind        poolKind
	state       blockState
	deferred    bool   // being freed by drainDeferredFrees; only known while history is recorded
	traced      bool   // freed says something
	generation  uint64 // moves on at each free, so stale handles are known

	requested uint64
	slot      *slot  // of a plan; nil for all other blocks
	entry     int32  // where a plan's recording has it, from 1; 0 is nowhere
	step      uint32 // of that recording
	users     []use
	stack     fpstack.ID // where the block was allocated, if history is recorded
	events    int32      // events of other streams that have not completed
	due       uint64     // of a pending block: when its stream waits for the events, by shard.given

	seg        *segment
	prev, next *block     // neighbours in the segment, by address
	gcBase     uint64     // value of the pool's search counter when the block was put into the index
	freed      freedBlock // the last one that this object stood for

	_ [24]byte // fills three cache lines: blocks of two streams, which two threads write, share none
}

// use is a stream whose work uses a block.
type use struct {
	stream  device.Stream
	capture uint64 // number of the graph capture that the work is part of; 0 if it runs
}

// over reports whether the use is part of a capture that has ended. What a graph does then it does in replays, which come one after the other on
// their stream.
func (u use) over() bool { return u.capture != 0 && streams.Capture(u.stream) != u.capture }

// addUser notes a use, once.
func (b *block) addUser(s device.Stream) {
	u := use{s, streams.Capture(s)}
	if !slices.ContainsFunc(b.users, func(v use) bool { return v.stream.ID() == s.ID() && v.capture == u.capture }) {
		// Close has waited for a stream's work. A block that lives for long would list all streams that there ever were.
		b.users = slices.DeleteFunc(b.users, func(v use) bool { return v.capture == 0 && streams.Closed(v.stream) })
		b.users = append(b.users, u)
	}
}

// freedBlock is what is known about a block that was freed, for the errors of its handles.
type freedBlock struct{ alloc, free fpstack.ID }

// whole reports whether the block is its entire segment: only then can it go back to the driver.
func (b *block) whole() bool { return b.prev == nil && b.next == nil }

// expandable reports whether the block is part of an expandable segment.
func (b *block) expandable() bool { return b.seg.vm != nil }

// plainWhole reports whether the block is an entire segment that is not expandable.
func (b *block) plainWhole() bool { return b.whole() && !b.expandable() }

// freedAs returns what is known of the block that h stood for: it must have been the last one freed in this object.
func (b *block) freedAs(h Block) freedBlock {
	if b.generation != h.generation+1 || !b.traced {
		return freedBlock{}
	}
	return b.freed
}
