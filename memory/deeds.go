package memory

import "sync/atomic"

// deeds is what a rehearsal must know of a program beside its allocations and frees, which are in the history: the calls that give the cache back or
// change the limit, and when the host waited for other streams. They are no entries of the trace, which has PyTorch's actions only.
type deeds struct {
	// The history does not tell the whole program, or the program did what a rehearsal cannot repeat. That stays so until a new history begins.
	spoiled atomic.Bool

	// Guarded by Caching.mu.
	list  []deed
	limit uint64 // of reserved bytes when the history began
}

// maxDeeds is how many are kept; a program that does more is not run again. It bounds their memory to half a megabyte.
const maxDeeds = 1 << 14

// deed is one of them.
type deed struct {
	kind  deedKind
	after int    // how many entries the history had then
	until int    // deedWait: and how many when the wait was over
	limit uint64 // deedLimit: of reserved bytes, from now on
}

type deedKind uint8

const (
	deedEmptyCache deedKind = iota
	deedLimit
	deedWait // for the work of other streams: the frees that it completed were not complete before
)

// spoil says that what the program does now cannot be repeated. It takes no lock.
func (a *Caching) spoil() {
	if !a.deeds.spoiled.Load() {
		a.deeds.spoiled.Store(true)
	}
}

// beginDeeds is called when a new history begins. It tells the whole program if the allocator is like a new one: nothing is allocated or cached, and
// nobody has what a rehearsal cannot repeat. Caller holds a.mu.
func (a *Caching) beginDeeds() {
	a.deeds.spoiled.Store(len(a.segments) > 0 || len(a.pools) > 0 || len(a.callbacks) > 0)
	a.deeds.list, a.deeds.limit = nil, a.limit.Load()
}

// noteDeed notes what the program does now. Caller holds a.mu.
func (a *Caching) noteDeed(d deed) {
	rec := a.history.Load()
	if rec == nil {
		return
	}
	if len(a.deeds.list) == maxDeeds {
		a.spoil()
	}
	if a.deeds.spoiled.Load() {
		a.deeds.list = nil
		return
	}
	now := rec.Count()
	if d.kind != deedWait {
		d.after = now
	} else if d.until = now; d.until == d.after { // nothing was waited for
		return
	}
	a.deeds.list = append(a.deeds.list, d)
}

// beginWait is the deed of a wait that begins; noteDeed ends it. Caller holds a.mu.
func (a *Caching) beginWait() deed {
	d := deed{kind: deedWait}
	if rec := a.history.Load(); rec != nil {
		d.after = rec.Count()
	}
	return d
}

// setLimit changes the limit of reserved bytes. Caller holds a.mu.
func (a *Caching) setLimit(bytes uint64) {
	a.limit.Store(bytes)
	a.noteDeed(deed{kind: deedLimit, limit: bytes})
}
