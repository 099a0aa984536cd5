package memory

import (
	"cmp"
	"maps"
	"slices"
)

// document is what a snapshot is written to. A list's items are each begun with item, a dict's values with key. It keeps the
// first error of its writer for close.
type document interface {
	beginDict()
	key(name string)
	endDict()
	beginList()
	item()
	endList()
	text(s string)
	integer(n int64)
	unsigned(n uint64)
	number(f float64)
	boolean(b bool)
	pair(a, b uint64)
	frames(list []Frame) // a list of dicts; lists that share their memory need to be written once only
	close() error
}

// write is the form of a snapshot, whatever the document. The keys are PyTorch's, besides those that begin with dropped.
func (s *Snapshot) write(d document) {
	d.beginDict()
	d.key("segments")
	list(d, s.Segments, (*SegmentInfo).write)
	d.key("device_traces")
	list(d, s.DeviceTraces, func(trace *[]TraceEntry, d document) { list(d, *trace, (*TraceEntry).write) })
	d.key("allocator_settings")
	s.Settings.write(d)
	d.key("external_annotations")
	d.beginList()
	d.endList()
	d.key("host_segments")
	list(d, s.HostSegments, (*SegmentInfo).write)
	d.key("host_traces")
	list(d, s.HostTraces, (*TraceEntry).write)
	d.key("dropped_entries")
	d.integer(s.DroppedEntries)
	d.key("dropped_host_entries")
	d.integer(s.DroppedHostEntries)
	d.key("dropped_stacks")
	d.integer(s.DroppedStacks)
	d.endDict()
}

// list writes a list with a function for its items.
func list[T any](d document, items []T, write func(*T, document)) {
	d.beginList()
	for i := range items {
		d.item()
		write(&items[i], d)
	}
	d.endList()
}

func (s *SegmentInfo) write(d document) {
	d.beginDict()
	d.key("device")
	d.integer(int64(s.Device))
	writeUnsigned(d, "address", uint64(s.Address))
	writeUnsigned(d, "total_size", s.TotalSize)
	writeUnsigned(d, "allocated_size", s.AllocatedSize)
	writeUnsigned(d, "active_size", s.ActiveSize)
	writeUnsigned(d, "requested_size", s.RequestedSize)
	writeUnsigned(d, "stream", uint64(s.Stream))
	d.key("segment_type")
	d.text(s.Type)
	writePoolID(d, "segment_pool_id", s.PoolID)
	d.key("is_expandable")
	d.boolean(s.Expandable)
	d.key("frames")
	d.frames(s.Frames)
	d.key("blocks")
	list(d, s.Blocks, (*BlockInfo).write)
	d.endDict()
}

func (b *BlockInfo) write(d document) {
	d.beginDict()
	writeUnsigned(d, "address", uint64(b.Address))
	writeUnsigned(d, "size", b.Size)
	writeUnsigned(d, "requested_size", b.RequestedSize)
	d.key("state")
	d.text(string(b.State))
	d.key("frames")
	d.frames(b.Frames)
	d.endDict()
}

// write has the two texts that PyTorch's entries have and ours never use: readers of its pickles may ask for them.
func (e *TraceEntry) write(d document) {
	d.beginDict()
	d.key("action")
	d.text(string(e.Action))
	if e.Action == ActionOOM {
		writeUnsigned(d, "device_free", e.DeviceFree)
	} else {
		writeUnsigned(d, "addr", uint64(e.Addr))
	}
	writeUnsigned(d, "size", e.Size)
	writeUnsigned(d, "stream", uint64(e.Stream))
	d.key("time_us")
	d.integer(e.TimeUS)
	d.key("compile_context")
	d.text("N/A")
	d.key("user_metadata")
	d.text("")
	if e.InternalMetadata != "" {
		d.key("internal_metadata")
		d.text(e.InternalMetadata)
	}
	writePoolID(d, "pool_id", e.PoolID)
	d.key("frames")
	d.frames(e.Frames)
	d.endDict()
}

func (s *Settings) write(d document) {
	d.beginDict()
	d.key("PYTORCH_CUDA_ALLOC_CONF")
	d.text(s.Conf)
	d.key("max_split_size")
	d.integer(s.MaxSplitSize)
	d.key("garbage_collection_threshold")
	d.number(s.GCThreshold)
	d.key("expandable_segments")
	d.boolean(s.ExpandableSegments)
	d.key("pinned_num_register_threads")
	d.integer(int64(s.PinnedNumRegisterThreads))
	d.key("release_lock_on_cudamalloc")
	d.boolean(s.ReleaseLockOnMalloc)
	d.key("pinned_use_cuda_host_register")
	d.boolean(s.PinnedUseHostRegister)
	d.key("graph_capture_record_stream_reuse")
	d.boolean(s.ReuseInCapture)
	d.key("max_round_threshold")
	d.integer(s.MaxRoundThreshold)
	d.key("max_cached_size")
	d.integer(s.MaxCachedSize)
	d.key("roundup_power2_divisions")
	d.beginDict()
	byNumber := func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) }
	for _, k := range slices.SortedFunc(maps.Keys(s.RoundupDivisions), byNumber) {
		writeUnsigned(d, k, uint64(s.RoundupDivisions[k]))
	}
	d.endDict()
	d.endDict()
}

func (f *Frame) write(d document) {
	d.beginDict()
	d.key("filename")
	d.text(f.Filename)
	d.key("line")
	d.integer(int64(f.Line))
	d.key("name")
	d.text(f.Name)
	d.endDict()
}

func writeUnsigned(d document, key string, n uint64) {
	d.key(key)
	d.unsigned(n)
}

func writePoolID(d document, key string, id [2]uint64) {
	d.key(key)
	d.pair(id[0], id[1])
}
