package memory

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/streams"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// Caching is PyTorch's caching allocator for one device. See the package comment for how it works.
//
// Where PyTorch has one recursive mutex for each device, there is one lock for each stream (shard.mu), which is all that a request
// served from cache takes, and one for what concerns several streams or the driver (mu). What the fast path reads of the whole
// allocator is atomic, and either a number or something that is replaced and never changed.
type Caching struct {
	driver Driver
	id     device.ID
	policy atomic.Pointer[policy] // of config. A request loads it once: what it rounds, finds and splits by must be the same
	config Config                 // guarded by mu; as the program gave it, for Config and snapshots

	limit        atomic.Uint64            // most bytes that may be reserved; unlimited if there is no limit
	limitInBytes atomic.Bool              // the limit is SetMemoryLimit's, for errors
	searches     [poolKinds]atomic.Uint64 // searches of all indices of a kind: the clock of garbage collection
	pendingWork  atomic.Int64             // outstanding events and queued frees: Alloc looks after them if there are any
	syncs        atomic.Int64             // NumSyncAllStreams; not in dev, because syncEvents may be called without mu
	closed       atomic.Bool              // set before Close takes mu, so that a request that waits for mu sees it (refused)
	auditor      auditor                  // counts the checks of builds with the tag "invariants"

	// Two ways from a stream to its shard, neither of which takes a lock. Most programs have a few streams with small numbers and
	// no private pool: for them direct is an index and a comparison. All others are found by binary search.
	direct   [directBindings]atomic.Pointer[binding] // the default pools' shards, by their streams' keys; those that share a place are found by number
	shards   atomic.Pointer[[]*shard]                // all shards by pool and stream; replaced, never changed, under mu and peaks.mu
	captures atomic.Int32                            // that CaptureGraph has begun
	routes   atomic.Pointer[[]route]                 // requests that go to private pools, innermost last; replaced, never changed, under mu. Nil if none

	mu            driverLock // segments, and everything that looks at several streams. Taken first
	segments      []*segment // in no order: each knows its place. The order of PyTorch's walks is by registration (segment.reg)
	registrations uint64     // the next segment's number: never used twice, so that "older" is a comparison
	underway      uint64     // bytes being asked of the driver without the lock
	moves         moveBudget // of compaction
	peakBefore    uint64     // the most that was allocated at once before the peaks were last reset
	dev           Stats      // what moves under mu: segments, reserved bytes, calls. The rest is in the shards
	gone          tallies    // what shards counted that no longer exist
	pools         []*Pool    // private pools that are alive or still hold segments, by id
	deadPools     []deadPool // the last maxDeadPools, the oldest first
	lastPool      PoolID     // the highest numbers given to private pools
	noAliases     bool       // guarded by mu: the driver has told that it cannot map a page twice
	plan          *Plan      // nil if there is none
	callbacks     []func() bool
	calling       sync.Mutex // callbacks run. Taken without any other lock
	reading       sync.Mutex // a snapshot is taken in pieces. Taken before all others

	history   atomic.Pointer[journal.Recorder] // nil if none is recorded; replaced under mu and the locks of all shards
	stacks    atomic.Pointer[fpstack.Table]    // nil until history is recorded for the first time
	log       journal.Logbook                  // guarded by mu; for what concerns no stream
	behalf    journal.Site                     // guarded by mu: the call that holds the driver lock
	deeds     deeds                            // for rehearsals
	observers []func(*OOMError)                // guarded by mu

	releaseObservers []func(Release)                 // guarded by mu
	meters           atomic.Pointer[memmeter.Meters] // nil for none; replaced under mu and the locks of all shards

	tape atomic.Pointer[func(memmeter.Event)] // nil for none

	historyOwned  bool   // by the program: RecordHistory. Guarded by mu
	historyShares int    // of ShareHistory. Guarded by mu
	labels        func() // ends that operations enter their labels; nil while no history is recorded. Guarded by mu

	// Each has a lock of its own; doc.go has the order.
	peaks         peaks
	events        events
	deferredFrees deferredFrees
	oversize      struct {
		mu   sync.Mutex // taken last
		stat Stat       // moves with few blocks, if any (max_split_size_mb), so all shards share one
	}
}

// New makes a caching allocator for a device. Most programs use For, which keeps one for each device. The error is a
// *ConfigError, or an *ArgumentError if there is no device.
func New(d Driver, c Config) (*Caching, error) {
	if text.NoDevice(d) {
		return nil, argumentErr("New", text.NilDevice)
	}
	a := &Caching{driver: d, id: d.ID(), events: events{queues: newEventQueues(d)}}
	a.shards.Store(new([]*shard))
	a.limit.Store(unlimited)
	if err := a.SetConfig(c); err != nil {
		return nil, err
	}
	return a, nil
}

// absent reports whether there is no allocator: a nil pointer, or a zero value, which New did not make.
func (a *Caching) absent() bool { return a == nil || a.driver == nil }

// Config returns the settings in force.
func (a *Caching) Config() Config {
	if a.absent() {
		return Config{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// SetConfig changes the settings. Blocks in use and cached stay valid; later calls follow the new settings.
func (a *Caching) SetConfig(c Config) error {
	if a.absent() {
		return argumentErr("SetConfig", text.NilAllocator)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.MemoryFraction != nil {
		if err := a.setFraction(*c.MemoryFraction); err != nil {
			return err
		}
	}
	if a.registrations > 0 && c != a.config { // a program is run again under one Config
		a.spoil()
	}
	a.config = c
	a.policy.Store(newPolicy(c)) // the last step, after all that can fail
	return nil
}

// Device is the device whose memory this is.
func (a *Caching) Device() device.ID {
	if a == nil {
		return device.ID{}
	}
	return a.id
}

// Alloc implements Allocator. Served from cache it takes one lock, that of the stream, and makes no Go heap allocation.
func (a *Caching) Alloc(bytes uint64, s device.Stream) (Block, error) {
	if a.absent() {
		return Block{}, argumentErr("Alloc", text.NilAllocator)
	}
	if invariants.Enabled {
		defer a.audit("Alloc")
	}
	if bytes == 0 {
		return Block{}, nil
	}
	if s == nil { // a nil pointer is refused where the stream is not known yet
		return Block{}, argumentErr("Alloc", "%s", isnil.Why("stream", s))
	}
	// First of all, as PyTorch's process_events: what has completed may be the block that serves this request. There is no other
	// time at which it is done, so without an Alloc pending memory stays pending.
	if a.pendingWork.Load() != 0 {
		a.doPendingWork(s)
	}
	if a.routes.Load() != nil {
		return a.allocRouted(bytes, s)
	}
	var sh *shard
	if b := a.bindingOf(s); b != nil && !b.closed() {
		sh = b.shard
	} else {
		var err error
		if sh, err = a.shardIn(nil, s); err != nil {
			return Block{}, err
		}
	}
	return a.allocIn(sh, bytes) // from one line: the stacks of a program's place are one
}

// allocIn serves a request from the pools of one shard.
func (a *Caching) allocIn(sh *shard, bytes uint64) (Block, error) {
	if bytes >= maxRequest {
		return Block{}, a.tooLarge(bytes)
	}
	m := a.allocSite() // walks the stack: not under a lock
	p := a.policy.Load()
	size := p.blockSize(bytes)
	kind := p.pool(size)
	a.tick(p, sh, kind) // before the search, as in PyTorch: a block cached later has an age that does not count this one
	if !sh.mu.TryLock() {
		sh.mu.spin()
	}
	if p.compaction != 0 && p.expandable {
		if sh.isDue() {
			sh.mu.Unlock() // mu and events.mu come before it
			a.completeOverdue(p, sh)
			sh.mu.Lock()
		}
		sh.given += size
	}
	var b *block
	if st := sh.steps; st != nil {
		if s := st.serveNext(size); s != nil {
			return sh.finishNext(p, s, bytes, m), nil
		}
		b = a.planned(sh, size)
	}
	if b == nil {
		b = sh.take(p, kind, size)
	}
	if b == nil {
		// mu comes before sh.mu, so this one must be released first. What happens in between is grow's affair.
		r := &request{policy: p, shard: sh, kind: kind, bytes: bytes, size: size, site: m}
		if sh.steps != nil {
			r.answer = sh.steps.answer
		}
		sh.mu.Unlock()
		return a.allocSlow(r)
	}
	return sh.finish(p, b, size, bytes, m), nil
}

// tick moves the clock of garbage collection on: once for each search of the default pools. Without a threshold and a limit nobody
// reads the clock, and the streams do not share a counter.
func (a *Caching) tick(p *policy, sh *shard, kind poolKind) {
	if p.gcThreshold > 0 && sh.pool == nil && a.limit.Load() != unlimited {
		a.searches[kind].Add(1)
	}
}

// finish hands b out and returns its handle. It is called with sh.mu held and releases it.
func (sh *shard) finish(p *policy, b *block, size, bytes uint64, m journal.Site) Block {
	if b.slot == nil {
		b = sh.handOut(p, b, size, bytes)
	} else { // planned, and of the right size
		b = sh.count(b, bytes)
	}
	b.stack = m.Stack
	if sh.steps != nil {
		sh.steps.note(b, size)
	}
	return sh.give(p, b, m)
}

// finishNext is finish for a slot that serveNext found.
func (sh *shard) finishNext(p *policy, s *slot, bytes uint64, m journal.Site) Block {
	b := s.b
	b.requested, b.stack = bytes, m.Stack
	sh.tally.handOut(b.kind, int64(s.size), int64(bytes))
	sh.steps.noteNext(b, s.size)
	return sh.give(p, b, m)
}

// give ends a request: the block is the caller's, and the lock, which is held, is released.
func (sh *shard) give(p *policy, b *block, m journal.Site) Block {
	if sh.log.On() {
		sh.noteAlloc(b, m)
	}
	h := Block{b: b, generation: b.generation, ptr: b.ptr, size: b.size} // read here: without the lock b may change
	over := sh.tally.over
	sh.mu.Unlock()
	// Peaks are settled with all shards locked, for which this one must be free. A Free that gets in between lowers the sum before
	// it is looked at; the two calls overlap, so it is as true that the Free came first.
	if over != 0 {
		sh.owner.settlePeaks(sh)
	}
	if h.size >= p.maxSplit {
		sh.owner.countOversize(1)
	}
	return h
}

func (a *Caching) countOversize(n int64) {
	a.oversize.mu.Lock()
	defer a.oversize.mu.Unlock()
	if n > 0 {
		a.oversize.stat.increase(n)
	} else {
		a.oversize.stat.decrease(-n)
	}
}

// passOversize counts an oversize block that is freed in the call that allocated it: no peak sees it.
func (a *Caching) passOversize() {
	a.oversize.mu.Lock()
	defer a.oversize.mu.Unlock()
	a.oversize.stat.Allocated++
	a.oversize.stat.Freed++
}

// Free implements Allocator.
func (a *Caching) Free(h Block) error {
	if a.absent() {
		return argumentErr("Free", text.NilAllocator)
	}
	if invariants.Enabled {
		defer a.audit("Free")
	}
	m := a.freeSite() // before the lock, like allocSite
	b := h.b
	if b == nil {
		return nil
	}
	// A block's object is of one shard for ever and b.shard is never written again: a stale handle, too, finds the right lock.
	sh := b.shard
	if sh == nil || sh.owner != a {
		return &BlockError{Op: "Free", Device: a.id, Ptr: h.ptr, Size: h.size, Err: ErrForeignBlock}
	}
	if !sh.mu.TryLock() {
		sh.mu.spin()
	}
	// The generation tells handles apart whose memory was given to others since. The state alone would not, nor would the address.
	if b.generation != h.generation || b.state != stateAllocated {
		freed := b.freedAs(h)
		sh.mu.Unlock()
		return a.staleBlock("Free", h, freed, ErrDoubleFree)
	}
	sh.release(b)
	users := b.users
	if sh.log.On() {
		sh.noteFree(b, m, len(users) == 0) // before it merges: the entry has the block's own address
	}
	if len(users) == 0 {
		sh.complete(b)
	} else {
		// Counted before the events exist, so that the first of them to complete does not find a count of 0. A pending block is
		// nobody's: RecordStream and Free refuse it, neighbours do not merge with it. So park may read users without the lock.
		sh.suspend(b)
		b.events = int32(len(users))
		sh.setDue(b)
	}
	over := sh.tally.over
	sh.mu.Unlock()
	if len(users) != 0 {
		a.park(b, users) // events.mu comes before sh.mu
	}
	if over != 0 { // of the inactive splits, which a free may raise
		a.settlePeaks(sh)
	}
	// By the setting of now, although the block may have been counted by another: as PyTorch does.
	if p := a.policy.Load(); h.size >= p.maxSplit {
		a.countOversize(-1)
	}
	return nil
}

// RecordStream implements Allocator.
func (a *Caching) RecordStream(h Block, s device.Stream) error {
	if a.absent() {
		return argumentErr("RecordStream", text.NilAllocator)
	}
	if invariants.Enabled {
		defer a.audit("RecordStream")
	}
	b := h.b
	if b == nil {
		return nil
	}
	sh := b.shard
	if sh == nil || sh.owner != a {
		return &BlockError{Op: "RecordStream", Device: a.id, Ptr: h.ptr, Size: h.size, Err: ErrForeignBlock}
	}
	if s == nil {
		return argumentErr("RecordStream", "%s", isnil.Why("stream", s))
	}
	// The block's own stream is the usual argument, of code that records whatever it runs on: one comparison, without a lock.
	own := sh.bound.Load()
	if s != own.known {
		if err := checkStream("RecordStream", a.id, a.driver, s); err != nil {
			return err
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.generation != h.generation || b.state != stateAllocated {
		return a.staleBlock("RecordStream", h, b.freedAs(h), text.UsedLate(&a.closed, ErrUseAfterFree))
	}
	// Its own stream needs no event: who gets the memory next comes after this work there. A closed one has none outstanding.
	if s != own.known && s.ID() != own.id && !streams.Closed(s) {
		b.addUser(s)
	}
	return nil
}

// Close gives everything back to the driver, blocks in use included: their handles become stale without notice (RecordStream says
// device.ErrClosed), so it is for the end of a program or test. It returns a *LeakError if blocks were in use, joined with the errors of the driver.
func (a *Caching) Close() error {
	if a.absent() || a.closed.Swap(true) { // one caller wins; the others may return before it is done
		return nil
	}
	return a.close()
}

// Closed implements CloseReporter.
func (a *Caching) Closed() bool { return a.absent() || a.closed.Load() }

// String names the allocator and its device, and says when it is closed.
func (a *Caching) String() string {
	if a.absent() {
		return "caching allocator (nil)"
	}
	return text.Allocator("caching allocator", a.id, &a.closed)
}
