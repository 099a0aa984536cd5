package pinned

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// actionsOf lists what a trace is about.
func actionsOf(trace []memory.TraceEntry) (list []memory.Action) {
	for _, e := range trace {
		list = append(list, e.Action)
	}
	return list
}

// test_host_memory_snapshot.
func TestPinnedHistory_ListsWhatBlocksDo(t *testing.T) {
	r := newRig(t, "")
	old := r.alloc(100)
	require.False(t, r.p.HistoryEnabled())
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{}))
	require.True(t, r.p.HistoryEnabled())
	a := r.alloc(1000)
	r.free(a)
	b := r.alloc(1024)
	r.record(b, 1)
	r.free(b)
	s := r.p.Snapshot()
	require.Equal(t, []memory.Action{memory.ActionSegmentAlloc, memory.ActionAlloc, memory.ActionFreeRequested, memory.ActionFreeCompleted, memory.ActionAlloc, memory.ActionFreeRequested},
		actionsOf(s.Trace))
	for i, size := range []uint64{1024, 1000, 1000, 1000, 1024, 1024} {
		e := s.Trace[i]
		require.Equal(t, addressOf(a.Bytes()), e.Addr)
		require.Equal(t, size, e.Size)
		require.Contains(t, e.Frames[0].Name, "TestPinnedHistory_ListsWhatBlocksDo")
		require.Positive(t, e.TimeUS)
	}
	require.Len(t, s.Segments, 2)
	i := slices.IndexFunc(s.Segments, func(s memory.SegmentInfo) bool { return s.Address == addressOf(a.Bytes()) })
	seg := s.Segments[i]
	require.NotEmpty(t, seg.Frames)
	require.NotEmpty(t, seg.Blocks[0].Frames)
	seg.Frames, seg.Blocks[0].Frames = nil, nil
	require.Equal(t, memory.SegmentInfo{Device: -1, Address: addressOf(a.Bytes()), TotalSize: 1024, ActiveSize: 1024, RequestedSize: 1024, Type: "small",
		Blocks: []memory.BlockInfo{{Address: addressOf(a.Bytes()), Size: 1024, RequestedSize: 1024, State: memory.ActivePendingFree}}}, seg)
	require.Equal(t, memory.ActiveAllocated, s.Segments[1-i].Blocks[0].State)
	require.EqualValues(t, 128, s.Segments[1-i].AllocatedSize)
	require.Empty(t, s.Segments[1-i].Blocks[0].Frames, "it is from before")

	r.complete(1)
	r.empty()
	r.free(old)
	s = r.p.Snapshot()
	require.Equal(t, []memory.Action{memory.ActionFreeCompleted, memory.ActionSegmentFree, memory.ActionFreeRequested, memory.ActionFreeCompleted}, actionsOf(s.Trace[6:]))
	require.Equal(t, memory.Inactive, s.Segments[0].Blocks[0].State)
	require.Zero(t, s.Segments[0].ActiveSize+s.Segments[0].Blocks[0].RequestedSize)
}

// test_host_memory_snapshot_disabled, _none_disables.
func TestPinnedHistory_IsOffAtFirstAndAfterStop(t *testing.T) {
	r := newRig(t, "")
	dev := sim.New(gib)
	device, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(device.Close(), dev.Close())) })
	a := r.alloc(1000)
	require.Empty(t, r.p.Snapshot().Trace)
	s := device.Snapshot()
	r.p.AddTo(&s)
	require.Empty(t, s.HostSegments, "as in PyTorch, not even the blocks")
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{}))
	r.free(a)
	r.alloc(1000)
	r.p.StopHistory()
	require.False(t, r.p.HistoryEnabled())
	h := r.p.Snapshot()
	require.Empty(t, h.Trace)
	require.NotEmpty(t, h.Segments[0].Blocks[0].Frames, "the stacks of blocks in use stay")
	r.p.AddTo(&s)
	require.Empty(t, s.HostSegments)
	r.alloc(10)
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{}))
	require.Empty(t, r.p.Snapshot().Trace)
}

// test_host_memory_snapshot_max_entries.
func TestPinnedHistory_KeepsExactlyTheNewestEntries(t *testing.T) {
	r := newRig(t, "")
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{MaxEntries: 4}))
	for i := range 30 {
		r.free(r.alloc(uint64(1000 + 5000*(i%3)))) // of several buckets
	}
	s := r.p.Snapshot()
	require.Len(t, s.Trace, 4)
	require.EqualValues(t, 30*3+3-4, s.DroppedEntries)
	require.Equal(t, []memory.Action{memory.ActionFreeCompleted, memory.ActionAlloc, memory.ActionFreeRequested, memory.ActionFreeCompleted}, actionsOf(s.Trace))
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{MaxEntries: 10}))
	require.Len(t, r.p.Snapshot().Trace, 4, "what is there stays")
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{Clear: true, SkipActions: []memory.Action{memory.ActionFreeRequested, memory.ActionAlloc}}))
	r.free(r.alloc(1000))
	require.Equal(t, []memory.Action{memory.ActionFreeCompleted}, actionsOf(r.p.Snapshot().Trace))
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{Clear: true, Enabled: memory.HistoryState, Context: memory.ContextNone}))
	r.alloc(1000)
	s = r.p.Snapshot()
	require.Empty(t, s.Trace)
	require.Empty(t, s.Segments[0].Blocks[0].Frames)
	var ce *memory.ConfigError
	require.ErrorAs(t, r.p.RecordHistory(memory.HistoryOptions{MaxEntries: -1}), &ce)
}

func TestPinnedHistory_KeepsStacksAsTheContextSays(t *testing.T) {
	for context, want := range map[memory.HistoryContext][2]bool{memory.ContextAll: {true, true}, memory.ContextAlloc: {true, false}, memory.ContextState: {false, false}} {
		r := newRig(t, "pinned_max_cached_size_mb:1")
		require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{Context: context}))
		allocHere := func() Block { return r.alloc(2 * mib) }
		freeHere := func(b Block) { r.free(b) }
		freeHere(allocHere())
		text, err := json.Marshal(r.p.Snapshot())
		require.NoError(t, err)
		require.Equal(t, want[0], strings.Contains(string(text), "StacksAsTheContextSays.func1"), "%v", context)
		require.Equal(t, want[1], strings.Contains(string(text), "StacksAsTheContextSays.func2"), "%v", context)
		require.Contains(t, string(text), `"segment_free"`)
	}
}

// test_host_memory_snapshot_host_only: the two recordings are independent, and files have both.
func TestPinnedHistory_IsInTheFilesOfItsDevice(t *testing.T) {
	dev := sim.New(gib)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	a, err := memory.For(dev)
	require.NoError(t, err)
	p, err := For(dev)
	require.NoError(t, err)
	require.NoError(t, p.RecordHistory(memory.HistoryOptions{MaxEntries: 3}))
	held, err := a.Alloc(1000, dev.DefaultStream())
	require.NoError(t, err)
	for range 2 {
		b, err := p.Alloc(1000)
		require.NoError(t, err)
		require.NoError(t, p.Free(b))
	}
	var file strings.Builder
	require.NoError(t, memory.WriteSnapshot(&file, dev, memory.FormatJSON))
	var s memory.Snapshot
	require.NoError(t, json.Unmarshal([]byte(file.String()), &s))
	require.Len(t, s.HostSegments, 1)
	require.Equal(t, -1, s.HostSegments[0].Device)
	require.Equal(t, []memory.Action{memory.ActionAlloc, memory.ActionFreeRequested, memory.ActionFreeCompleted}, actionsOf(s.HostTraces))
	require.EqualValues(t, 4, s.DroppedHostEntries)
	require.Len(t, s.Segments, 1)
	for _, trace := range s.DeviceTraces {
		require.Empty(t, trace, "device memory is not recorded")
	}
	file.Reset()
	require.NoError(t, memory.WriteSnapshot(&file, dev, memory.FormatPickle))
	require.Contains(t, file.String(), "host_traces")
	require.Contains(t, file.String(), "free_completed")
	p.StopHistory()
	file.Reset()
	require.NoError(t, memory.WriteSnapshot(&file, dev, memory.FormatJSON))
	require.Contains(t, file.String(), `"host_segments":[],"host_traces":[]`)
	require.NoError(t, a.Free(held))
}

// hostUndo is what a viewer knows of pinned memory: the size of each piece, and what is in it.
type hostUndo map[device.Ptr]hostPiece

type hostPiece struct {
	size, requested uint64
	state           memory.BlockState
}

func newHostUndo(s Snapshot) hostUndo {
	u := hostUndo{}
	for _, seg := range s.Segments {
		u[seg.Address] = hostPiece{seg.TotalSize, seg.Blocks[0].RequestedSize, seg.Blocks[0].State}
	}
	return u
}

// undo takes the state back to what it was before an entry.
func (u hostUndo) undo(e memory.TraceEntry) error {
	p, ok := u[e.Addr]
	before, after := p, p
	switch e.Action {
	case memory.ActionAlloc:
		before.requested, before.state = e.Size, memory.ActiveAllocated
		after.requested, after.state = 0, memory.Inactive
	case memory.ActionFreeRequested:
		before.requested, before.state = e.Size, memory.ActivePendingFree
		after.requested, after.state = e.Size, memory.ActiveAllocated
	case memory.ActionFreeCompleted:
		before.requested, before.state = 0, memory.Inactive
		after.requested, after.state = e.Size, memory.ActivePendingFree
	case memory.ActionSegmentAlloc:
		delete(u, e.Addr)
		before = hostPiece{e.Size, 0, memory.Inactive}
	case memory.ActionSegmentFree:
		u[e.Addr] = hostPiece{e.Size, 0, memory.Inactive}
		ok, before = !ok, p
	}
	if !ok || p != before {
		return fmt.Errorf("%s of %d bytes at %#x: found %+v (%v)", e.Action, e.Size, e.Addr, p, ok)
	}
	if e.Action != memory.ActionSegmentAlloc && e.Action != memory.ActionSegmentFree {
		u[e.Addr] = after
	}
	return nil
}

// requireHostUndo walks back through a trace; where states were noted, as many entries from the beginning as at says, they are
// met again.
func requireHostUndo(t *testing.T, s Snapshot, states []hostUndo, at []int) {
	t.Helper()
	u := newHostUndo(s)
	for i, e := range slices.Backward(s.Trace) {
		for n := len(at); n > 0 && at[n-1] == i+1; n = len(at) {
			require.Equal(t, states[n-1], u)
			states, at = states[:n-1], at[:n-1]
		}
		require.NoError(t, u.undo(e))
	}
	require.Empty(t, u)
}

func TestPinnedHistory_UndoneFromTheSnapshotGivesEveryEarlierState(t *testing.T) {
	for seed := range uint64(6) {
		for _, conf := range []string{"", "pinned_max_cached_size_mb:1", "pinned_reserve_segment_size_mb:1,pinned_use_background_threads:True"} {
			t.Run(fmt.Sprint(seed, conf), func(t *testing.T) {
				r := newRig(t, conf)
				require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{}))
				states, at := randomPinnedWork(r, rand.New(rand.NewPCG(seed, 3)))
				require.NotEmpty(t, states)
				requireHostUndo(t, r.p.Snapshot(), states, at)
			})
		}
	}
}

// randomPinnedWork uses an allocator at random, and notes the state now and then.
func randomPinnedWork(r *rig, random *rand.Rand) (states []hostUndo, at []int) {
	var live []Block
	for range 400 {
		switch op := random.IntN(20); {
		case op < 9 || len(live) == 0:
			live = append(live, r.alloc(1+random.Uint64N(3<<(8+random.Uint64N(12)))))
		case op < 15:
			i := random.IntN(len(live))
			r.free(live[i])
			live = slices.Delete(live, i, i+1)
		case op < 17:
			r.record(live[random.IntN(len(live))], random.IntN(3))
		case op < 18:
			r.complete(random.IntN(3))
		case op < 19:
			r.empty()
		default:
			s := r.p.Snapshot()
			states, at = append(states, newHostUndo(s)), append(at, len(s.Trace))
		}
	}
	return states, at
}

// A block that the driver refuses is there again.
func TestPinnedHistory_OfARefusedFree(t *testing.T) {
	r := newRig(t, "")
	require.NoError(t, r.p.RecordHistory(memory.HistoryOptions{}))
	r.free(r.alloc(1000))
	r.dev.Inject(func(c sim.Call) error {
		if c.Kind == sim.CallFreePinned {
			return errInjected
		}
		return nil
	})
	require.ErrorIs(t, r.p.EmptyCache(), errInjected)
	s := r.p.Snapshot()
	require.Equal(t, []memory.Action{memory.ActionSegmentFree, memory.ActionSegmentAlloc}, actionsOf(s.Trace[4:]))
	requireHostUndo(t, s, nil, nil)
	r.dev.Inject(nil)
	r.empty()
	s = r.p.Snapshot()
	require.Equal(t, []memory.Action{memory.ActionSegmentFree}, actionsOf(s.Trace[6:]))
	requireHostUndo(t, s, nil, nil)
}

func TestPinnedHistory_OfGoroutinesAndClose(t *testing.T) {
	dev := sim.New(mib)
	p, err := New(dev, memory.Config{})
	require.NoError(t, err)
	require.NoError(t, p.RecordHistory(memory.HistoryOptions{}))
	var group sync.WaitGroup
	for id := range 3 {
		group.Go(func() {
			for i := range 300 {
				b, err := p.Alloc(uint64(1 + (i*id)%5000))
				if err != nil {
					t.Error(err)
				}
				if i%7 != 0 {
					_ = p.Free(b)
				}
				if i%20 == 0 {
					_ = p.EmptyCache()
				}
			}
		})
	}
	for range 10 {
		requireHostUndo(t, p.Snapshot(), nil, nil)
	}
	group.Wait()
	require.ErrorIs(t, p.Close(), memory.ErrLeak)
	s := p.Snapshot()
	require.Empty(t, s.Segments)
	requireHostUndo(t, s, nil, nil)
}
