package journal

import (
	"slices"
	"time"

	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/internal/oplabel"
)

// Recorder is the history being recorded. All logs of an allocator have the same one, or none.
//
// A call has its site noted, the time and if wanted the stack, before or under the lock that it takes anyway. It then writes its
// entries into the log if that has a recorder: only this counts, so that the trace begins and ends at one moment for all logs.
// A call that was under way when recording began has the zero Site, and its entries no stack.
type Recorder struct {
	trace   bool // entries are kept; else only stacks of blocks
	context Context
	skip    uint16 // bit i: entries with action i are left out
	journal *journal
	stacks  *fpstack.Table
	start   time.Time
	wall    int64 // start, in nanoseconds since 1970
}

// Options say what a Recorder keeps.
type Options struct {
	Trace   bool // entries; else only the stacks of blocks
	Context Context
	Entries int      // how many, the newest ones
	Skip    []Action // not these
}

// SkipNamed is Skip for words, which must be among ActionNames.
func SkipNamed[A ~string](names []A) (skip []Action) {
	for _, name := range names {
		skip = append(skip, Action(slices.Index(actionNames[:], string(name))))
	}
	return skip
}

// MaxStacks is how many different call stacks an allocator keeps. A program has as many as it has ways to reach Alloc and
// Free: some hundreds.
const MaxStacks = 1 << 15

// NewRecorder begins to record, with the stacks in a table that the allocator keeps, because blocks refer to it when the
// recording is over. If old is not nil, it goes on with what that has recorded, as far as the new limit allows.
func NewRecorder(o Options, stacks *fpstack.Table, old *Recorder) *Recorder {
	rec := &Recorder{trace: o.Trace, context: o.Context, stacks: stacks, start: time.Now()}
	rec.wall = rec.start.UnixNano()
	for _, act := range o.Skip {
		rec.skip |= 1 << act
	}
	if old != nil {
		rec.journal = old.journal
		rec.journal.resize(o.Entries)
	} else {
		rec.journal = newJournal(o.Entries)
	}
	return rec
}

// Count is how many entries were written so far, those that are no more among them.
func (rec *Recorder) Count() int { return int(rec.journal.last.Load()) }

// Traces reports whether entries are written.
func (rec *Recorder) Traces() bool { return rec.trace }

// KeepsStacks reports whether call stacks are kept at all.
func (rec *Recorder) KeepsStacks() bool { return rec.context != ContextNone }

// Site is when and where a call was made. The zero Site is unknown: entries then get the time at which they are written.
type Site struct {
	nanos int64 // since 1970
	Stack fpstack.ID
	Label oplabel.ID // the operation that makes the call
}

// OfAlloc is the site of a call that makes blocks and segments.
//
//go:noinline
func (rec *Recorder) OfAlloc() Site { return rec.site(ContextState) } // not inlined, so that what asks for a recorder first is

// OfFree is the site of a call that gives blocks and segments back.
//
//go:noinline
func (rec *Recorder) OfFree() Site { return rec.site(ContextAll) }

// site takes the time, and the stack if need is among the context that is recorded.
func (rec *Recorder) site(need Context) Site {
	m := Site{nanos: rec.now(), Label: oplabel.Current()}
	if rec.context <= need {
		m.Stack = rec.stacks.Here(uint32(m.Label))
	}
	return m
}

// now is cheaper than time.Now, which asks two clocks.
func (rec *Recorder) now() int64 { return rec.wall + int64(time.Since(rec.start)) }
