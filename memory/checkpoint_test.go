package memory

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// checkpointRig is a rig with a private pool.
type checkpointRig struct {
	*rig
	pool *Pool
}

// eachCheckpointRig runs a test with plain segments and with expandable ones.
func eachCheckpointRig(t *testing.T, test func(t *testing.T, r *checkpointRig)) {
	for _, conf := range []string{"", expandable} {
		t.Run(conf, func(t *testing.T) {
			r := &checkpointRig{rig: newRig(t, gib, conf)}
			r.pool = r.a.NewPool()
			test(t, r)
		})
	}
}

func (r *checkpointRig) take(sizes ...uint64) (blocks []Block) {
	r.t.Helper()
	for _, n := range sizes {
		blocks = append(blocks, r.allocIn(r.pool, n, 0))
	}
	return blocks
}

func (r *checkpointRig) checkpoint() *PoolCheckpoint {
	r.t.Helper()
	c, err := r.pool.Checkpoint()
	require.NoError(r.t, err)
	return c
}

func (r *checkpointRig) restore(c *PoolCheckpoint) Restored {
	r.t.Helper()
	got, err := r.pool.Restore(c)
	require.NoError(r.t, err)
	r.check()
	return got
}

// requireLayout asserts that the pool's segments are those of before, block by block; it may have others, without a block in use.
func (r *checkpointRig) requireLayout(before Snapshot) {
	r.t.Helper()
	after := map[device.Ptr]SegmentInfo{}
	for _, s := range r.pool.Snapshot().Segments {
		after[s.Address] = s
	}
	for _, want := range before.Segments {
		got, ok := after[want.Address]
		require.True(r.t, ok)
		delete(after, want.Address)
		want.Frames, got.Frames = nil, nil
		if grown := got.TotalSize - want.TotalSize; grown != 0 { // pages mapped since are part of the last block, which is free
			require.True(r.t, want.Expandable)
			got.TotalSize -= grown
			got.Blocks[len(got.Blocks)-1].Size -= grown
		}
		for i := range want.Blocks {
			want.Blocks[i].Frames = nil
		}
		for i := range got.Blocks {
			got.Blocks[i].Frames = nil
		}
		require.Equal(r.t, want, got)
	}
	for _, s := range after {
		require.Zero(r.t, s.ActiveSize)
	}
}

func ptrs(blocks ...Block) (list []device.Ptr) {
	for _, b := range blocks {
		list = append(list, b.Ptr())
	}
	return list
}

// restoresWhatWorkLeaves is PyTorch's checkFunction: work returns what it leaves allocated; the state after it is put back.
func restoresWhatWorkLeaves(t *testing.T, work func(r *checkpointRig) []Block) {
	eachCheckpointRig(t, func(t *testing.T, r *checkpointRig) {
		left := work(r)
		before, c := r.pool.Snapshot(), r.checkpoint()
		again := r.restore(c)
		r.requireLayout(before)
		require.ElementsMatch(t, ptrs(left...), again.Freed)
		require.ElementsMatch(t, ptrs(left...), ptrs(again.Live...))

		// The same after everything else that can happen to a pool.
		r.free(again.Live[0])
		r.take(700, 3*mib, 12*mib, 512)
		require.NoError(t, r.pool.Free(r.allocIn(r.pool, 2*mib, 0)))
		again = r.restore(c)
		r.requireLayout(before)
		require.ElementsMatch(t, ptrs(left...), ptrs(again.Live...))
		r.free(again.Live...)
		require.Empty(t, r.pool.Allocated())
	})
}

// test_simple.
func TestCheckpoint_Simple(t *testing.T) {
	restoresWhatWorkLeaves(t, func(r *checkpointRig) []Block {
		x := r.take(8*mib, 8*mib)
		r.free(x[0])
		parts := r.take(mib, mib, mib, mib, mib)
		r.free(parts[0], parts[1], parts[3])
		return []Block{x[1], parts[2], parts[4]}
	})
}

// elevenBlocks allocates eleven small blocks and frees all but some.
func elevenBlocks(r *checkpointRig, keep ...int) (kept []Block) {
	for i, b := range r.take(slices.Repeat([]uint64{512}, 11)...) {
		if slices.Contains(keep, i) {
			kept = append(kept, b)
		} else {
			r.free(b)
		}
	}
	return kept
}

// test_allocated_in_middle_of_segment.
func TestCheckpoint_AllocatedInMiddleOfSegment(t *testing.T) {
	restoresWhatWorkLeaves(t, func(r *checkpointRig) []Block { return elevenBlocks(r, 5) })
}

// test_multiple_middle_allocations.
func TestCheckpoint_MultipleMiddleAllocations(t *testing.T) {
	restoresWhatWorkLeaves(t, func(r *checkpointRig) []Block { return elevenBlocks(r, 5, 8) })
}

// test_middle_allocations_contiguous.
func TestCheckpoint_MiddleAllocationsContiguous(t *testing.T) {
	restoresWhatWorkLeaves(t, func(r *checkpointRig) []Block { return elevenBlocks(r, 5, 6) })
}

// test_resnet: the layout that a long program with blocks of all sizes leaves, on two streams.
func TestCheckpoint_AfterManyAllocations(t *testing.T) {
	restoresWhatWorkLeaves(t, func(r *checkpointRig) (live []Block) {
		random := rand.New(rand.NewPCG(1, 50))
		for i := range 400 {
			if random.IntN(5) < 2 && len(live) > 0 {
				k := random.IntN(len(live))
				r.free(live[k])
				live = slices.Delete(live, k, k+1)
				continue
			}
			live = append(live, r.allocIn(r.pool, 1+random.Uint64N(4<<(8+random.Uint64N(13))), i%2))
		}
		return live
	})
}

// test_additional_free_following_checkpoint: what was allocated since is freed, and its handle is known to be stale.
func TestCheckpoint_AdditionalFreeFollowingCheckpoint(t *testing.T) {
	eachCheckpointRig(t, func(t *testing.T, r *checkpointRig) {
		first := r.take(512)
		before, c := r.pool.Snapshot(), r.checkpoint()
		second := r.take(512, 40*mib)
		require.NoError(t, r.pool.RecordStream(second[1], r.stream(0)), "its own stream is none that it waits for")
		again := r.restore(c)
		require.Equal(t, ptrs(first[0], second[0], second[1]), again.Freed)
		require.Equal(t, ptrs(first...), ptrs(again.Live...))
		r.requireLayout(before)
		for _, b := range append(first, second...) {
			require.ErrorIs(t, r.a.Free(b), ErrDoubleFree)
			require.ErrorIs(t, r.pool.RecordStream(b, r.stream(1)), ErrUseAfterFree)
		}
		r.a.FreeLater(second[0]) // harmless as well
		r.free(r.take(512)[0])
		r.requireLayout(before)
		require.EqualValues(t, 1, r.a.Stats().Allocation.All.Current)
	})
}

// test_tensor_dies_after_checkpoint: blocks freed since live again, and are freed by their new handles.
func TestCheckpoint_TensorDiesAfterCheckpoint(t *testing.T) {
	eachCheckpointRig(t, func(t *testing.T, r *checkpointRig) {
		out := r.take(512, 512)
		before, c := r.pool.Snapshot(), r.checkpoint()
		r.free(out...)
		again := r.restore(c)
		require.Empty(t, again.Freed)
		r.requireLayout(before)
		require.Equal(t, ptrs(out...), r.pool.Allocated())
		for i := range out {
			require.Equal(t, ptrs(out[i:]...), r.pool.Allocated())
			require.Equal(t, out[i].Size(), again.Live[i].Size())
			r.free(again.Live[i])
		}
		require.Empty(t, r.pool.Allocated())
	})
}

// test_assigning_back_deleter_fns_to_tensor: each holder of an address gets the new handle for it, one after the other.
func TestCheckpoint_NewHandlesBelongToTheOldAddresses(t *testing.T) {
	eachCheckpointRig(t, func(t *testing.T, r *checkpointRig) {
		sizes := []uint64{2 * mib, 2 * mib, 20 * mib}
		out := r.take(sizes...)
		c := r.checkpoint()
		for range 3 {
			again := r.restore(c)
			require.Equal(t, ptrs(out...), ptrs(again.Live...))
			require.Len(t, r.pool.Allocated(), 3)
			for i, b := range again.Live {
				require.Equal(t, sizes[i], b.Size())
				require.NoError(t, r.stream(0).Fill(b.Ptr(), 1, b.Size()))
				r.free(b)
				require.Len(t, r.pool.Allocated(), 2-i)
			}
		}
	})
}

// test_check_pool_live_allocations.
func TestCheckpoint_AllocatedListsWhatLives(t *testing.T) {
	eachCheckpointRig(t, func(t *testing.T, r *checkpointRig) {
		require.Equal(t, []device.Ptr{}, r.pool.Allocated())
		out := r.take(16)
		r.alloc(16, 0) // another pool's
		require.Equal(t, ptrs(out...), r.pool.Allocated())
		require.NoError(t, r.a.RecordStream(out[0], r.stream(1)))
		r.free(out...)
		require.Empty(t, r.pool.Allocated(), "a freed block that waits is nobody's")
	})
}

// test_allocate_in_thread_to_pool: one goroutine allocates from the pool while another has nothing to do with it.
func TestCheckpoint_PoolOfOneGoroutineAmongOthers(t *testing.T) {
	eachCheckpointRig(t, func(t *testing.T, r *checkpointRig) {
		r.free(r.take(16)...)
		require.Len(t, r.pool.Snapshot().Segments, 1)
		work := func(a Allocator, s device.Stream) {
			for range 10 {
				var blocks []Block
				for range 3 {
					b, err := a.Alloc(20*mib, s)
					if err != nil {
						t.Error(err)
					}
					blocks = append(blocks, b)
				}
				for _, b := range blocks {
					if err := a.Free(b); err != nil {
						t.Error(err)
					}
				}
			}
		}
		var group sync.WaitGroup
		group.Go(func() { work(r.pool, r.stream(1)) })
		group.Go(func() { work(r.a, r.stream(2)) })
		group.Wait()
		want := 4
		if r.a.Config().ExpandableSegments {
			want = 2
		}
		require.Len(t, r.pool.Snapshot().Segments, want)
		require.NoError(t, r.pool.Close())
		require.Empty(t, r.pool.Snapshot().Segments)
	})
}

// test_expandable_segment_checkpoint_growth: the pages that were mapped since the checkpoint stay, and are part of the free
// block at the end.
func TestCheckpoint_OfARangeThatHasGrownSince(t *testing.T) {
	r := &checkpointRig{rig: newRig(t, gib, expandable)}
	r.pool = r.a.NewPool()
	out := r.take(2 * mib)
	r.requirePicture("segment 0  1160 MiB  large pool  stream 0", "| 2 MiB allocated | 18 MiB cached | 1140 MiB unmapped |")
	c := r.checkpoint()
	r.free(r.take(32 * mib)...)
	r.requirePicture("segment 0  1160 MiB  large pool  stream 0", "| 2 MiB allocated | 38 MiB cached | 1120 MiB unmapped |")
	again := r.restore(c)
	require.Equal(t, ptrs(out...), ptrs(again.Live...))
	r.requirePicture("segment 0  1160 MiB  large pool  stream 0", "| 2 MiB allocated | 38 MiB cached | 1120 MiB unmapped |")
}

// A hole in a range that has been mapped since becomes free memory.
func TestCheckpoint_OfARangeWithAHoleThatIsMappedNow(t *testing.T) {
	r := &checkpointRig{rig: newRig(t, gib, expandable)}
	r.pool = r.a.NewPool()
	out := r.take(20*mib, 20*mib, 20*mib, 30*mib)
	r.free(out[1])
	require.NoError(t, r.pool.EmptyCache())
	picture := r.a.picture()
	require.Contains(t, picture, "| 20 MiB allocated | 20 MiB unmapped | 20 MiB allocated | 30 MiB allocated | 10 MiB cached |")
	c := r.checkpoint()
	r.free(out[0], out[2])
	r.free(r.take(60*mib, 12*mib)...)
	again := r.restore(c)
	require.Equal(t, ptrs(out[0], out[2], out[3]), ptrs(again.Live...))
	require.Contains(t, r.a.picture(), "| 20 MiB allocated | 20 MiB cached | 20 MiB allocated | 30 MiB allocated | 30 MiB cached |", "12 MiB more were mapped")
	r.free(again.Live[1])
	require.NoError(t, r.pool.EmptyCache())
	_, err := r.pool.Restore(c)
	var refused *CheckpointError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, out[2].Ptr(), refused.Ptr)
	require.Contains(t, err.Error(), ": pages were given back to the driver at 0x")
	r.check()
}

func TestCheckpoint_RestoreSplitsWhatThePoolWouldNot(t *testing.T) {
	r := &checkpointRig{rig: newRig(t, gib, expandable)}
	r.pool = r.a.NewPool(PoolNoSplit())
	out := r.take(20*mib, 20*mib)
	c, picture := r.checkpoint(), r.a.picture()
	r.free(out...)
	r.restore(c)
	require.Equal(t, picture, r.a.picture())

	r = &checkpointRig{rig: newRig(t, gib, "")}
	r.pool = r.a.NewPool()
	out = r.take(8*mib, 8*mib)
	c, picture = r.checkpoint(), r.a.picture()
	r.free(out...)
	r.conf("max_split_size_mb:20")
	again := r.restore(c)
	require.Equal(t, picture, r.a.picture())
	r.free(again.Live...)
	big := r.take(30 * mib)
	require.EqualValues(t, 1, r.a.Stats().OversizeAllocations.Current)
	c = r.checkpoint()
	r.free(big...)
	require.EqualValues(t, 1, r.a.Stats().OversizeSegments.Current)
	r.restore(c)
	require.EqualValues(t, 1, r.a.Stats().OversizeAllocations.Current)
	r.restore(c)
	require.EqualValues(t, 1, r.a.Stats().OversizeAllocations.Current)
}

func TestCheckpoint_StatisticsAreThoseOfTheFreesAndAllocations(t *testing.T) {
	r := &checkpointRig{rig: newRig(t, gib, "")}
	r.pool = r.a.NewPool()
	out := r.take(1000, 3000)
	r.free(out[0]) // 1024 bytes free, 3072 allocated, the rest of 2 MiB free
	c, before := r.checkpoint(), r.a.Stats()
	r.calls = nil
	r.restore(c)
	require.Empty(t, r.takeLog(), "no driver call")
	s := r.a.Stats()
	require.Equal(t, before.Allocation.All.Current, s.Allocation.All.Current)
	require.Equal(t, before.Allocation.All.Allocated+3, s.Allocation.All.Allocated, "the block and the two free ones")
	require.Equal(t, before.AllocatedBytes.All.Freed+3072+2*mib-3072, s.AllocatedBytes.All.Freed)
	require.Equal(t, before.RequestedBytes.All.Current, s.RequestedBytes.All.Current)
	require.Equal(t, before.InactiveSplit.All.Current, s.InactiveSplit.All.Current)
	require.Equal(t, before.InactiveSplitBytes.All.Current, s.InactiveSplitBytes.All.Current)
	require.Equal(t, before.AllocatedBytes.All.Peak, s.AllocatedBytes.All.Peak)
	require.Equal(t, before.ReservedBytes, s.ReservedBytes)

	bigger := r.take(mib) // a peak that a restored block makes is one
	c = r.checkpoint()
	r.free(bigger...)
	r.a.ResetPeakStats()
	r.restore(c)
	require.EqualValues(t, 3072+mib, r.a.Stats().AllocatedBytes.All.Peak)
}

func TestCheckpoint_IsInTheHistory(t *testing.T) {
	r := &checkpointRig{rig: newRig(t, gib, "")}
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	r.pool = r.a.NewPool()
	snapshots := []Snapshot{r.a.Snapshot()}
	out := r.take(1000, 3000)
	r.free(out[0])
	snapshots = append(snapshots, r.a.Snapshot())
	c := r.checkpoint()
	r.restore(c)
	s := r.a.Snapshot()
	trace := s.DeviceTraces[s.device.Index]
	var actions []Action
	for _, e := range trace[len(trace)-9:] {
		actions = append(actions, e.Action)
		require.Equal(t, [2]uint64{0, 1}, e.PoolID)
		require.Contains(t, e.Frames[0].Name, "TestCheckpoint_IsInTheHistory", "%+v", e)
	}
	require.Equal(t, []Action{ActionFreeRequested, ActionFreeCompleted, ActionAlloc, ActionAlloc, ActionAlloc,
		ActionFreeRequested, ActionFreeCompleted, ActionFreeRequested, ActionFreeCompleted}, actions)
	require.EqualValues(t, 3000, s.Segments[0].RequestedSize)
	requireUndo(t, s, snapshots)
}

func TestCheckpoint_RefusesWhatItCannotPutBack(t *testing.T) {
	r := &checkpointRig{rig: newRig(t, gib, "")}
	r.pool = r.a.NewPool()
	out := r.take(1000, 30*mib)
	c := r.checkpoint()
	refused := func(op string, err error, part string) {
		t.Helper()
		var e *CheckpointError
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, ErrCheckpoint)
		require.Equal(t, op, e.Op)
		require.Equal(t, r.pool.ID(), e.Pool)
		require.ErrorContains(t, err, part)
		r.check()
	}
	picture := r.a.picture()
	r.record(out[0], 1)
	_, err := r.pool.Restore(c)
	refused("Restore", err, "may still use the block")
	require.Equal(t, picture, r.a.picture(), "nothing has changed")
	r.free(out[0])
	_, err = r.pool.Restore(c)
	refused("Restore", err, "may still use the block")
	_, err = r.pool.Checkpoint()
	refused("Checkpoint", err, "still uses the freed block")
	r.complete(1)
	again := r.restore(c)
	require.Equal(t, ptrs(out...), ptrs(again.Live...))

	other := r.a.NewPool()
	_, err = other.Restore(c)
	require.EqualError(t, err, "memory: Restore of pool [0 2] on "+r.a.Device().String()+": the checkpoint is of pool [0 1] of "+r.a.Device().String())
	_, err = r.pool.Restore(nil)
	refused("Restore", err, "no checkpoint")
	r.free(again.Live[1])
	require.NoError(t, r.pool.EmptyCache())
	_, err = r.pool.Restore(c)
	refused("Restore", err, "the segment was given back to the driver at 0x")

	require.NoError(t, r.pool.Release())
	_, err = r.pool.Checkpoint()
	require.ErrorIs(t, err, ErrPoolReleased)
	_, err = r.pool.Restore(c)
	require.ErrorIs(t, err, ErrPoolReleased)
}
