package memory

import (
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
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

// action is an index into actionNames.
type action uint8

const (
	actAlloc action = iota
	actFreeRequested
	actFreeCompleted
	actSegmentAlloc
	actSegmentFree
	actSegmentMap
	actSegmentUnmap
	actSnapshot
	actOOM
	numActions
)

var actionNames = [numActions]Action{ActionAlloc, ActionFreeRequested, ActionFreeCompleted, ActionSegmentAlloc, ActionSegmentFree,
	ActionSegmentMap, ActionSegmentUnmap, ActionSnapshot, ActionOOM}

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

// entryTag is what an entry's InternalMetadata says.
type entryTag uint8

const (
	tagNone entryTag = iota
	tagExact
)

func (t entryTag) String() string { return [...]string{"", "mallocWithAddress"}[t] }

// Frame is one level of a call stack.
type Frame struct {
	Filename string `json:"filename"`
	Line     int    `json:"line"`
	Name     string `json:"name"` // of the function, with its package
}

// symbols writes stacks out, each once.
type symbols struct {
	stacks *fpstack.Table // nil if history was never recorded
	known  map[fpstack.ID][]Frame
}

// methods is how the names of this package's methods begin. They are left out at the inner end of stacks, as it is always they
// that take them.
const methods = "github.com/cistern-ml/cistern/memory.(*"

// frames returns a stack, nil if it is not known.
func (s *symbols) frames(id fpstack.ID) []Frame {
	if id == 0 || s.stacks == nil {
		return nil
	}
	if list, ok := s.known[id]; ok {
		return list
	}
	var list []Frame
	for _, f := range s.stacks.Frames(id) {
		if len(list) > 0 || !strings.HasPrefix(f.Function, methods) {
			list = append(list, Frame{Filename: f.File, Line: f.Line, Name: f.Function})
		}
	}
	if s.known == nil {
		s.known = map[fpstack.ID][]Frame{}
	}
	s.known[id] = list
	return list
}

// entries puts the records of a copy into order and writes them out; of one pool, or of all.
func (w *window) entries(s *symbols, want *Pool) []TraceEntry {
	if w.last == w.floor {
		return []TraceEntry{}
	}
	// Numbers have no gaps, so the number is the place. Those not wanted leave holes.
	list := make([]TraceEntry, w.last-w.floor)
	records := w.records
	for _, run := range w.runs {
		for _, r := range records[:run.n] {
			if r.number > w.floor && (want == nil || want.id == run.pool) {
				list[r.number-w.floor-1] = r.entry(run, s)
			}
		}
		records = records[run.n:]
	}
	kept := list[:0]
	var latest int64
	for _, e := range list {
		if e.Action != "" {
			latest = max(latest, e.TimeUS) // a call has the time at which it began, and its number from when it had the lock
			e.TimeUS = latest
			kept = append(kept, e)
		}
	}
	return kept
}

func (r *record) entry(run run, s *symbols) TraceEntry {
	e := TraceEntry{Action: actionNames[r.action], Addr: r.addr, Size: r.size, Stream: run.stream, TimeUS: r.nanos / 1000,
		PoolID: run.pool, Frames: s.frames(r.stack), InternalMetadata: r.tag.String()}
	if r.action == actOOM {
		e.Addr, e.DeviceFree = 0, uint64(r.addr)
	}
	return e
}
