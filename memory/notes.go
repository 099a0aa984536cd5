package memory

import (
	"slices"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
)

// recorder is the history being recorded: nil in Caching.history and in every log while there is none.
//
// A call looks at Caching.history before it takes a lock, and has its call site noted: the time and, if wanted, its stack. Under
// the shard's lock, which it takes anyway, it then writes its entries into the shard's log if that has a recorder: only
// this counts, so that the trace begins and ends at one moment for all shards. A call that was under way when recording
// began has an empty call site, and its entries no stack.
//
// The trace has an entry for each change: a walk back from the present segments and blocks through it meets a block where
// an entry frees one, and none where it allocates one. So each entry is written under the lock of the shard whose blocks
// change, together with the change.
type recorder struct {
	trace   bool // entries are kept; else only stacks of blocks
	context HistoryContext
	skip    uint16 // bit i: entries with action i are left out
	journal *journal
	stacks  *fpstack.Table
	start   time.Time
	wall    int64 // start, in nanoseconds since 1970
}

func newRecorder(o HistoryOptions, stacks *fpstack.Table) *recorder {
	rec := &recorder{trace: o.Enabled == HistoryAll, context: o.Context, stacks: stacks,
		journal: newJournal(o.MaxEntries), start: time.Now()}
	rec.wall = rec.start.UnixNano()
	for _, act := range o.SkipActions {
		rec.skip |= 1 << slices.Index(actionNames[:], act)
	}
	return rec
}

// callSite is when and where a call was made. The zero callSite is unknown: entries then get the time at which they are written.
type callSite struct {
	nanos int64 // since 1970
	stack fpstack.ID
}

// allocSite is for calls that make blocks and segments. No lock is held.
func (a *Caching) allocSite() callSite {
	if rec := a.history.Load(); rec != nil {
		return rec.ofAlloc()
	}
	return callSite{}
}

// freeSite is for calls that give blocks and segments back. No lock is held.
func (a *Caching) freeSite() callSite {
	if rec := a.history.Load(); rec != nil {
		return rec.ofFree()
	}
	return callSite{}
}

//go:noinline
func (rec *recorder) ofAlloc() callSite { return rec.site(ContextState) } // not inlined, so that allocSite is

//go:noinline
func (rec *recorder) ofFree() callSite { return rec.site(ContextAll) }

// site takes the time, and the stack if need is among the context that is recorded.
func (rec *recorder) site(need HistoryContext) callSite {
	m := callSite{nanos: rec.now()}
	if rec.context <= need {
		m.stack = rec.stacks.Here()
	}
	return m
}

// now is cheaper than time.Now, which asks two clocks.
func (rec *recorder) now() int64 { return rec.wall + int64(time.Since(rec.start)) }

// logbook is where a shard writes its entries. Guarded by the shard's lock; that of Caching by mu.
type logbook struct {
	rec    *recorder // nil while no history is recorded
	chunk  *chunk    // being filled
	stream device.StreamID
	pool   PoolID
	tag    entryTag // of the entries being written
}

// write adds an entry with a number of its own.
func (l *logbook) write(act action, addr device.Ptr, size uint64, m callSite) {
	rec := l.rec
	if !rec.trace || rec.skip>>act&1 != 0 {
		return
	}
	l.put(record{number: rec.journal.last.Add(1), addr: addr, size: size, nanos: m.nanos, stack: m.stack, action: act})
}

// writeFree adds the entry of a free, and if done says that nobody else uses the block also the one of its end.
func (l *logbook) writeFree(addr device.Ptr, size uint64, m callSite, done bool) {
	rec := l.rec
	if !done || rec.skip != 0 || !rec.trace {
		l.write(actFreeRequested, addr, size, m)
		if done {
			l.write(actFreeCompleted, addr, size, m)
		}
		return
	}
	// Two numbers at once: viewers show the pair as one event if nothing is between.
	r := record{number: rec.journal.last.Add(2) - 1, addr: addr, size: size, nanos: m.nanos, stack: m.stack, action: actFreeRequested}
	l.put(r)
	r.number, r.action = r.number+1, actFreeCompleted
	l.put(r)
}

func (l *logbook) put(r record) {
	c := l.chunk
	if c == nil || len(c.records) == cap(c.records) {
		c = l.rec.journal.next(l)
		l.chunk = c
	}
	if r.nanos == 0 {
		r.nanos = l.rec.now()
	}
	if l.rec.context > ContextAlloc {
		r.stack = 0
	}
	r.tag = l.tag
	c.records = append(c.records, r)
}

// noteAlloc notes a block that is handed out. There is a recorder, and the caller holds sh.mu.
func (sh *shard) noteAlloc(b *block, m callSite) { sh.log.write(actAlloc, b.ptr, b.requested, m) }

// noteFree notes a block that its holder gives back, before it merges with others; done says that nobody else uses it. There
// is a recorder, and the caller holds sh.mu.
func (sh *shard) noteFree(b *block, m callSite, done bool) {
	rec := sh.log.rec
	if b.deferred {
		b.deferred, m.stack = false, 0
	}
	if rec.context != ContextNone {
		b.freed = freedBlock{alloc: b.stack, free: m.stack}
	}
	if m.stack == 0 {
		m.stack = b.stack
	}
	sh.log.writeFree(b.ptr, b.requested, m, done)
}

// noteDeferred makes the entries of the free that follows have no stack: the one there is of somebody who has nothing to do
// with the block. No lock is held.
func (a *Caching) noteDeferred(h Block) {
	if a.history.Load() == nil || h.b.shard == nil || h.b.shard.owner != a {
		return
	}
	h.b.shard.mu.Lock()
	defer h.b.shard.mu.Unlock()
	if h.b.generation == h.generation {
		h.b.deferred = true
	}
}

// noteCompleted notes a pending block that nobody uses any more. There is a recorder, and the caller holds sh.mu.
func (sh *shard) noteCompleted(b *block) {
	sh.log.write(actFreeCompleted, b.ptr, b.requested, callSite{stack: b.stack})
}

// noteSegment notes memory that is got from the driver or given back. m may be without a stack: then it is seg's. Caller holds
// a.mu and sh.mu.
func (sh *shard) noteSegment(act action, seg *segment, addr device.Ptr, size uint64, m callSite) {
	if sh.log.rec == nil {
		return
	}
	if m.stack == 0 {
		m.stack = seg.stack
	}
	sh.log.write(act, addr, size, m)
}

// noteAbandon notes the end of the blocks of a segment that is given back whatever they are used for.
func (sh *shard) noteAbandon(seg *segment, m callSite) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.log.rec == nil {
		return
	}
	for b := seg.head; b != nil; b = b.next {
		switch b.state {
		case stateAllocated:
			sh.noteFree(b, m, true)
		case statePending:
			sh.noteCompleted(b)
		}
	}
}

// noteOOM notes a request that fails, in the shard that it was for. Caller holds a.mu and no shard.
func (a *Caching) noteOOM(r *request, deviceFree uint64) {
	sh := r.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.log.rec != nil {
		sh.log.write(actOOM, device.Ptr(deviceFree), r.size, r.site)
	}
}

// close keeps the entries of a shard that ceases to exist. Caller holds its lock.
func (l *logbook) close() {
	if l.rec != nil {
		l.rec.journal.seal(l)
		l.rec = nil
	}
}
