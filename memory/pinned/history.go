package pinned

import (
	"cmp"
	"reflect"
	"runtime"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// RecordHistory begins to record what the allocator does, for Snapshot, with the options of memory.Caching.RecordHistory. It is
// independent of the recording of device memory. Called again, it changes the options and keeps what was recorded, as far as
// the new limit allows. The error is a *memory.ConfigError.
//
// Each bucket writes its entries into a log of its own, under its lock, together with the change that they are about; so
// undoing the trace from the blocks of a snapshot backwards meets a block where an entry frees one, and none where it
// allocates one. A call's time and stack are taken under that lock as well.
func (p *Allocator) RecordHistory(o memory.HistoryOptions) error {
	if p.absent() {
		return argumentErr("pinned.RecordHistory", text.NilAllocator)
	}
	if err := o.Validate(); err != nil {
		return err
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	if p.stacks == nil {
		p.stacks = fpstack.NewTable(journal.MaxStacks)
	}
	old := p.buckets[0].log.Recorder()
	if o.Clear {
		old = nil
	}
	p.setRecorder(journal.NewRecorder(journal.Options{Trace: o.Enabled == memory.HistoryAll, Context: journal.Context(o.Context),
		Entries: cmp.Or(o.MaxEntries, memory.DefaultHistoryEntries), Skip: journal.SkipNamed(o.SkipActions)}, p.stacks, old))
	return nil
}

// StopHistory ends the recording and forgets the trace: take the snapshot before. The stacks of the blocks in use stay.
func (p *Allocator) StopHistory() {
	if p.absent() {
		return
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	p.setRecorder(nil)
}

// HistoryEnabled reports whether history is being recorded.
func (p *Allocator) HistoryEnabled() bool {
	if p.absent() {
		return false
	}
	k := &p.buckets[0] // they all have the same recorder
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.log.On()
}

// setRecorder begins or, with nil, ends the recording. Caller holds all buckets.
func (p *Allocator) setRecorder(rec *journal.Recorder) {
	for i := range p.buckets {
		p.buckets[i].log.SetRecorder(rec)
	}
}

// addressOf is where memory lies in this program.
func addressOf(mem []byte) device.Ptr { return device.Ptr(reflect.ValueOf(mem).Pointer()) }

// noteAlloc notes a block that is handed out; fresh says that the driver has just given it. There is a recorder, and the caller
// holds k.mu: so it is with all of these.
func (k *bucket) noteAlloc(b *block, fresh bool) {
	m := k.log.Recorder().OfAlloc()
	if b.stack = m.Stack; fresh {
		b.made = m.Stack
		k.log.Write(journal.SegmentAlloc, b.addr, b.size, m)
	}
	k.log.Write(journal.Alloc, b.addr, b.requested, m)
}

// noteFree notes a block that its holder gives back; done says that nobody else uses it.
func (k *bucket) noteFree(b *block, done bool) {
	m := k.log.Recorder().OfFree()
	if m.Stack == 0 {
		m.Stack = b.stack
	}
	k.log.WriteFree(b.addr, b.requested, m, done)
}

// noteCompleted notes a pending block that nobody uses any more.
func (k *bucket) noteCompleted(b *block) {
	k.log.Write(journal.FreeCompleted, b.addr, b.requested, journal.Site{Stack: b.stack})
}

// noteAbandoned notes the end of a block in use when the allocator is closed.
func (k *bucket) noteAbandoned(b *block) {
	if b.state == stateAllocated {
		k.noteFree(b, true)
	} else {
		k.noteCompleted(b)
	}
}

// noteReleased notes a block that the driver is given back. It is noted before: the driver may give the same address to
// somebody else before it returns.
func (k *bucket) noteReleased(b *block) {
	m := k.log.Recorder().OfFree()
	if m.Stack == 0 {
		m.Stack = b.made
	}
	k.log.Write(journal.SegmentFree, b.addr, b.size, m)
}

// noteKept notes a block that the driver refused.
func (k *bucket) noteKept(b *block) {
	k.log.Write(journal.SegmentAlloc, b.addr, b.size, journal.Site{Stack: b.made})
}

// Snapshot is the state of a Allocator at one moment and, if its history is recorded, how it came about: the host keys of
// torch.cuda.memory._snapshot().
type Snapshot struct {
	Segments       []memory.SegmentInfo // by address: one for each block, on device -1
	Trace          []memory.TraceEntry
	DroppedEntries int64 // entries recorded before those in the trace
	DroppedStacks  int64 // call stacks for which there was no room
}

// Snapshot returns the blocks and the trace, all of one moment. It looks at no events. The locks are held for a copy.
func (p *Allocator) Snapshot() Snapshot {
	if p.absent() {
		return Snapshot{}
	}
	p.lockBuckets()
	var w journal.Window
	if rec := p.buckets[0].log.Recorder(); rec != nil {
		var logs []*journal.Logbook
		for i := range p.buckets {
			logs = append(logs, &p.buckets[i].log)
		}
		w = rec.Prepare(len(logs))
		rec.Copy(&w, logs)
	}
	var blocks []layout
	for i := range p.buckets {
		for _, b := range p.buckets[i].all {
			if b.state == stateReleasing {
				continue
			}
			blocks = append(blocks, layout{b.addr, b.size, b.requested, b.state, b.stack, b.made})
		}
	}
	syms := journal.NewSymbols(p.stacks, func(f runtime.Frame) memory.Frame {
		return memory.Frame{Filename: f.File, Line: f.Line, Name: f.Function}
	})
	p.unlockBuckets()

	slices.SortFunc(blocks, func(x, y layout) int { return cmp.Compare(x.addr, y.addr) })
	s := Snapshot{Segments: []memory.SegmentInfo{}, Trace: []memory.TraceEntry{}, DroppedEntries: w.Dropped(),
		DroppedStacks: syms.Dropped()}
	for e := range w.Entries(nil) {
		s.Trace = append(s.Trace, memory.TraceEntry{Action: memory.Action(e.Action.String()), Addr: e.Addr, Size: e.Size, TimeUS: e.TimeUS,
			Frames: syms.Frames(e.Stack)})
	}
	for _, b := range blocks {
		s.Segments = append(s.Segments, b.info(syms))
	}
	return s
}

// layout is a copy of a block, described when the locks are free again.
type layout struct {
	addr      device.Ptr
	size      uint64
	requested uint64
	state     blockState
	stack     fpstack.ID
	made      fpstack.ID
}

func (b *layout) info(syms *journal.Symbols[memory.Frame]) memory.SegmentInfo {
	s := memory.SegmentInfo{Device: -1, Address: b.addr, TotalSize: b.size, Type: "small", Frames: syms.Frames(b.made)}
	info := memory.BlockInfo{Address: b.addr, Size: b.size, State: memory.Inactive}
	switch b.state {
	case stateAllocated:
		info.State, s.AllocatedSize = memory.ActiveAllocated, b.size
	case statePending:
		info.State = memory.ActivePendingFree
	}
	if info.State != memory.Inactive {
		s.ActiveSize, s.RequestedSize = b.size, b.requested
		info.RequestedSize, info.Frames = b.requested, syms.Frames(b.stack)
	}
	s.Blocks = []memory.BlockInfo{info}
	return s
}

// AddTo adds the blocks and the trace of pinned memory to a snapshot of device memory, if history is being recorded; else it does
// nothing, as in PyTorch. PyTorch's viewer does not show them. WriteSnapshot and DumpSnapshot of package memory call it.
func (p *Allocator) AddTo(s *memory.Snapshot) {
	if s == nil || !p.HistoryEnabled() {
		return
	}
	h := p.Snapshot()
	s.HostSegments = append(s.HostSegments, h.Segments...)
	s.HostTraces = append(s.HostTraces, h.Trace...)
	s.DroppedHostEntries += h.DroppedEntries
	s.DroppedStacks += h.DroppedStacks
}
