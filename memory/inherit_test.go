package memory

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
)

// newStream opens a stream that can be closed.
func (r *rig) newStream() device.Stream {
	r.t.Helper()
	s, err := r.dev.NewStream()
	require.NoError(r.t, err)
	return s
}

// allocOn allocates on a stream; it must succeed.
func (r *rig) allocOn(a Allocator, bytes uint64, s device.Stream) Block {
	r.t.Helper()
	b, err := a.Alloc(bytes, s)
	require.NoError(r.t, err)
	r.check()
	return b
}

func TestInherit_ANewStreamGetsTheMemoryOfAClosedOne(t *testing.T) {
	r := newRig(t, gib, "")
	first := r.newStream()
	held, pending, cached := r.allocOn(r.a, 5*mib, first), r.allocOn(r.a, 6*mib, first), r.allocOn(r.a, 7*mib, first)
	r.record(pending, 0)
	r.free(cached, pending)
	require.NoError(t, first.Close())
	second := r.newStream()
	r.calls = nil
	require.Equal(t, r.place(cached), r.place(r.allocOn(r.a, 7*mib, second)), "of what was cached")
	r.complete(0)
	require.Equal(t, r.place(pending), r.place(r.allocOn(r.a, 6*mib, second)), "of what was pending")
	r.free(held)
	require.Equal(t, r.place(held), r.place(r.allocOn(r.a, 5*mib, second)), "of what was held")
	require.Empty(t, r.takeLog(), "the driver was not asked")
	require.Len(t, *r.a.shards.Load(), 1)
	for _, seg := range r.a.Snapshot().Segments {
		require.Equal(t, second.ID(), seg.Stream)
	}
}

// Streams that are open keep what is theirs, whatever their work has come to.
func TestInherit_OpenStreamsKeepTheirs(t *testing.T) {
	r := newRig(t, gib, "")
	first, second := r.newStream(), r.newStream()
	b := r.allocOn(r.a, 12*mib, first)
	r.free(b)
	require.NotEqual(t, b.Ptr(), r.allocOn(r.a, 12*mib, second).Ptr())
	require.Equal(t, b.Ptr(), r.allocOn(r.a, 12*mib, first).Ptr())
}

// Of several, the one with the most memory is taken over first.
func TestInherit_TheLargestFirst(t *testing.T) {
	r := newRig(t, gib, "")
	var blocks []Block
	streams := []device.Stream{r.newStream(), r.newStream(), r.newStream()}
	for i, n := range []uint64{12, 40, 30} {
		blocks = append(blocks, r.allocOn(r.a, n*mib, streams[i]))
	}
	r.free(blocks...)
	for _, s := range streams {
		require.NoError(t, s.Close())
	}
	for _, i := range []int{1, 2, 0} {
		require.Equal(t, blocks[i].Ptr(), r.allocOn(r.a, blocks[i].Size(), r.newStream()).Ptr())
	}
	require.NotEqual(t, blocks[0].Ptr(), r.allocOn(r.a, 12*mib, r.newStream()).Ptr())
}

// Work that was captured runs later: memory of a pool that a graph may have the addresses of does not change its stream.
func TestInherit_NotInPoolsOfGraphs(t *testing.T) {
	for name, capture := range map[string]func(r *rig, p *Pool, s device.Stream) (device.Stream, error){
		"Route": func(r *rig, p *Pool, s device.Stream) (device.Stream, error) {
			return s, r.a.BeginRoute(p, func(x device.Stream) bool { return x == s })
		},
		"Stream": func(_ *rig, _ *Pool, s device.Stream) (device.Stream, error) { return &fakeCapturer{s, 3}, nil },
		"None":   func(_ *rig, _ *Pool, s device.Stream) (device.Stream, error) { return s, nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, gib, "")
			p := r.a.NewPool()
			s := r.newStream()
			on, err := capture(r, p, s)
			require.NoError(t, err)
			b := r.allocOn(p, 12*mib, on)
			r.free(b)
			require.NoError(t, s.Close())
			again := r.allocOn(p, 12*mib, r.newStream())
			require.Equal(t, name == "None", b.Ptr() == again.Ptr())
		})
	}
}

// A layout noted for a stream that is closed now can be put back: the segments are the same.
func TestInherit_CheckpointsStayGood(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool()
	s := r.newStream()
	b := r.allocOn(p, 12*mib, s)
	c, err := p.Checkpoint()
	require.NoError(t, err)
	r.free(b)
	require.NoError(t, s.Close())
	require.Equal(t, b.Ptr(), r.allocOn(p, 12*mib, r.newStream()).Ptr())
	restored, err := p.Restore(c)
	require.NoError(t, err)
	require.Equal(t, []device.Ptr{b.Ptr()}, restored.Freed)
	require.Equal(t, b.Ptr(), restored.Live[0].Ptr())
	r.check()
}

// The trace tells the streams apart, before and after.
func TestInherit_InTheHistory(t *testing.T) {
	r := newRig(t, gib, "")
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	want := []device.StreamID{}
	for range 5 {
		s := r.newStream()
		r.free(r.allocOn(r.a, 12*mib, s))
		require.NoError(t, s.Close())
		want = append(want, s.ID(), s.ID(), s.ID())
	}
	var got []device.StreamID
	for _, e := range r.a.Snapshot().DeviceTraces[r.a.Device().Index] {
		if e.Action != "segment_alloc" {
			got = append(got, e.Stream)
		}
	}
	require.Equal(t, want, got)
}

// A program that opens a stream for each request keeps its size, in memory, in the allocator's own lists, and in the statistics.
func TestInherit_AThousandStreams(t *testing.T) {
	for _, conf := range []string{"", expandable} {
		for _, history := range []bool{false, true} {
			t.Run(fmt.Sprint(conf, history), func(t *testing.T) {
				dev := sim.New(64 * gib)
				c, err := ParseConfig(conf)
				require.NoError(t, err)
				a, err := New(dev, c)
				require.NoError(t, err)
				if history {
					require.NoError(t, a.RecordHistory(HistoryOptions{MaxEntries: 100}))
				}
				p := a.NewPool()
				const n = 1000
				var before Block
				for i := range n {
					s, err := dev.NewStream()
					require.NoError(t, err)
					for _, from := range []Allocator{a, p} {
						small, err := from.Alloc(1000, s)
						require.NoError(t, err)
						large, err := from.Alloc(22*mib, s)
						require.NoError(t, err)
						require.NoError(t, a.RecordStream(large, dev.DefaultStream()))
						require.NoError(t, a.Free(before)) // of the stream before, which is closed
						require.NoError(t, a.Free(large))
						before = small
					}
					require.NoError(t, s.Close())
					if i%50 == 0 {
						require.NoError(t, a.check())
					}
				}
				stats := a.Stats()
				require.LessOrEqual(t, stats.ReservedBytes.All.Peak, int64(2*(40+2)*mib))
				require.Len(t, *a.shards.Load(), 2)
				require.LessOrEqual(t, len(a.events.queues.Tails()), 1)
				require.EqualValues(t, 4*n, stats.Allocation.All.Allocated)
				require.EqualValues(t, 1, stats.Allocation.All.Current)
				require.EqualValues(t, 3, stats.Allocation.All.Peak)
				require.EqualValues(t, 2*n*(22*mib+1024), stats.AllocatedBytes.All.Allocated)
				require.EqualValues(t, 22*mib+2*1024, stats.AllocatedBytes.All.Peak)
				require.NoError(t, a.Free(before))
				require.NoError(t, p.Close())
				require.NoError(t, a.Close())
				require.Zero(t, dev.Live().Bytes)
			})
		}
	}
}

// Streams that record and are closed leave no queue behind.
func TestInherit_QueuesOfClosedStreamsGo(t *testing.T) {
	r := newRig(t, gib, "")
	for range 100 {
		b := r.alloc(1000, 0)
		s := r.newStream()
		require.NoError(t, r.a.RecordStream(b, s))
		r.free(b)
		require.NoError(t, s.Close())
		r.alloc(1000, 0)
	}
	require.LessOrEqual(t, len(r.a.events.queues.Tails()), 2)
}

// A stream that is being closed still works: what it uses is not handed out.
func TestFree_WaitsForAStreamThatIsBeingClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := host.New()
		a, err := New(dev, Config{})
		require.NoError(t, err)
		s, err := dev.NewStream()
		require.NoError(t, err)
		b, err := a.Alloc(1000, dev.DefaultStream())
		require.NoError(t, err)
		open := make(chan struct{})
		require.NoError(t, s.(device.Executor).Submit("gate", func() error { <-open; return nil }))
		require.NoError(t, a.RecordStream(b, s))
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		require.NoError(t, a.Free(b))
		other, err := a.Alloc(1000, dev.DefaultStream())
		require.NoError(t, err)
		require.NotEqual(t, b.Ptr(), other.Ptr())
		close(open)
		require.NoError(t, <-closed)
		again, err := a.Alloc(1000, dev.DefaultStream())
		require.NoError(t, err)
		require.Equal(t, b.Ptr(), again.Ptr())
		require.ErrorIs(t, a.Close(), ErrLeak)
		require.NoError(t, dev.Close())
	})
}
