package memory

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
)

// RecordHistory begins to record what the allocator does, for Snapshot, with the options of Caching.RecordHistory. It is
// independent of the recording of device memory. Called again, it changes the options and keeps what was recorded, as far as
// the new limit allows. The error is a *ConfigError.
//
// Each bucket writes its entries into a log of its own, under its lock, together with the change that they are about; so
// undoing the trace from the blocks of a snapshot backwards meets a block where an entry frees one, and none where it
// allocates one. A call's time and stack are taken under that lock as well.
func (p *Pinned) RecordHistory(o HistoryOptions) error {
	if p.absent() {
		return argumentErr("Pinned.RecordHistory", nilAllocator)
	}
	if err := o.validate(); err != nil {
		return err
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = DefaultHistoryEntries
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	if p.stacks == nil {
		p.stacks = fpstack.NewTable(maxStacks)
	}
	rec := newRecorder(o, p.stacks)
	if old := p.buckets[0].log.rec; old != nil && !o.Clear {
		rec.journal = old.journal
		rec.journal.resize(o.MaxEntries)
	} else {
		p.forgetChunks()
	}
	p.setRecorder(rec)
	return nil
}

// StopHistory ends the recording and forgets the trace: take the snapshot before. The stacks of the blocks in use stay.
func (p *Pinned) StopHistory() {
	if p.absent() {
		return
	}
	p.lockBuckets()
	defer p.unlockBuckets()
	p.forgetChunks()
	p.setRecorder(nil)
}

// HistoryEnabled reports whether history is being recorded.
func (p *Pinned) HistoryEnabled() bool {
	if p.absent() {
		return false
	}
	k := &p.buckets[0] // they all have the same recorder
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.log.rec != nil
}

// forgetChunks and setRecorder: caller holds all buckets.
func (p *Pinned) forgetChunks() {
	for i := range p.buckets {
		p.buckets[i].log.chunk = nil
	}
}

func (p *Pinned) setRecorder(rec *recorder) {
	for i := range p.buckets {
		p.buckets[i].log.rec = rec
	}
}

// addressOf is where memory lies in this program.
func addressOf(mem []byte) device.Ptr { return device.Ptr(reflect.ValueOf(mem).Pointer()) }

// noteAlloc notes a block that is handed out; fresh says that the driver has just given it. There is a recorder, and the caller
// holds k.mu: so it is with all of these.
func (k *bucket) noteAlloc(b *pinnedBlock, fresh bool) {
	m := k.log.rec.ofAlloc()
	if b.stack = m.stack; fresh {
		b.made = m.stack
		k.log.write(actSegmentAlloc, b.addr, b.size, m)
	}
	k.log.write(actAlloc, b.addr, b.requested, m)
}

// noteFree notes a block that its holder gives back; done says that nobody else uses it.
func (k *bucket) noteFree(b *pinnedBlock, done bool) {
	m := k.log.rec.ofFree()
	if m.stack == 0 {
		m.stack = b.stack
	}
	k.log.writeFree(b.addr, b.requested, m, done)
}

// noteCompleted notes a pending block that nobody uses any more.
func (k *bucket) noteCompleted(b *pinnedBlock) {
	k.log.write(actFreeCompleted, b.addr, b.requested, callSite{stack: b.stack})
}

// noteAbandoned notes the end of a block in use when the allocator is closed.
func (k *bucket) noteAbandoned(b *pinnedBlock) {
	if b.state == pinnedAllocated {
		k.noteFree(b, true)
	} else {
		k.noteCompleted(b)
	}
}

// noteReleased notes a block that the driver is given back. It is noted before: the driver may give the same address to
// somebody else before it returns.
func (k *bucket) noteReleased(b *pinnedBlock) {
	m := k.log.rec.ofFree()
	if m.stack == 0 {
		m.stack = b.made
	}
	k.log.write(actSegmentFree, b.addr, b.size, m)
}

// noteKept notes a block that the driver refused.
func (k *bucket) noteKept(b *pinnedBlock) {
	k.log.write(actSegmentAlloc, b.addr, b.size, callSite{stack: b.made})
}

// HostSnapshot is the state of a Pinned at one moment and, if its history is recorded, how it came about: the host keys of
// torch.cuda.memory._snapshot().
type HostSnapshot struct {
	Segments       []SegmentInfo // by address: one for each block, on device -1
	Trace          []TraceEntry
	DroppedEntries int64 // entries recorded before those in the trace
	DroppedStacks  int64 // call stacks for which there was no room
}

// Snapshot returns the blocks and the trace, all of one moment. It looks at no events. The locks are held for a copy.
func (p *Pinned) Snapshot() HostSnapshot {
	if p.absent() {
		return HostSnapshot{}
	}
	p.lockBuckets()
	var w window
	if rec := p.buckets[0].log.rec; rec != nil {
		var logs []*logbook
		for i := range p.buckets {
			logs = append(logs, &p.buckets[i].log)
		}
		w = rec.journal.prepare(len(logs))
		rec.journal.copy(&w, logs)
	}
	var blocks []pinnedLayout
	for i := range p.buckets {
		for _, b := range p.buckets[i].all {
			if b.state == pinnedReleasing {
				continue
			}
			blocks = append(blocks, pinnedLayout{b.addr, b.size, b.requested, b.state, b.stack, b.made})
		}
	}
	syms := &symbols{stacks: p.stacks}
	p.unlockBuckets()

	slices.SortFunc(blocks, func(x, y pinnedLayout) int { return cmp.Compare(x.addr, y.addr) })
	s := HostSnapshot{Segments: []SegmentInfo{}, Trace: w.entries(syms, nil), DroppedEntries: int64(w.floor)}
	for _, b := range blocks {
		s.Segments = append(s.Segments, b.info(syms))
	}
	if syms.stacks != nil {
		s.DroppedStacks = syms.stacks.Dropped()
	}
	return s
}

// pinnedLayout is a copy of a block, described when the locks are free again.
type pinnedLayout struct {
	addr      device.Ptr
	size      uint64
	requested uint64
	state     pinnedState
	stack     fpstack.ID
	made      fpstack.ID
}

func (b *pinnedLayout) info(syms *symbols) SegmentInfo {
	s := SegmentInfo{Device: -1, Address: b.addr, TotalSize: b.size, Type: smallPool.String(), Frames: syms.frames(b.made)}
	info := BlockInfo{Address: b.addr, Size: b.size, State: Inactive}
	switch b.state {
	case pinnedAllocated:
		info.State, s.AllocatedSize = ActiveAllocated, b.size
	case pinnedPending:
		info.State = ActivePendingFree
	}
	if info.State != Inactive {
		s.ActiveSize, s.RequestedSize = b.size, b.requested
		info.RequestedSize, info.Frames = b.requested, syms.frames(b.stack)
	}
	s.Blocks = []BlockInfo{info}
	return s
}

// AddHost adds the blocks and the trace of pinned memory to a snapshot, if p's history is being recorded; else it does
// nothing, as in PyTorch. PyTorch's viewer does not show them.
func (s *Snapshot) AddHost(p *Pinned) {
	if !p.HistoryEnabled() {
		return
	}
	h := p.Snapshot()
	s.HostSegments = append(s.HostSegments, h.Segments...)
	s.HostTraces = append(s.HostTraces, h.Trace...)
	s.DroppedHostEntries += h.DroppedEntries
	s.DroppedStacks += h.DroppedStacks
}
