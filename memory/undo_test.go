package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// undoState is what PyTorch's viewer knows of an allocator: where it has memory, and its active blocks.
type undoState struct {
	Memory map[device.Ptr]bool // by unit of 2 MiB
	Blocks map[device.Ptr]undoBlock
}

type undoBlock struct {
	Requested uint64
	Pending   bool
}

const undoUnit = 2 * mib

// newUndoState takes the state of a snapshot.
func newUndoState(s Snapshot) undoState {
	u := undoState{Memory: map[device.Ptr]bool{}, Blocks: map[device.Ptr]undoBlock{}}
	for _, seg := range s.Segments {
		_ = u.addMemory(seg.Address, seg.TotalSize)
		for _, b := range seg.Blocks {
			if b.State != Inactive {
				u.Blocks[b.Address] = undoBlock{b.RequestedSize, b.State == ActivePendingFree}
			}
		}
	}
	return u
}

func (u *undoState) addMemory(p device.Ptr, size uint64) error {
	for at := uint64(0); at < size; at += undoUnit {
		if u.Memory[p.Add(at)] {
			return fmt.Errorf("memory at %#x is there already", p.Add(at))
		}
		u.Memory[p.Add(at)] = true
	}
	return nil
}

func (u *undoState) dropMemory(p device.Ptr, size uint64) error {
	for b := range u.Blocks {
		if b >= p && b < p.Add(size) {
			return fmt.Errorf("a block at %#x", b)
		}
	}
	for at := uint64(0); at < size; at += undoUnit {
		if !u.Memory[p.Add(at)] {
			return fmt.Errorf("no memory at %#x", p.Add(at))
		}
		delete(u.Memory, p.Add(at))
	}
	return nil
}

// addBlock fails if there is no memory for the block, or another block in it.
func (u *undoState) addBlock(p device.Ptr, b undoBlock) error {
	for q, other := range u.Blocks {
		if q < p.Add(b.Requested) && p < q.Add(other.Requested) {
			return fmt.Errorf("a block of %d bytes at %#x", other.Requested, q)
		}
	}
	for unit := p / undoUnit * undoUnit; unit < p.Add(b.Requested); unit += undoUnit {
		if !u.Memory[unit] {
			return fmt.Errorf("no memory at %#x", unit)
		}
	}
	u.Blocks[p] = b
	return nil
}

// take removes the block that must be there.
func (u *undoState) take(p device.Ptr, want undoBlock) error {
	b, ok := u.Blocks[p]
	if !ok || b != want {
		return fmt.Errorf("the block there is %+v (%v), want %+v", b, ok, want)
	}
	delete(u.Blocks, p)
	return nil
}

// undo takes the state back to what it was before an entry.
func (u *undoState) undo(e TraceEntry) error {
	switch e.Action {
	case ActionAlloc:
		return u.take(e.Addr, undoBlock{e.Size, false})
	case ActionFreeRequested:
		if err := u.take(e.Addr, undoBlock{e.Size, true}); err != nil {
			return err
		}
		return u.addBlock(e.Addr, undoBlock{e.Size, false})
	case ActionFreeCompleted:
		return u.addBlock(e.Addr, undoBlock{e.Size, true})
	case ActionSegmentAlloc, ActionSegmentMap:
		return u.dropMemory(e.Addr, e.Size)
	case ActionSegmentFree, ActionSegmentUnmap:
		return u.addMemory(e.Addr, e.Size)
	case ActionOOM, ActionSnapshot:
		return nil
	}
	return fmt.Errorf("unknown action")
}

// requireUndo walks back through the trace of s as the viewer does. At the entries of earlier snapshots the state must be
// that of those, the last of which is earlier's last; nil if they are not at hand. It returns how many it met.
func requireUndo(t testing.TB, s Snapshot, earlier []Snapshot) int {
	t.Helper()
	u, met := newUndoState(s), 0
	trace := s.DeviceTraces[s.device.Index]
	for i, e := range slices.Backward(trace) {
		if e.Action == ActionSnapshot && earlier != nil {
			met++
			require.Equal(t, newUndoState(earlier[len(earlier)-met]), u, "entry %d", i)
		}
		require.NoError(t, u.undo(e), "entry %d of %d: %+v", i, len(trace), e)
		if i > 0 {
			require.LessOrEqual(t, trace[i-1].TimeUS, e.TimeUS)
		}
	}
	if s.DroppedEntries == 0 && earlier != nil {
		require.Empty(t, u.Memory)
		require.Empty(t, u.Blocks)
	}
	return met
}

// randomWork does what allocators are there for, at random, and takes a snapshot now and then.
func randomWork(r *rig, random *rand.Rand, steps int) (snapshots []Snapshot) {
	type held struct {
		block Block
		free  func(Block) error
	}
	var live []held
	pool := r.a.NewPool()
	for range steps {
		switch n := random.IntN(100); {
		case n < 45 || len(live) == 0:
			from := Allocator(r.a)
			if random.IntN(5) == 0 {
				from = pool
			}
			size := 1 + uint64(random.ExpFloat64()*float64([]int{2000, 300 * kib, 4 * mib}[random.IntN(3)]))
			if b, err := from.Alloc(size, r.stream(random.IntN(3))); err == nil {
				live = append(live, held{b, from.Free})
			} else {
				require.ErrorIs(r.t, err, ErrOutOfMemory)
			}
		case n < 80:
			i := random.IntN(len(live))
			require.NoError(r.t, live[i].free(live[i].block))
			live = slices.Delete(live, i, i+1)
		case n < 83:
			i := random.IntN(len(live))
			r.a.FreeLater(live[i].block)
			live = slices.Delete(live, i, i+1)
		case n < 91:
			r.record(live[random.IntN(len(live))].block, random.IntN(3))
		case n < 95:
			r.complete(random.IntN(3))
		case n < 96:
			r.empty()
		case n < 97:
			r.conf([]string{"", "expandable_segments:True", "max_split_size_mb:21", "release_lock_on_cudamalloc:True",
				sharing, sharing + ",expandable_segments:True"}[random.IntN(6)])
		case n < 98:
			require.NoError(r.t, pool.Release())
			pool = r.a.NewPool([]PoolOption{PoolUseOnOOM(), PoolNoSplit(), PoolLimit(30 * mib)}[random.IntN(3)])
		case n < 99:
			if err := r.a.Reserve(24*mib, r.stream(random.IntN(3))); err != nil {
				require.ErrorIs(r.t, err, ErrOutOfMemory)
			}
		default:
			snapshots = append(snapshots, r.a.Snapshot())
		}
	}
	return snapshots
}

func TestHistory_UndoneFromTheSnapshotGivesEveryEarlierState(t *testing.T) {
	seen := map[Action]bool{}
	for seed := range uint64(12) {
		for _, entries := range []int{0, 20, 700} {
			t.Run(fmt.Sprintf("seed=%d,entries=%d", seed, entries), func(t *testing.T) {
				r := newRig(t, 96*mib, "")
				require.NoError(t, r.a.RecordHistory(HistoryOptions{MaxEntries: entries}))
				snapshots := randomWork(r, rand.New(rand.NewPCG(seed, 1)), 1500)
				s := r.a.Snapshot()
				trace := s.DeviceTraces[s.device.Index]
				if entries == 0 {
					require.Zero(t, s.DroppedEntries)
					require.Equal(t, len(snapshots), requireUndo(t, s, snapshots))
					for _, e := range trace {
						seen[e.Action] = true
					}
					return
				}
				require.Len(t, trace, entries, "exactly the newest")
				require.Positive(t, s.DroppedEntries)
				met := requireUndo(t, s, snapshots)
				require.True(t, met > 0 || entries < 100)
			})
		}
	}
	require.Len(t, seen, len(journal.ActionNames()), "all that can happen did")
}

// Blocks that were there before the recording began are in the state at its beginning.
func TestHistory_BegunLaterUndoesToTheStateAtItsBeginning(t *testing.T) {
	r := newRig(t, 96*mib, "")
	randomWork(r, rand.New(rand.NewPCG(1, 2)), 300)
	before := r.a.Snapshot()
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	randomWork(r, rand.New(rand.NewPCG(3, 4)), 300)
	s := r.a.Snapshot()
	u := newUndoState(s)
	for _, e := range slices.Backward(s.DeviceTraces[s.device.Index]) {
		require.NoError(t, u.undo(e))
	}
	require.Equal(t, newUndoState(before), u)
}

// Streams at work at the same time write into logs of their own; the order in which these are put together must be one in which
// it all could have happened.
func TestHistory_OfConcurrentStreamsUndoesToEveryEarlierState(t *testing.T) {
	for _, entries := range []int{0, 3000} {
		r := newRig(t, 2*gib, "")
		require.NoError(t, r.a.RecordHistory(HistoryOptions{MaxEntries: entries}))
		var group sync.WaitGroup
		for id := range 3 {
			s, other := r.stream(id), r.stream((id+1)%3)
			group.Go(func() { streamWork(t, r.a, s, other, uint64(id)) })
		}
		var snapshots []Snapshot
		for range 10 {
			snapshots = append(snapshots, r.a.Snapshot())
			require.NoError(t, r.a.EmptyCache())
		}
		group.Wait()
		s := r.a.Snapshot()
		if entries == 0 {
			require.Equal(t, len(snapshots), requireUndo(t, s, snapshots))
		} else {
			require.Len(t, s.DeviceTraces[s.device.Index], entries)
			requireUndo(t, s, snapshots)
		}
		for i := range snapshots {
			requireUndo(t, snapshots[i], snapshots[:i])
		}
	}
}

func streamWork(t *testing.T, a *Caching, s, other device.Stream, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 9))
	var live []Block
	for range 1500 {
		if random.IntN(2) == 0 || len(live) == 0 {
			b, err := a.Alloc(1+random.Uint64N(3*mib), s)
			if err != nil {
				t.Error(err)
				return
			}
			if random.IntN(4) == 0 {
				_ = a.RecordStream(b, other)
			}
			live = append(live, b)
			continue
		}
		i := random.IntN(len(live))
		if err := a.Free(live[i]); err != nil {
			t.Error(err)
		}
		live = slices.Delete(live, i, i+1)
	}
}
