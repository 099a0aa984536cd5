package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// HistoryOptions say what RecordHistory keeps. The zero value is PyTorch's _record_memory_history(), but for the limit on
// entries, which PyTorch does not have: the trace, and call stacks everywhere.
type HistoryOptions struct {
	Enabled HistoryMode
	Context HistoryContext
	// MaxEntries is how many entries of the trace are kept at most, the newest ones. 0 is DefaultHistoryEntries. An entry
	// takes 40 bytes; memory for them is taken as they come.
	MaxEntries int
	// SkipActions are left out of the trace, and do not count. PyTorch's viewer needs allocations and frees to be complete.
	SkipActions []Action
	// Clear forgets what was recorded before. It only matters if history is being recorded: otherwise there is nothing.
	Clear bool
}

// DefaultHistoryEntries is the usual HistoryOptions.MaxEntries.
const DefaultHistoryEntries = 100_000

// HistoryMode is whether the trace is recorded.
type HistoryMode uint8

// What to record.
const (
	HistoryAll   HistoryMode = iota // the trace, and where the blocks in use were allocated
	HistoryState                    // only where the blocks in use were allocated
)

// HistoryContext is where call stacks are kept. Each value includes those after it.
type HistoryContext uint8

// Where to keep call stacks.
const (
	ContextAll   HistoryContext = iota // also of frees, and of what gives segments back
	ContextAlloc                       // also in the trace's entries for allocations, segments and out-of-memory errors
	ContextState                       // with the blocks and segments there are
	ContextNone                        // nowhere
)

// RecordHistory begins to record what the allocator does, for Snapshot, and where, for BlockErrors. Called again, it changes
// the options and keeps what was recorded, as far as the new limit allows. The error is a *ConfigError.
//
// Package memory/internal/journal says how it works, doc.go what it costs.
func (a *Caching) RecordHistory(o HistoryOptions) error {
	if a.absent() {
		return argumentErr("RecordHistory", text.NilAllocator)
	}
	if err := o.Validate(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.historyOwned = true
	a.recordLocked(o)
	return nil
}

// recordLocked begins to record, or changes the options. Caller holds a.mu.
func (a *Caching) recordLocked(o HistoryOptions) {
	shards := a.lockShards()
	defer unlockShards(shards)
	if a.stacks.Load() == nil {
		a.stacks.Store(fpstack.NewTable(journal.MaxStacks))
	}
	// A trace without entries tells as much as a new one: one without a trace (HistoryState) before the first allocation has missed nothing.
	if rec := a.history.Load(); rec == nil || o.Clear || rec.Count() == 0 {
		a.beginDeeds()
	}
	if o.Enabled != HistoryAll || len(o.SkipActions) > 0 {
		a.spoil()
	}
	a.setRecorder(o.recorder(a.stacks.Load(), a.history.Load()), shards)
}

// StopHistory ends the recording and forgets the trace: take the snapshot before. The stacks of the blocks in use stay. While
// somebody has a share (ShareHistory), the recording goes on until that ends.
func (a *Caching) StopHistory() {
	if a.absent() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.historyOwned = false
	a.stopUnlessWanted()
}

// ShareHistory records for those who look at the program from outside, and must not change what it does itself: if history is
// being recorded, that goes on as it is, and else it begins with options o, which also take the place of those of shares without a trace
// (HistoryState) if o has one. The recording ends when stop was called for every
// share, unless the program has called RecordHistory meanwhile and not StopHistory. Calling stop again does nothing. The error is
// a *ConfigError.
func (a *Caching) ShareHistory(o HistoryOptions) (stop func(), err error) {
	if a.absent() {
		return nil, argumentErr("ShareHistory", text.NilAllocator)
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if rec := a.history.Load(); rec == nil || o.Enabled == HistoryAll && !rec.Traces() && !a.historyOwned {
		a.recordLocked(o) // a share without a trace, such as a memory report's, leaves nobody else without
	}
	a.historyShares++
	return sync.OnceFunc(a.endShare), nil
}

func (a *Caching) endShare() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.historyShares--
	a.stopUnlessWanted()
}

// stopUnlessWanted ends the recording if neither the program nor a share wants it. Caller holds a.mu.
func (a *Caching) stopUnlessWanted() {
	if a.historyOwned || a.historyShares > 0 {
		return
	}
	shards := a.lockShards()
	defer unlockShards(shards)
	a.setRecorder(nil, shards)
}

// setRecorder makes rec the recorder of all shards. Because all are locked, the trace begins at one moment for all of them.
func (a *Caching) setRecorder(rec *journal.Recorder, shards []*shard) {
	a.wantLabels(rec != nil && !a.closed.Load())
	a.history.Store(rec)
	a.log.SetRecorder(rec)
	for _, sh := range shards {
		sh.log.SetRecorder(rec)
	}
}

// wantLabels has operations enter their labels, or no more. Caller holds a.mu.
func (a *Caching) wantLabels(wanted bool) {
	switch {
	case wanted && a.labels == nil:
		a.labels = oplabel.Want()
	case !wanted && a.labels != nil:
		a.labels()
		a.labels = nil
	}
}

// HistoryEnabled reports whether history is being recorded.
func (a *Caching) HistoryEnabled() bool { return a != nil && a.history.Load() != nil }

// recorder makes a recorder with these options, which goes on with what old has recorded unless that is nil or Clear is set.
func (o HistoryOptions) recorder(stacks *fpstack.Table, old *journal.Recorder) *journal.Recorder {
	if o.Clear {
		old = nil
	}
	return journal.NewRecorder(journal.Options{Trace: o.Enabled == HistoryAll, Context: journal.Context(o.Context),
		Entries: cmp.Or(o.MaxEntries, DefaultHistoryEntries), Skip: journal.SkipNamed(o.SkipActions)}, stacks, old)
}

// Validate reports the first option that is out of range, as a *ConfigError.
func (o HistoryOptions) Validate() error {
	switch {
	case o.Enabled > HistoryState:
		return configError("history enabled", strconv.Itoa(int(o.Enabled)), "expected HistoryAll or HistoryState")
	case o.Context > ContextNone:
		return configError("history context", strconv.Itoa(int(o.Context)),
			"expected ContextAll, ContextAlloc, ContextState or ContextNone")
	case o.MaxEntries < 0:
		return configError("history max_entries", strconv.Itoa(o.MaxEntries), "expected a positive number, or 0 for the default")
	}
	for _, act := range o.SkipActions {
		if names := journal.ActionNames(); !slices.Contains(names, string(act)) {
			return configError("history skip_actions", string(act), fmt.Sprintf("expected some of %v", names))
		}
	}
	return nil
}
