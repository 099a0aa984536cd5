package fit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/cistern-ml/cistern/memory"
)

// defaultSteps is the MaxSteps of a search that has none, and unwatchedSteps those of a Trial that a search has not made.
const (
	defaultSteps   = 64
	unwatchedSteps = 3
)

// Steps are the training steps that a trial wants, numbered from 0: until memory repeats itself, as the package comment says, at most MaxSteps, and none any more
// when a request has failed or the context is done. One pass of the loop is a whole step, with the optimizer's: of gradients that are
// accumulated it has all. In a Trial that no search has made they are three.
func (t Trial) Steps() iter.Seq[int] {
	return func(yield func(int) bool) {
		if t.watch == nil {
			for i := range unwatchedSteps {
				if !yield(i) {
					return
				}
			}
			return
		}
		for t.watch.next() {
			if !yield(t.watch.steps - 1) {
				return
			}
		}
	}
}

// watch decides how many steps a trial takes, by what the allocator did in each.
type watch struct {
	ctx    context.Context
	alloc  *memory.Caching
	failed *failures
	most   int
	exact  bool // take most steps, and do not look
	traces bool // of requests are recorded

	steps  int // begun
	steady bool
	seen   []trail
	bases  []uint64 // addresses of the segments since the step began, in the order in which they came
}

// trail is what the allocator did in a step, with where, and what is in its segments at the end.
type trail [sha256.Size]byte

// next reports whether there is one more step to take, and begins it.
func (w *watch) next() bool {
	if w.ctx.Err() != nil || w.failed.first() != nil || w.alloc.Stats().NumOOMs > 0 {
		return false
	}
	if w.steps > 0 && !w.exact && !w.steady {
		w.look()
	}
	if w.steady || w.steps >= w.most {
		return false
	}
	if !w.exact {
		w.record()
	}
	w.steps++
	return true
}

// traceEntries is more than a step has; memory for them is taken as they come.
const traceEntries = 1 << 20

// record begins the trace of a step, unless the program records for itself.
func (w *watch) record() {
	if w.steps == 0 && w.alloc.HistoryEnabled() {
		return
	}
	// A trace that leaves something out is not run again under other settings when memory runs out: nobody reads these errors.
	o := memory.HistoryOptions{Context: memory.ContextNone, MaxEntries: traceEntries, SkipActions: []memory.Action{memory.ActionSnapshot}, Clear: true}
	if w.steps == 0 || w.traces {
		w.traces = w.alloc.RecordHistory(o) == nil
	}
	if w.steps == 0 {
		w.segments(w.alloc.SnapshotState())
	}
}

func (w *watch) segments(s memory.Snapshot) {
	w.bases = w.bases[:0]
	for i := range s.Segments {
		w.bases = append(w.bases, uint64(s.Segments[i].Address))
	}
}

// look notes what the step was that has ended, and whether the last steps are those before over again. Then the next ones are, too: they begin with the
// same free blocks, and what a step frees of the one before lies where it lay. Ages of blocks are not seen, by which a threshold of garbage collection goes.
func (w *watch) look() {
	s := w.alloc.Snapshot()
	if !w.traces || s.DroppedEntries > 0 || w.alloc.Config().GarbageCollectionThreshold > 0 {
		return
	}
	w.seen = append(w.seen, w.trail(s))
	w.segments(s)
	w.steady = repeats(w.seen)
}

// repeats reports whether the end of a list is twice the same.
func repeats(list []trail) bool {
	for period := 1; 2*period <= len(list); period++ {
		last := list[len(list)-period:]
		if slices.Equal(last, list[len(list)-2*period:len(list)-period]) {
			return true
		}
	}
	return false
}

// trail sums up a snapshot with the trace of a step. Addresses are told by segments: those of a simulated device are never used again, and only their order counts.
func (w *watch) trail(s memory.Snapshot) trail {
	var b []byte
	number := func(all ...uint64) {
		for _, n := range all {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	for _, trace := range s.DeviceTraces {
		for i := range trace {
			e := &trace[i]
			addr := uint64(e.Addr)
			if e.Action == memory.ActionSegmentAlloc && (len(w.bases) == 0 || addr > w.bases[len(w.bases)-1]) {
				w.bases = append(w.bases, addr)
			}
			segment, offset := w.place(addr)
			b = append(append(b, e.Action...), 0)
			number(e.Size, uint64(e.Stream), e.PoolID[0], e.PoolID[1], segment, offset)
		}
	}
	for i := range s.Segments {
		seg := &s.Segments[i]
		at := uint64(0)
		if seg.Expandable { // the gaps between its pages count
			at = uint64(seg.Address)
		}
		b = append(append(b, seg.Type...), 0)
		number(at, seg.TotalSize, uint64(seg.Stream), seg.PoolID[0], seg.PoolID[1], uint64(len(seg.Blocks)))
		for j := range seg.Blocks {
			b = append(append(b, seg.Blocks[j].State...), 0)
			number(seg.Blocks[j].Size)
		}
	}
	return sha256.Sum256(b)
}

// place is the segment that an address is in, by its number, and where in it.
func (w *watch) place(addr uint64) (segment, offset uint64) {
	i, found := slices.BinarySearch(w.bases, addr)
	if !found {
		i--
	}
	if i < 0 {
		return 0, addr
	}
	return uint64(i) + 1, addr - w.bases[i]
}
