package memory

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/fpstack"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// Snapshot is the state of an allocator at one moment and, if RecordHistory is on, how it came about. It has the form of
// torch.cuda.memory._snapshot(); WriteJSON and WritePickle make files that PyTorch's memory viewer opens.
//
// State and trace are of the same moment: undoing the entries from the last to the first takes the segments and blocks back
// to what they were before the first.
type Snapshot struct {
	Segments     []SegmentInfo  `json:"segments"`           // by address
	DeviceTraces [][]TraceEntry `json:"device_traces"`      // by index of the device; empty for all but this one
	Settings     Settings       `json:"allocator_settings"` // in force

	// Of pinned host memory, by AddTo of package memory/pinned: empty unless its history is recorded.
	HostSegments []SegmentInfo `json:"host_segments"`
	HostTraces   []TraceEntry  `json:"host_traces"`

	DroppedEntries     int64 `json:"dropped_entries"`      // entries recorded before those in the trace
	DroppedHostEntries int64 `json:"dropped_host_entries"` // the same of HostTraces
	DroppedStacks      int64 `json:"dropped_stacks"`       // call stacks for which there was no room

	device device.ID
	layout []segmentLayout
}

// SegmentInfo is one segment: a piece of memory got from the driver. An expandable segment has an entry for each run of pages
// with memory behind them.
type SegmentInfo struct {
	Device        int             `json:"device"`
	Address       device.Ptr      `json:"address"`
	TotalSize     uint64          `json:"total_size"`
	AllocatedSize uint64          `json:"allocated_size"` // held by callers
	ActiveSize    uint64          `json:"active_size"`    // and freed, but waiting for events
	RequestedSize uint64          `json:"requested_size"` // what callers asked for, of the active blocks
	Stream        device.StreamID `json:"stream"`
	Type          string          `json:"segment_type"` // "small" or "large"
	PoolID        [2]uint64       `json:"segment_pool_id"`
	Expandable    bool            `json:"is_expandable"`
	Frames        []Frame         `json:"frames"` // where it was got
	By            Operation       `json:"-"`      // what got it
	Blocks        []BlockInfo     `json:"blocks"` // by address; their sizes add up to TotalSize
}

// BlockInfo is one block of a segment.
type BlockInfo struct {
	Address       device.Ptr `json:"address"`
	Size          uint64     `json:"size"`
	RequestedSize uint64     `json:"requested_size"` // 0 when inactive
	State         BlockState `json:"state"`
	Frames        []Frame    `json:"frames"` // where it was allocated; of an active block. Blocks from the same place share it
	By            Operation  `json:"-"`      // what allocated it. In files it is the name of the first frame
}

// Operation is what a program was doing when it asked for memory, as far as that was recorded (RecordHistory): an operation of a graph, or an optimizer's step.
// The first frame of its call stacks stands for it, with a name such as "linear backward (h.3.attn.c_attn)".
type Operation struct {
	Name     string // PyTorch's, as in "linear"; empty outside of all operations
	Module   string // the path of the module around it, as in "h.3.attn.c_attn"; empty for none
	Backward bool   // it was computing gradients
}

// BlockState is where a block stands, in PyTorch's words.
type BlockState string

// The states of blocks in a snapshot.
const (
	ActiveAllocated   BlockState = "active_allocated"    // held by a caller
	ActivePendingFree BlockState = "active_pending_free" // freed, waiting for events
	Inactive          BlockState = "inactive"            // cached
)

// Settings are the settings of an allocator as PyTorch's snapshots have them. Sizes are bytes, and -1 is no limit.
type Settings struct {
	Conf                     string          `json:"PYTORCH_CUDA_ALLOC_CONF"` // Config.String
	MaxSplitSize             int64           `json:"max_split_size"`
	GCThreshold              float64         `json:"garbage_collection_threshold"`
	ExpandableSegments       bool            `json:"expandable_segments"`
	PinnedNumRegisterThreads int             `json:"pinned_num_register_threads"`
	ReleaseLockOnMalloc      bool            `json:"release_lock_on_cudamalloc"`
	PinnedUseHostRegister    bool            `json:"pinned_use_cuda_host_register"`
	ReuseInCapture           bool            `json:"graph_capture_record_stream_reuse"`
	MaxRoundThreshold        int64           `json:"max_round_threshold"` // of the pinned allocator
	MaxCachedSize            int64           `json:"max_cached_size"`     // of the pinned allocator
	RoundupDivisions         map[string]uint `json:"roundup_power2_divisions"`
}

// Snapshot returns the state and the trace. The locks are held for a copy only, some milliseconds for 100,000 entries; call
// stacks are written out afterwards.
func (a *Caching) Snapshot() Snapshot { return a.snapshot(nil, true) }

// SnapshotState is Snapshot without the trace, which goes on: for looking at the state often while a long history is recorded
// (include_traces=False in PyTorch).
func (a *Caching) SnapshotState() Snapshot { return a.snapshot(nil, false) }

// String draws the segments, as in the package comment. It is empty if the snapshot is not from an allocator.
func (s Snapshot) String() string { return drawSegments(s.layout) }

// snapshot is Snapshot of one private pool, or of everything.
func (a *Caching) snapshot(want *Pool, trace bool) Snapshot {
	if a.absent() {
		return Snapshot{}
	}
	layout, w, c := a.copyState(want, trace)
	return a.describe(layout, w, want, c)
}

// describe writes out what was copied under the locks.
func (a *Caching) describe(layout []segmentLayout, w journal.Window, want *Pool, c Config) Snapshot {
	s := Snapshot{device: a.id, DeviceTraces: make([][]TraceEntry, a.id.Index+1), HostSegments: []SegmentInfo{}, HostTraces: []TraceEntry{},
		layout: layout, Settings: c.settings()}
	syms := newSymbols(a.stacks.Load()) // of now: a table begun since the copy has its stacks
	for i := range s.DeviceTraces {
		s.DeviceTraces[i] = []TraceEntry{}
	}
	s.DeviceTraces[a.id.Index] = traceEntries(&w, syms, want)
	s.DroppedEntries = w.Dropped()
	s.DroppedStacks = syms.Dropped()
	for i := range s.layout {
		s.Segments = append(s.Segments, s.layout[i].infos(a.id.Index, syms)...)
	}
	slices.SortFunc(s.Segments, func(x, y SegmentInfo) int { return cmp.Compare(x.Address, y.Address) })
	return s
}

// copyState takes what a snapshot is made of, all at one moment, and notes that it did.
func (a *Caching) copyState(want *Pool, trace bool) (layout []segmentLayout, w journal.Window, c Config) {
	m := a.freeSite()
	if rec := a.history.Load(); rec != nil && trace {
		w = rec.Prepare(len(*a.shards.Load()) + 1)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	shards := a.lockShards()
	defer unlockShards(shards)
	layout = a.layout(want)
	if rec := a.log.Recorder(); rec != nil {
		logs := []*journal.Logbook{&a.log}
		for _, sh := range shards {
			logs = append(logs, &sh.log)
		}
		if trace {
			rec.Copy(&w, logs)
		}
		a.log.Write(journal.Snapshot, 0, activeBytes(shards), m)
	}
	return layout, w, a.config
}

// activeBytes is the sum of the active blocks. Callers hold all shards.
func activeBytes(shards []*shard) (sum uint64) {
	for _, sh := range shards {
		for k := range poolKinds {
			sum += uint64(sh.tally.pool[k].now(hotActiveBytes))
		}
	}
	return sum
}

// infos describes a segment; an expandable one has an entry for each run of mapped blocks.
func (l *segmentLayout) infos(index int, syms *symbols) (infos []SegmentInfo) {
	var cur *SegmentInfo
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.state == stateUnmapped {
			cur = nil
			continue
		}
		if cur == nil {
			infos = append(infos, SegmentInfo{Device: index, Address: b.ptr, Stream: l.stream, Type: l.kind.String(), PoolID: l.pool,
				Expandable: l.expandable, Frames: syms.Frames(l.stack), By: operation(syms, l.stack)})
			cur = &infos[len(infos)-1]
		}
		cur.add(b, syms)
	}
	return infos
}

func (s *SegmentInfo) add(b *blockLayout, syms *symbols) {
	info := BlockInfo{Address: b.ptr, Size: b.size, State: Inactive}
	var stack fpstack.ID
	s.TotalSize += b.size
	if b.state != stateCached {
		info.RequestedSize, info.State, stack = b.requested, ActivePendingFree, b.stack
		s.ActiveSize += b.size
		s.RequestedSize += b.requested
	}
	if b.state == stateAllocated {
		info.State = ActiveAllocated
		s.AllocatedSize += b.size
	}
	info.Frames, info.By = syms.Frames(stack), operation(syms, stack)
	s.Blocks = append(s.Blocks, info)
}

// settings are a Config in PyTorch's words.
func (c *Config) settings() Settings {
	s := Settings{
		Conf: c.String(), MaxSplitSize: orUnlimited(c.MaxSplitBytes), GCThreshold: c.GarbageCollectionThreshold,
		ExpandableSegments: c.ExpandableSegments, PinnedNumRegisterThreads: max(c.PinnedNumRegisterThreads, 1),
		ReleaseLockOnMalloc: c.ReleaseLockOnMalloc, PinnedUseHostRegister: c.PinnedUseHostRegister, ReuseInCapture: c.ReuseInCapture,
		MaxRoundThreshold: orUnlimited(c.PinnedMaxRoundThresholdBytes), MaxCachedSize: orUnlimited(c.PinnedMaxCachedBytes),
		RoundupDivisions: map[string]uint{},
	}
	for i, d := range c.RoundupDivisions {
		s.RoundupDivisions[strconv.Itoa(1<<i)] = d
	}
	return s
}

// orUnlimited is a limit of which 0 is none.
func orUnlimited(n uint64) int64 {
	if n == 0 {
		return -1
	}
	return int64(n)
}
