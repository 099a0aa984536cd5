package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/memory"
)

// doubling captures, on a stream, work that leaves value in out by way of a temporary block, whose address it returns.
func (r *captureRig) doubling(s *cuda.Stream, out memory.Block, value byte, opts ...memory.CaptureOption) (*memory.Graph, device.Ptr) {
	r.t.Helper()
	var temporary device.Ptr
	g, err := r.a.CaptureGraph(s, func() error {
		b, err := r.a.Alloc(out.Size(), s)
		temporary = b.Ptr()
		return errors.Join(err, s.Fill(b.Ptr(), value, b.Size()), s.Copy(out.Ptr(), b.Ptr(), b.Size()), r.a.Free(b))
	}, opts...)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, g.Close()) })
	return g, temporary
}

// requireFilled asserts the content of a block.
func (r *captureRig) requireFilled(b memory.Block, value byte) {
	r.t.Helper()
	got := make([]byte, b.Size())
	require.NoError(r.t, r.main.CopyToHost(got, b.Ptr()))
	for i := range got {
		require.Equal(r.t, value, got[i], "byte %d", i)
	}
}

// test_graph_concurrent_replay: graphs with pools of their own share no memory, so their replays may overlap. Those that share a
// pool use the same, which is why theirs may not.
func TestCaptureGraph_ReplaysOverlapUnlessThePoolIsShared(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		t.Run(conf, func(t *testing.T) {
			r := newCaptureRig(t, conf)
			one, two, three := r.take(4096, r.main), r.take(4096, r.main), r.take(4096, r.main)
			first, at := r.doubling(r.main, one, 1)
			second, other := r.doubling(r.side, two, 2)
			third, shared := r.doubling(r.main, three, 3, memory.CapturePool(first.Pool()))
			require.NotEqual(t, at, other)
			require.Equal(t, at, shared)
			for _, seg := range first.Pool().Snapshot().Segments {
				inside := other >= seg.Address && other < seg.Address.Add(seg.TotalSize)
				require.False(t, inside)
			}
			r.Hold() // both are under way before either is done
			for range 5 {
				require.NoError(t, errors.Join(first.Replay(r.main), second.Replay(r.side)))
			}
			r.Release()
			require.NoError(t, r.dev.Synchronize(context.Background()))
			r.requireFilled(one, 1)
			r.requireFilled(two, 2)
			require.NoError(t, errors.Join(first.Replay(r.main), third.Replay(r.main), r.dev.Synchronize(context.Background())))
			r.requireFilled(one, 1)
			r.requireFilled(three, 3)
			for _, b := range []memory.Block{one, two, three} {
				require.NoError(t, r.a.Free(b))
			}
		})
	}
}

// test_cuda_graph_allocator_propagates_stream: requests on a side stream that is part of the capture are served by the graph's
// pool as well; those of a stream that is not are not.
func TestCaptureGraph_SideStreamsAllocateFromThePoolOfTheGraph(t *testing.T) {
	r := newCaptureRig(t, "")
	outside := r.stream()
	g := r.captureAndRun(func() {
		r.free(r.take(1<<20, r.main))
		require.Empty(t, r.privateSegments(memory.PoolID{2, 0}))
		require.Len(t, r.privateSegments(memory.PoolID{1, 0}), 1)
		r.order(r.main, r.side)
		r.free(r.take(20<<20, r.side))
		r.free(r.take(1<<20, r.side))
		r.free(r.take(1<<20, outside))
		r.order(r.side, r.main)
		r.free(r.take(1<<20, r.main))
	})
	require.Equal(t, memory.PoolID{1, 0}, g.Pool().ID())
	streams := map[device.StreamID]int{}
	for _, seg := range r.privateSegments(g.Pool().ID()) {
		streams[seg.Stream]++
	}
	require.Equal(t, map[device.StreamID]int{r.main.ID(): 1, r.side.ID(): 2}, streams)
	require.Len(t, r.privateSegments(memory.PoolID{}), 1)
}

// privateSegments lists the segments of a pool.
func (r *captureRig) privateSegments(id memory.PoolID) (list []memory.SegmentInfo) {
	for _, seg := range r.a.Snapshot().Segments {
		if seg.PoolID == id {
			list = append(list, seg)
		}
	}
	return list
}

// test_cuda_graph_error_options: captures are of the relaxed kind, so what other goroutines ask of the driver does them no harm.
func TestCaptureGraph_OtherGoroutinesMayAskTheDriver(t *testing.T) {
	r := newCaptureRig(t, "")
	out, outside := r.take(100, r.main), r.stream()
	g, err := r.a.CaptureGraph(r.main, func() error {
		done := make(chan error)
		go func() {
			p, err := r.dev.Malloc(1 << 20)
			if err != nil {
				done <- err
				return
			}
			b, err := r.a.Alloc(40<<20, outside)
			e, eventErr := r.dev.NewEvent()
			done <- errors.Join(err, eventErr, outside.Fill(b.Ptr(), 1, 100), outside.Record(e), e.Synchronize(context.Background()), e.Close(),
				outside.Synchronize(context.Background()), r.a.Free(b), r.dev.Free(p))
		}()
		return errors.Join(<-done, r.main.Fill(out.Ptr(), 6, out.Size()))
	})
	require.NoError(t, err)
	require.NoError(t, g.Replay(r.main))
	r.requireFilled(out, 6)
	require.NoError(t, errors.Join(g.Close(), r.a.Free(out)))
}

// A chain of graphs that share a pool is continued in two ways: before the second is captured, the pool's state after the
// graph that it follows is put back, so that the graph's result, which the books have forgotten, is not overwritten.
func TestCaptureGraph_CheckpointsLetChainsBranch(t *testing.T) {
	for _, restore := range []bool{true, false} {
		t.Run(fmt.Sprint(restore), func(t *testing.T) {
			r := newCaptureRig(t, "")
			const n = 4096
			out := r.take(n, r.main)
			var result memory.Block
			root, err := r.a.CaptureGraph(r.main, func() error {
				result = r.take(n, r.main)
				return r.main.Fill(result.Ptr(), 1, n)
			})
			require.NoError(t, err)
			state, err := root.Pool().Checkpoint()
			require.NoError(t, err)
			require.NoError(t, r.a.Free(result)) // the program is done with the first run
			left, _ := r.doubling(r.main, out, 2, memory.CapturePool(root.Pool()))

			require.NoError(t, errors.Join(root.Replay(r.main), r.dev.Synchronize(context.Background()))) // the result lives again
			address := result.Ptr()
			if restore {
				again, err := root.Pool().Restore(state)
				require.NoError(t, err)
				require.Len(t, again.Live, 1)
				result = again.Live[0]
				require.Equal(t, address, result.Ptr())
			}
			right, _ := r.doubling(r.main, out, 3, memory.CapturePool(root.Pool()))
			require.NoError(t, right.Replay(r.main))
			r.requireFilled(out, 3)
			got := make([]byte, 1)
			require.NoError(t, r.main.CopyToHost(got, address))
			require.Equal(t, restore, got[0] == 1, "without the checkpoint the second branch takes the result's memory")
			if restore {
				require.NoError(t, r.a.Free(result))
			}
			require.NoError(t, errors.Join(left.Replay(r.main), r.dev.Synchronize(context.Background()), root.Close(), r.a.Free(out), r.a.Check()))
		})
	}
}

// test_repeat_graph_capture_cublas_workspace_memory, as far as it is our memory: captures whose graphs are closed leave nothing.
func TestCaptureGraph_RepeatedCapturesTakeNoMoreMemory(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		t.Run(conf, func(t *testing.T) {
			r := newCaptureRig(t, conf)
			free := func() uint64 {
				info, err := r.dev.MemInfo()
				require.NoError(t, err)
				return info.Free
			}
			var first uint64
			for i := range 100 {
				g, err := r.a.CaptureGraph(r.main, func() error {
					b := r.take(1<<20, r.main)
					return errors.Join(r.main.Fill(b.Ptr(), 1, b.Size()), r.a.Free(b))
				})
				require.NoError(t, err)
				require.NoError(t, errors.Join(g.Replay(r.main), r.main.Synchronize(context.Background()), g.Close(), r.a.EmptyCache()))
				if i == 0 {
					first = free()
				}
			}
			require.Equal(t, first, free())
			require.Zero(t, r.reserved())
		})
	}
}
