package fit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/memory"
)

// defaultSteps is the MaxSteps of a search that has none, and unwatchedSteps those of a Trial that a search has not made.
const (
	defaultSteps   = 64
	unwatchedSteps = 3
)

// Steps are the training steps that a trial wants, numbered from 0: until memory repeats itself, as the package comment says, at most MaxSteps, and none any more
// when a request has failed or the context is done. One pass of the loop is a whole step, with the optimizer's: of gradients that are
// accumulated it has all. A program of several phases has a loop for each, one after the other, and each has steps until memory repeats itself in it; a loop
// within a step of another is an error of the trial. Who leaves a loop early leaves open whether later steps fit (Result.LeftEarly). In a Trial that no
// search has made a loop has three.
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
		w := t.watch
		if w.within {
			w.misused = argumentErr("Trial.Steps was called within a step of another loop over Trial.Steps: phases come one after the other")
			return
		}
		w.within = true
		defer func() { w.within = false }() // also when a step panics
		l := w.begin()
		for w.next(l) {
			if !yield(l.steps - 1) {
				l.left = true
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
	most   int   // of a loop
	exact  bool  // take as many steps as plan says, and do not look
	plan   []int // by loop
	tape   *tape // of the step; nil where steps are not looked at

	loops   []*loop
	within  bool  // a loop goes on
	misused error // of the program
}

// loop is one over Trial.Steps.
type loop struct {
	most   int
	steps  int // begun
	steady bool
	left   bool // by the program, before it was known
	seen   []trail
	bases  []uint64 // addresses of the segments since the step began, in the order in which they came
}

// trail is what the allocator did in a step, with where, and what is in its segments at the end.
type trail [sha256.Size]byte

// begin begins a loop.
func (w *watch) begin() *loop {
	l := &loop{most: w.most}
	if w.exact {
		if l.most = 0; len(w.loops) < len(w.plan) {
			l.most = w.plan[len(w.loops)]
		}
	}
	w.loops = append(w.loops, l)
	return l
}

// taken are the steps of each loop, and sum those of all.
func (w *watch) taken() (loops []int, sum int) {
	for _, l := range w.loops {
		loops, sum = append(loops, l.steps), sum+l.steps
	}
	return loops, sum
}

// steady reports whether memory has repeated itself in each loop, of which there is one at least.
func (w *watch) steady() bool {
	return len(w.loops) > 0 && !slices.ContainsFunc(w.loops, func(l *loop) bool { return !l.steady })
}

// left reports whether the program has left a loop early.
func (w *watch) left() bool {
	return slices.ContainsFunc(w.loops, func(l *loop) bool { return l.left })
}

// next reports whether there is one more step to take, and begins it.
func (w *watch) next(l *loop) bool {
	if w.ctx.Err() != nil || w.failed.first() != nil || w.alloc.Stats().NumOOMs > 0 {
		return false
	}
	if l.steps > 0 && !w.exact && !l.steady {
		w.look(l)
	}
	if l.steady || l.steps >= l.most {
		return false
	}
	if !w.exact {
		w.record(l)
	}
	l.steps++
	return true
}

// record begins the tape of a step.
func (w *watch) record(l *loop) {
	w.tape.clear()
	if l.steps == 0 {
		l.segments(w.alloc.SnapshotState())
	}
}

func (l *loop) segments(s memory.Snapshot) {
	l.bases = l.bases[:0]
	for i := range s.Segments {
		l.bases = append(l.bases, uint64(s.Segments[i].Address))
	}
}

// look notes what the step was that has ended, and whether the last steps are those before over again. Then the next ones are, too: they begin with the
// same free blocks, and what a step frees of the one before lies where it lay. Ages of blocks are not seen, by which a threshold of garbage collection goes.
func (w *watch) look(l *loop) {
	events, whole := w.tape.events()
	if !whole || w.alloc.Config().GarbageCollectionThreshold > 0 {
		return
	}
	s := w.alloc.SnapshotState()
	l.seen = append(l.seen, l.trail(events, s))
	l.segments(s)
	l.steady = repeats(l.seen)
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

// trail sums up a step and a snapshot. Addresses are told by segments: those of a simulated device are never used again, and only their order counts.
func (l *loop) trail(events []memmeter.Event, s memory.Snapshot) trail {
	var b []byte
	number := func(all ...uint64) {
		for _, n := range all {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	for i := range events {
		e := &events[i]
		if e.Segment && (len(l.bases) == 0 || e.Addr > l.bases[len(l.bases)-1]) {
			l.bases = append(l.bases, e.Addr)
		}
		segment, offset := l.place(e.Addr)
		number(uint64(e.Action), e.Bytes, uint64(e.Stream), e.Pool[0], e.Pool[1], segment, offset)
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
func (l *loop) place(addr uint64) (segment, offset uint64) {
	i, found := slices.BinarySearch(l.bases, addr)
	if !found {
		i--
	}
	if i < 0 {
		return 0, addr
	}
	return uint64(i) + 1, addr - l.bases[i]
}
