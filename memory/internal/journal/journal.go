package journal

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
)

// record is one entry of the trace, without what its chunk says.
type record struct {
	number uint64 // in the order of all shards, from 1, without gaps
	addr   device.Ptr
	size   uint64
	nanos  int64
	stack  fpstack.ID
	action Action
	tag    Tag
}

// chunk is a run of one shard's entries.
type chunk struct {
	stream  device.StreamID
	pool    Pool
	records []record // in order of number; grows up to its capacity. Records hold no pointers for the collector to follow
}

// journal keeps the newest entries of all shards. Each shard fills a chunk of its own, so that writing an entry takes no
// lock but the shard's. A full chunk goes to the end of the queue. The first chunk is dropped, to be filled again, as soon
// as enough entries are newer than all of it; so in the steady state there is no garbage.
//
// The trace is what is newer than everything dropped: numbers have no gaps, so it is complete, and its length is the
// difference of two numbers. Besides it there are only entries in chunks that a shard began before the last one dropped was
// queued: at most one for each shard. That, and the chunk being filled, is all the memory beyond the entries asked for.
type journal struct {
	last atomic.Uint64 // the number of the newest entry

	mu      sync.Mutex // taken last
	entries uint64     // how many to keep
	queue   []*chunk   // full ones, the first queued first
	spare   []*chunk   // dropped ones, to be filled again
	floor   uint64     // the highest number dropped
}

// ChunkSize is how many entries a log writes without a lock of the journal's.
const ChunkSize = 256

func newJournal(entries int) *journal { return &journal{entries: uint64(entries)} }

// size is how many entries a chunk has: fewer if few are to be kept.
func (j *journal) size() int { return int(min(max(j.entries/16, 1), ChunkSize)) }

// resize changes how many entries are kept.
func (j *journal) resize(entries int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = uint64(entries)
	j.trim()
	j.spare = nil
}

// next takes the full chunk of a log, if it has one, and returns an empty one.
func (j *journal) next(l *Logbook) *chunk {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.chunk != nil {
		j.queue = append(j.queue, l.chunk)
	}
	j.trim()
	var c *chunk
	if n := len(j.spare); n > 0 {
		c, j.spare = j.spare[n-1], j.spare[:n-1]
	} else {
		c = &chunk{}
	}
	if cap(c.records) != j.size() {
		c.records = make([]record, 0, j.size())
	}
	c.stream, c.pool, c.records = l.Stream, l.Pool, c.records[:0]
	return c
}

// trim drops the chunks that are not needed. Caller holds j.mu.
func (j *journal) trim() {
	for len(j.queue) > 0 {
		first := j.queue[0]
		floor := max(j.floor, first.records[len(first.records)-1].number)
		if j.last.Load()-floor < j.entries {
			break
		}
		j.floor = floor
		j.spare = append(j.spare, first)
		copy(j.queue, j.queue[1:])
		j.queue = j.queue[:len(j.queue)-1]
	}
}

// seal queues what a log that will write no more has, full or not.
func (j *journal) seal(l *Logbook) {
	if l.chunk == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	l.chunk.records = slices.Clone(l.chunk.records) // no larger than it is
	j.queue = append(j.queue, l.chunk)
	l.chunk = nil
}

// prepare makes room for a copy of the entries of some logs, so that copy need not do it under the locks.
func (j *journal) prepare(logs int) (w Window) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := logs * j.size()
	for _, c := range j.queue {
		n += len(c.records)
	}
	w.records = make([]record, 0, n+n/8)
	return w
}

// copy takes the entries. Caller has locked all that write: logs are theirs.
func (j *journal) copy(w *Window, logs []*Logbook) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.queue {
		w.add(c)
	}
	for _, l := range logs {
		if l.chunk != nil {
			w.add(l.chunk)
		}
	}
	w.last = j.last.Load()
	w.floor = j.floor
	if w.last-w.floor > j.entries {
		w.floor = w.last - j.entries
	}
}
