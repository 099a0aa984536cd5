package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// A snapshot is of one moment, and so all locks are held while it is copied: milliseconds, if there are 100,000 blocks. Who looks at a
// running program every second must not hold it up like that. So here the lists of blocks are read in pieces, and between two pieces the
// program goes on. What it does meanwhile to the segment being read changes the list: the shard moves the place of the reader
// along (shard.reader), and the address up to which was read tells what is new.

// pieceBlocks is how many blocks are looked at, at most, without letting the program go on: tens of microseconds.
const pieceBlocks = 512

// SnapshotInPieces is SnapshotState for looking at a running program often: no lock is held for longer than it takes to look at some
// hundred blocks, or to copy the list of segments. So it is not of one moment. Each address of a segment is told once, as it was at
// some time during the call; a segment that was taken or given back meanwhile may be there or not. If nothing is allocated or
// freed meanwhile, it is SnapshotState. It writes nothing into the trace.
func (a *Caching) SnapshotInPieces() Snapshot {
	if a.absent() {
		return Snapshot{}
	}
	layout, _ := a.layoutInPieces()
	a.mu.Lock()
	c := a.config
	a.mu.Unlock()
	return a.describe(layout, journal.Window{}, nil, c)
}

// layoutInPieces is layout without locks held. It also returns how long it held one at most.
func (a *Caching) layoutInPieces() (list []segmentLayout, most held) {
	a.reading.Lock()
	defer a.reading.Unlock()
	var r reader
	segments := r.segments(a)
	slices.SortFunc(segments, func(x, y *segment) int { return cmp.Compare(x.reg, y.reg) })
	list = make([]segmentLayout, 0, len(segments))
	for _, seg := range segments {
		if l, ok := r.read(seg); ok {
			list = append(list, l)
		}
	}
	for _, sh := range *a.shards.Load() {
		sh.mu.Lock()
		list = append(list, sh.steps.layout()...)
		sh.mu.Unlock()
	}
	slices.SortFunc(list, func(x, y segmentLayout) int { return cmp.Compare(x.number, y.number) })
	return list, r.most
}

// reader reads segments, one after the other.
type reader struct {
	piece [pieceBlocks]blockLayout // so that nothing is allocated under a lock
	most  held
}

// held is for how long a lock was held.
type held struct {
	time   time.Duration
	blocks int // that were looked at meanwhile
}

// segments copies the list of segments.
func (r *reader) segments(a *Caching) []*segment {
	a.mu.Lock()
	n := len(a.segments)
	a.mu.Unlock()
	list := make([]*segment, 0, n+n/8+8)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer r.held(time.Now(), nil)
	return append(list, a.segments...)
}

func (r *reader) held(since time.Time, blocks *int) {
	r.most.time = max(r.most.time, time.Since(since))
	if blocks != nil {
		r.most.blocks = max(r.most.blocks, *blocks)
	}
}

// read copies a segment. It is not ok if the segment is gone.
func (r *reader) read(seg *segment) (l segmentLayout, ok bool) {
	l = segmentLayout{number: seg.reg, ptr: seg.ptr, size: seg.size, kind: seg.kind, expandable: seg.vm != nil,
		stream: seg.shard.id(), pool: seg.shard.poolID(), stack: seg.stack}
	for at, end := seg.ptr, seg.ptr.Add(seg.size); at < end; {
		n, next, ok := r.next(seg, at)
		if !ok {
			return l, false
		}
		l.blocks = append(l.blocks, r.piece[:n]...)
		at = next
	}
	return l, true
}

// next reads the blocks from address at on, as many as fit into a piece, and returns their number and the address behind them. It
// may come to none, if the place has moved far away, and is called again then.
func (r *reader) next(seg *segment, at device.Ptr) (n int, behind device.Ptr, ok bool) {
	sh := seg.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	steps := 0
	defer r.held(time.Now(), &steps)
	b := sh.reader
	if at == seg.ptr {
		b = seg.head
	}
	if b == nil || b.seg != seg { // recycled: given back to the driver
		return 0, at, false
	}
	for ; b != nil; steps++ {
		sh.reader = b
		if n == pieceBlocks || steps == 2*pieceBlocks {
			return n, at, true
		}
		if b.ptr > at { // what was split off since lies before it
			b = b.prev
			continue
		}
		if end := b.ptr.Add(b.size); end > at {
			// A block that was merged since may begin before: that part was told.
			parts := []blockLayout{{ptr: b.ptr, size: b.size, requested: b.requested, state: b.state, events: b.events,
				stack: b.stack, generation: b.generation}}
			if b.state == stateLent {
				parts = sh.steps.partsOf(b)
			}
			for _, x := range parts {
				end := x.ptr.Add(x.size)
				if end <= at {
					continue
				}
				if n == pieceBlocks {
					return n, at, true
				}
				x.ptr, x.size = at, uint64(end-at)
				r.piece[n] = x
				n, at = n+1, end
			}
		}
		b = b.next
	}
	sh.reader = nil
	return n, at, true
}

// follow keeps the place of a reader when a block becomes part of its neighbour.
func (sh *shard) follow(gone, into *block) {
	if sh.reader == gone {
		sh.reader = into
	}
}
