package memory

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/invariants"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// traceRig is a rig that records history.
func traceRig(t testing.TB, capacity uint64, o HistoryOptions) *rig {
	r := newRig(t, capacity, "")
	require.NoError(t, r.a.RecordHistory(o))
	return r
}

func (r *rig) trace() []TraceEntry {
	s := r.a.Snapshot()
	return s.DeviceTraces[s.device.Index]
}

// traceLines are the entries in the form "alloc 20m+512 1000 s1": action, MiB and bytes from the first address, size, stream.
func (r *rig) traceLines() (lines []string) {
	trace := r.trace()
	for _, e := range trace {
		from := e.Addr - trace[0].Addr
		at := fmt.Sprintf("%dm+%d", from/mib, from%mib)
		switch e.Action {
		case ActionOOM:
			at = fmt.Sprintf("free=%d", e.DeviceFree)
		case ActionSnapshot:
			at = "-"
		}
		lines = append(lines, fmt.Sprintf("%s %s %d s%d", e.Action, at, e.Size, e.Stream))
	}
	return lines
}

func TestHistory_IsOffAtFirst(t *testing.T) {
	r := newRig(t, gib, "")
	r.free(r.alloc(1000, 0))
	require.False(t, r.a.HistoryEnabled())
	s := r.a.Snapshot()
	require.Len(t, s.DeviceTraces, s.device.Index+1)
	require.Empty(t, s.DeviceTraces[s.device.Index])
	require.Zero(t, s.DroppedEntries)
}

// A share without a trace does not keep others from one, and one does not change what the program has asked for.
func TestShareHistory_WithATraceAfterOneWithout(t *testing.T) {
	r := newRig(t, gib, "")
	state, err := r.a.ShareHistory(HistoryOptions{Enabled: HistoryState, Context: ContextState})
	require.NoError(t, err)
	all, err := r.a.ShareHistory(HistoryOptions{})
	require.NoError(t, err)
	r.free(r.alloc(1000, 0))
	require.NotEmpty(t, r.trace())
	more, err := r.a.ShareHistory(HistoryOptions{Enabled: HistoryState})
	require.NoError(t, err)
	require.NotEmpty(t, r.trace())
	for _, stop := range []func(){state, more, all} {
		stop()
	}
	require.False(t, r.a.HistoryEnabled())

	require.NoError(t, r.a.RecordHistory(HistoryOptions{Enabled: HistoryState}))
	all, err = r.a.ShareHistory(HistoryOptions{})
	require.NoError(t, err)
	r.free(r.alloc(1000, 0))
	require.Empty(t, r.trace())
	all()
}

func TestHistory_ListsWhatBlocksAndSegmentsDo(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	a := r.alloc(1000, 0)
	b := r.alloc(500, 0)
	c := r.alloc(3*mib, 1)
	r.record(c, 2)
	r.free(a, c)
	r.complete(2)
	r.free(b)
	r.empty()
	r.alloc(700, 0)
	require.Equal(t, []string{
		"segment_alloc 0m+0 2097152 s0",
		"alloc 0m+0 1000 s0",
		"alloc 0m+1024 500 s0",
		"segment_alloc 2m+0 20971520 s1",
		"alloc 2m+0 3145728 s1",
		"free_requested 0m+0 1000 s0",
		"free_completed 0m+0 1000 s0",
		"free_requested 2m+0 3145728 s1",
		"free_requested 0m+1024 500 s0",
		"free_completed 0m+1024 500 s0",
		"free_completed 2m+0 3145728 s1",
		"segment_free 2m+0 20971520 s1",
		"segment_free 0m+0 2097152 s0",
		"segment_alloc 22m+0 2097152 s0",
		"alloc 22m+0 700 s0",
	}, r.traceLines())
	lines := r.traceLines()
	require.Equal(t, "snapshot - 1024 s0", lines[len(lines)-1], "the one before, with the active bytes")
}

func TestHistory_OfExpandableSegmentsListsPages(t *testing.T) {
	r := newRig(t, gib, "expandable_segments:True")
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	a := r.alloc(1*mib, 0)
	b := r.alloc(3*mib, 0)
	c := r.alloc(38*mib, 0)
	r.free(c)
	r.empty()
	r.free(a, b)
	r.empty()
	require.Equal(t, []string{ // the first range has addresses for 9/8 of the memory, 1152 MiB
		"segment_map 0m+0 2097152 s0",
		"alloc 0m+0 1048576 s0",
		"segment_map 1152m+0 20971520 s0",
		"alloc 1152m+0 3145728 s0",
		"segment_map 1172m+0 41943040 s0",
		"alloc 1155m+0 39845888 s0",
		"free_requested 1155m+0 39845888 s0",
		"free_completed 1155m+0 39845888 s0",
		"segment_unmap 1172m+0 41943040 s0",
		"free_requested 0m+0 1048576 s0",
		"free_completed 0m+0 1048576 s0",
		"free_requested 1152m+0 3145728 s0",
		"free_completed 1152m+0 3145728 s0",
		"segment_unmap 1152m+0 20971520 s0",
		"segment_unmap 0m+0 2097152 s0",
	}, r.traceLines())
}

func TestHistory_ListsOOMWithWhatTheDeviceHadFree(t *testing.T) {
	r := traceRig(t, 64*mib, HistoryOptions{})
	r.alloc(20*mib, 0)
	_, err := r.tryAlloc(50*mib+1, 1)
	requireOOM(t, err, ErrDeviceFull)
	lines := r.traceLines()
	require.Equal(t, fmt.Sprintf("oom free=%d %d s1", 44*mib, 50*mib+512), lines[len(lines)-1])
}

func TestHistory_SkipsActions(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{SkipActions: []Action{ActionFreeRequested, ActionSegmentAlloc, ActionSnapshot}})
	r.free(r.alloc(1000, 0))
	want := []string{"alloc 0m+0 1000 s0", "free_completed 0m+0 1000 s0"}
	require.Equal(t, want, r.traceLines())
	require.Equal(t, want, r.traceLines())
	require.Zero(t, r.a.Snapshot().DroppedEntries)
}

func TestHistory_RefusesWrongOptions(t *testing.T) {
	r := newRig(t, gib, "")
	for text, o := range map[string]HistoryOptions{
		"history enabled":      {Enabled: HistoryState + 1},
		"history context":      {Context: ContextNone + 1},
		"history max_entries":  {MaxEntries: -1},
		"history skip_actions": {SkipActions: []Action{ActionAlloc, "frees"}},
	} {
		err := r.a.RecordHistory(o)
		var ce *ConfigError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, text, ce.Key)
		require.False(t, r.a.HistoryEnabled())
	}
}

func TestHistory_KeepsExactlyTheNewestEntries(t *testing.T) {
	for _, most := range []int{1, 4, 17, 300, 5000} {
		r := newRig(t, gib, "")
		a := r.a
		require.NoError(t, a.RecordHistory(HistoryOptions{MaxEntries: most, Context: ContextNone}))
		for i := range 3000 {
			b, err := a.Alloc(uint64(i+1), r.stream(i%3))
			require.NoError(t, err)
			require.NoError(t, a.Free(b))
		}
		s := a.Snapshot()
		trace := s.DeviceTraces[s.device.Index]
		total := 3000*3 + 3 // and the segments
		require.Len(t, trace, min(most, total))
		require.EqualValues(t, total-len(trace), s.DroppedEntries)
		require.Equal(t, ActionFreeCompleted, trace[len(trace)-1].Action)
		for i := range len(trace) / 3 {
			require.EqualValues(t, 3000-i, trace[len(trace)-1-3*i].Size)
		}
	}
}

func TestHistory_TakesBoundedMemoryAndNoneInTheSteadyState(t *testing.T) {
	a := benchAllocator(t)
	const most = 10_000
	require.NoError(t, a.RecordHistory(HistoryOptions{MaxEntries: most}))
	streams := []*fakeStream{{id: 1}, {id: 2}, {id: 3}, {id: 4}}
	pairs := func(n int) {
		for i := range n {
			b, _ := a.Alloc(4096, streams[i/10%4])
			_ = a.Free(b)
		}
	}
	pairs(most)
	if !invariants.Enabled {
		require.Zero(t, testing.AllocsPerRun(20, func() { pairs(500) }))
	}
	held := journalCapacity(a)
	for _, sh := range *a.shards.Load() {
		held += sh.log.Capacity()
	}
	require.GreaterOrEqual(t, held, most)
	require.LessOrEqual(t, held, most+(2*len(streams)+1)*journal.ChunkSize)
}

// Many pools come and go, and each leaves a few entries behind.
func TestHistory_OfPrivatePoolsOutlivesThemInBoundedMemory(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{MaxEntries: 100})
	for range 200 {
		p := r.a.NewPool()
		b, err := p.Alloc(1000, r.stream(0))
		require.NoError(t, err)
		require.NoError(t, p.Free(b))
		require.NoError(t, p.Release())
		r.empty()
	}
	s := r.a.Snapshot()
	trace := s.DeviceTraces[s.device.Index]
	require.Len(t, trace, 100)
	require.EqualValues(t, 200*5-100, s.DroppedEntries)
	require.Equal(t, [2]uint64{0, 200}, trace[99].PoolID)
	require.Equal(t, [2]uint64{0, 181}, trace[0].PoolID)
	require.LessOrEqual(t, journalCapacity(r.a), 120)
}

// journalCapacity is how many entries there is room for, without the chunks being filled.
func journalCapacity(a *Caching) int { return a.history.Load().Capacity() }

func TestSnapshot_OfAPoolHasItsPartOfTheTrace(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	p := r.a.NewPool()
	b, err := p.Alloc(1000, r.stream(0))
	require.NoError(t, err)
	r.alloc(2000, 0)
	s := p.Snapshot()
	require.Len(t, s.Segments, 1)
	require.Equal(t, [2]uint64{0, 1}, s.Segments[0].PoolID)
	trace := s.DeviceTraces[s.device.Index]
	require.Len(t, trace, 2)
	require.Equal(t, ActionSegmentAlloc, trace[0].Action)
	require.Equal(t, ActionAlloc, trace[1].Action)
	require.Equal(t, b.Ptr(), trace[1].Addr)
	require.Len(t, r.a.Snapshot().Segments, 2)
}

// test_memory_snapshot_include_traces, _correctness: the state is the same, the trace is not there, and goes on.
func TestSnapshotState_IsTheSnapshotWithoutTheTrace(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{MaxEntries: 10})
	p := r.a.NewPool()
	for range 20 {
		r.free(r.allocIn(p, 1000, 0), r.alloc(3*mib, 1))
	}
	r.alloc(1000, 0)
	state, full := r.a.SnapshotState(), r.a.Snapshot()
	require.Equal(t, full.Segments, state.Segments)
	require.Equal(t, full.Settings, state.Settings)
	require.Equal(t, full.String(), state.String())
	require.Empty(t, state.DeviceTraces[state.device.Index])
	trace := full.DeviceTraces[full.device.Index]
	require.Len(t, trace, 10)
	require.Equal(t, ActionSnapshot, trace[9].Action, "that it was taken is in the trace")
	require.Equal(t, p.Snapshot().Segments, p.SnapshotState().Segments)
	require.Empty(t, p.SnapshotState().DeviceTraces[state.device.Index])
	requireSameInBoth(t, state)
}

func TestHistory_StoppedForgetsTheTraceAndKeepsTheStacksOfBlocks(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{})
	b := r.alloc(1000, 0)
	r.a.StopHistory()
	require.Empty(t, r.trace())
	require.Equal(t, "memory.TestHistory_StoppedForgetsTheTraceAndKeepsTheStacksOfBlocks", top(r.a.Snapshot().Segments[0].Blocks[0].Frames))
	r.free(b)
	r.alloc(1000, 0)
	require.Empty(t, r.a.Snapshot().Segments[0].Blocks[0].Frames, "this one was not recorded")
	r.history(HistoryOptions{})
	require.Empty(t, r.trace())
}

func (r *rig) history(o HistoryOptions) {
	r.t.Helper()
	require.NoError(r.t, r.a.RecordHistory(o))
}

func TestRecordHistory_AgainKeepsEntriesUnlessToldToClear(t *testing.T) {
	r := traceRig(t, gib, HistoryOptions{MaxEntries: 1000})
	for range 100 {
		r.free(r.alloc(1000, 0))
	}
	r.history(HistoryOptions{MaxEntries: 50, SkipActions: []Action{ActionSnapshot}})
	require.Len(t, r.trace(), 50)
	require.EqualValues(t, 251, r.a.Snapshot().DroppedEntries)
	r.history(HistoryOptions{MaxEntries: 2000})
	r.free(r.alloc(1000, 0))
	s := r.a.Snapshot()
	kept := len(s.DeviceTraces[s.device.Index])
	require.GreaterOrEqual(t, kept, 53)
	require.EqualValues(t, 301+3, int(s.DroppedEntries)+kept, "what was dropped before does not come back")
	r.history(HistoryOptions{Clear: true})
	require.Empty(t, r.trace())
	require.Zero(t, r.a.Snapshot().DroppedEntries)
}

// The recording begins and ends while streams are at work: it does so for all of them at once.
func TestHistory_SwitchedWhileStreamsAreAtWork(t *testing.T) {
	r := newRig(t, 2*gib, "")
	var group sync.WaitGroup
	for id := range 2 {
		group.Go(func() { streamWork(t, r.a, r.stream(id), r.stream(2), uint64(id)) })
	}
	for i := range 60 {
		context := HistoryContext(i % 4)
		require.NoError(t, r.a.RecordHistory(HistoryOptions{Context: context, MaxEntries: 100 * (i%3 + 1), Clear: i%5 == 0}))
		requireUndo(t, r.a.Snapshot(), nil)
		if i%7 == 6 {
			r.a.StopHistory()
		}
	}
	group.Wait()
	r.check()
}
