package memory

import (
	"runtime"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// Action is what an entry of the trace is about, in PyTorch's words.
type Action string

// The actions.
const (
	ActionAlloc         Action = "alloc"          // a block was handed out
	ActionFreeRequested Action = "free_requested" // its holder gave it back
	ActionFreeCompleted Action = "free_completed" // nobody uses it any more: directly after, unless other streams did
	ActionSegmentAlloc  Action = "segment_alloc"  // a segment was got from the driver
	ActionSegmentFree   Action = "segment_free"   // and given back
	ActionSegmentMap    Action = "segment_map"    // memory was put behind addresses of an expandable segment
	ActionSegmentUnmap  Action = "segment_unmap"  // and taken away
	ActionSnapshot      Action = "snapshot"       // a snapshot was taken; it is in the next one
	ActionOOM           Action = "oom"            // a request could not be served
)

// TraceEntry is one thing that the allocator did. Size is, for blocks, what was asked for; for segments and pages, what the
// driver gave or got; for ActionOOM, the rounded request; and for ActionSnapshot, the sum of the active blocks.
type TraceEntry struct {
	Action     Action          `json:"action"`
	Addr       device.Ptr      `json:"addr,omitempty"`        // of the block, segment or pages
	DeviceFree uint64          `json:"device_free,omitempty"` // for ActionOOM instead: what the driver had free, in bytes
	Size       uint64          `json:"size"`                  // bytes
	Stream     device.StreamID `json:"stream"`
	TimeUS     int64           `json:"time_us"` // microseconds since 1970; never less than that of the entry before
	PoolID     [2]uint64       `json:"pool_id"`
	Frames     []Frame         `json:"frames"` // where, innermost first. Entries from the same place share it

	// InternalMetadata is "mallocWithAddress" in the entries that AllocAt makes, of which some are of a block that nobody asked
	// for, and else empty.
	InternalMetadata string `json:"internal_metadata,omitempty"`
}

// Frame is one level of a call stack: a function of the program, or the ends of a run of functions of this library. The first one may stand for
// an Operation.
type Frame struct {
	Filename string `json:"filename"`
	Line     int    `json:"line"`
	Name     string `json:"name"` // of the function, with its package
}

// symbols writes stacks out, each once.
type symbols = journal.Symbols[Frame]

func newSymbols(stacks *fpstack.Table) *symbols {
	return journal.NewSymbols(stacks, func(f runtime.Frame) Frame { return Frame{Filename: f.File, Line: f.Line, Name: f.Function} })
}

// operation is what a stack was taken in.
func operation(syms *symbols, id fpstack.ID) Operation {
	l := syms.Label(id)
	return Operation{Name: l.Op, Module: l.Module, Backward: l.Backward}
}

// traceEntries writes out the entries of one pool, or of all.
func traceEntries(w *journal.Window, syms *symbols, want *Pool) []TraceEntry {
	var id *journal.Pool
	if want != nil {
		id = (*journal.Pool)(&want.id)
	}
	list := []TraceEntry{}
	for e := range w.Entries(id) {
		list = append(list, traceEntry(&e, syms))
	}
	return list
}

func traceEntry(e *journal.Entry, syms *symbols) TraceEntry {
	t := TraceEntry{Action: Action(e.Action.String()), Addr: e.Addr, Size: e.Size, Stream: e.Stream, TimeUS: e.TimeUS,
		PoolID: e.Pool, Frames: syms.Frames(e.Stack), InternalMetadata: e.Tag.String()}
	if e.Action == journal.OOM {
		t.Addr, t.DeviceFree = 0, uint64(e.Addr)
	}
	return t
}
