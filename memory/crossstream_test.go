package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

const reclaiming = "cross_stream_reclaim:True"

// counts are the driver calls since takeLog, by kind.
func (r *rig) counts() map[sim.CallKind]int {
	count := map[sim.CallKind]int{}
	for _, c := range r.calls {
		count[c.Kind]++
	}
	r.calls = nil
	return count
}

// streamsOf lists the streams of the segments.
func (r *rig) streamsOf() (list []device.StreamID) {
	for _, seg := range r.a.Snapshot().Segments {
		list = append(list, seg.Stream)
	}
	return list
}

func TestReclaim_AFreeSegmentChangesItsStream(t *testing.T) {
	for _, size := range []uint64{1000, 3 * mib, 64 * mib} {
		for _, conf := range []string{"", ",expandable_segments:True"} {
			t.Run(fmt.Sprint(size, conf), func(t *testing.T) {
				r := newRig(t, gib, reclaiming+conf)
				old := r.alloc(size, 0)
				r.work(old, 0)
				r.free(old)
				reserved := r.reserved()
				r.calls = nil
				b := r.alloc(size, 1)
				require.Equal(t, old.Ptr(), b.Ptr())
				count := r.counts()
				require.Equal(t, 1, count[sim.CallEventRecord])
				require.Equal(t, 1, count[sim.CallStreamWait])
				require.Zero(t, count[sim.CallEventSync]+count[sim.CallStreamSync]+count[sim.CallStreamQuery], "the processor does not wait, nor ask")
				require.Zero(t, count[sim.CallMalloc]+count[sim.CallFree]+count[sim.CallPageMap]+count[sim.CallPageUnmap])
				require.Equal(t, reserved, r.reserved())
				require.Equal(t, []device.StreamID{1}, r.streamsOf())
				require.False(t, r.done(0))
				r.complete(1)
				require.True(t, r.done(0), "what comes on stream 1 comes after the work on stream 0")
				require.ErrorIs(t, r.a.Free(old), ErrDoubleFree, "the handle of the holder before is stale")
				r.free(b)
				require.Equal(t, b.Ptr(), r.alloc(size, 1).Ptr(), "it stays with the stream")
				require.Empty(t, r.takeLog())
			})
		}
	}
}

// A segment that comes from the third stream is ordered behind the first, too.
func TestReclaim_OrdersThroughStreams(t *testing.T) {
	r := newRig(t, gib, reclaiming)
	b := r.alloc(12*mib, 0)
	r.work(b, 0)
	r.free(b)
	r.free(r.alloc(12*mib, 1)) // no work of its own
	require.Equal(t, b.Ptr(), r.alloc(12*mib, 2).Ptr())
	r.complete(2)
	require.True(t, r.done(1) && r.done(0))
}

// Off, the driver is asked; on, what is in use keeps its segment, and other pools keep theirs.
func TestReclaim_OnlyWhatIsIdleAndOfTheSamePool(t *testing.T) {
	for name, c := range map[string]struct {
		conf string
		free func(r *rig) Block
		want bool
	}{
		"off":      {"", func(r *rig) Block { b := r.alloc(12*mib, 0); r.free(b); return b }, false},
		"on":       {reclaiming, func(r *rig) Block { b := r.alloc(12*mib, 0); r.free(b); return b }, true},
		"in part":  {reclaiming, func(r *rig) Block { b := r.alloc(5*mib, 0); r.alloc(5*mib, 0); r.free(b); return b }, false},
		"pending":  {reclaiming, func(r *rig) Block { return r.pend(12*mib, 0, 2) }, false},
		"smaller":  {reclaiming, func(r *rig) Block { b := r.alloc(10*mib, 0); r.free(b); return b }, false},
		"private":  {reclaiming, func(r *rig) Block { p := r.a.NewPool(); b := r.allocIn(p, 12*mib, 0); r.free(b); return b }, false},
		"oversize": {reclaiming + ",max_split_size_mb:20", func(r *rig) Block { b := r.alloc(40*mib, 0); r.free(b); return b }, false},
		"other kind": {reclaiming, func(r *rig) Block {
			b := r.alloc(1000, 0)
			r.free(b)
			return b
		}, false},
		"switched off": {reclaiming + ",expandable_segments:True", func(r *rig) Block {
			b := r.alloc(40*mib, 0)
			r.free(b)
			r.conf(reclaiming)
			return b
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, gib, c.conf)
			b := c.free(r)
			require.Equal(t, c.want, b.Ptr() == r.alloc(12*mib, 1).Ptr())
		})
	}
}

func TestReclaim_InsideAPrivatePool(t *testing.T) {
	for _, captured := range []bool{false, true} {
		r := newRig(t, gib, reclaiming)
		p := r.a.NewPool()
		b := r.allocIn(p, 12*mib, 0)
		r.free(b)
		p.captured.Store(captured)
		require.Equal(t, !captured, b.Ptr() == r.allocIn(p, 12*mib, 1).Ptr(), "a graph has the addresses")
	}
}

func TestReclaim_TheSmallestThatFits(t *testing.T) {
	r := newRig(t, gib, reclaiming)
	var blocks []Block
	for i, n := range []uint64{40, 14, 30, 12} {
		blocks = append(blocks, r.alloc(n*mib, i))
	}
	r.free(blocks...)
	require.Equal(t, blocks[1].Ptr(), r.alloc(13*mib, 4).Ptr())
	require.Equal(t, blocks[2].Ptr(), r.alloc(13*mib, 5).Ptr(), "what is next")
	require.Equal(t, []device.StreamID{0, 4, 5, 3}, r.streamsOf())
}

// With the cache of another stream in the way, a device that is full and a limit serve without giving anything back.
func TestReclaim_BeforeARequestFails(t *testing.T) {
	for _, limited := range []bool{false, true} {
		r := newRig(t, 64*mib, reclaiming)
		if limited {
			r.a.SetMemoryLimit(60 * mib)
		}
		b := r.alloc(50*mib, 0)
		r.free(b)
		require.Equal(t, b.Ptr(), r.alloc(40*mib, 1).Ptr())
		require.Zero(t, r.a.Stats().NumAllocRetries)
	}
}

// If the streams cannot be put in order the segment stays, and the driver is asked.
func TestReclaim_ThatFailsLosesNothing(t *testing.T) {
	for _, conf := range []string{"", ",expandable_segments:True"} {
		for _, kind := range []sim.CallKind{sim.CallEventCreate, sim.CallEventRecord, sim.CallStreamWait} {
			t.Run(fmt.Sprint(kind, conf), func(t *testing.T) {
				r := newRig(t, gib, reclaiming+conf)
				b := r.alloc(40*mib, 0)
				r.work(b, 0) // so that no pages go either
				r.free(b)
				r.dev.FailNext(kind, 1, errInjected)
				require.NotEqual(t, b.Ptr(), r.alloc(40*mib, 1).Ptr())
				r.takeLog()
				require.Equal(t, b.Ptr(), r.alloc(40*mib, 0).Ptr())
				require.Empty(t, r.takeLog())
			})
		}
	}
}

// Of a stream that was closed nothing is waited for.
func TestReclaim_FromAClosedStream(t *testing.T) {
	r := newRig(t, gib, reclaiming)
	r.stream(7)
	other := r.alloc(1000, 7) // it has a shard already, and takes none over
	s := r.newStream()
	b := r.allocOn(r.a, 12*mib, s)
	r.free(b)
	require.NoError(t, s.Close())
	r.calls = nil
	require.Equal(t, b.Ptr(), r.alloc(12*mib, 7).Ptr())
	require.Zero(t, r.counts()[sim.CallStreamWait])
	r.free(other)
}

// The trace is that of a segment given back on one stream and taken on the other, so that every earlier state follows from it.
func TestReclaim_InTheHistory(t *testing.T) {
	for _, conf := range []string{"", ",expandable_segments:True"} {
		r := newRig(t, gib, reclaiming+conf)
		require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
		snapshots := []Snapshot{r.a.Snapshot()}
		b := r.alloc(12*mib, 0)
		snapshots = append(snapshots, r.a.Snapshot())
		r.free(b)
		snapshots = append(snapshots, r.a.Snapshot())
		r.alloc(12*mib, 1)
		s := r.a.Snapshot()
		require.Equal(t, 3, requireUndo(t, s, snapshots))
		var got []string
		for _, e := range s.DeviceTraces[s.device.Index] {
			got = append(got, fmt.Sprint(e.Action, " ", e.Stream))
		}
		here, away := ActionSegmentAlloc, ActionSegmentFree
		if conf != "" {
			here, away = ActionSegmentMap, ActionSegmentUnmap
		}
		require.Equal(t, []string{fmt.Sprint(away, " 0"), fmt.Sprint(here, " 1"), "alloc 1"}, got[len(got)-3:])
		require.True(t, r.a.deeds.spoiled.Load(), "a rehearsal knows of no order among streams")
	}
}

// A layout with the segment on the stream that had it cannot be put back: who holds its blocks would not be ordered behind the other stream.
func TestReclaim_OfACheckpoint(t *testing.T) {
	r := newRig(t, gib, reclaiming)
	p := r.a.NewPool()
	b := r.allocIn(p, 12*mib, 0)
	c, err := p.Checkpoint()
	require.NoError(t, err)
	r.free(b)
	r.free(r.allocIn(p, 12*mib, 1))
	_, err = p.Restore(c)
	require.ErrorIs(t, err, ErrCheckpoint)
	require.Equal(t, b.Ptr(), r.allocIn(p, 12*mib, 0).Ptr())
	_, err = p.Restore(c)
	require.NoError(t, err)
	r.check()
}

// Where something of a range is in use, whole free pages go from a stream that is idle to one that needs them.
func TestReclaim_PagesOfAnIdleStream(t *testing.T) {
	for _, idle := range []bool{true, false} {
		for _, conf := range []string{"", reclaiming} {
			t.Run(fmt.Sprint(idle, conf), func(t *testing.T) {
				r := newRig(t, gib, "expandable_segments:True,"+conf)
				held, b := r.alloc(20*mib, 0), r.alloc(60*mib, 0)
				r.work(b, 0)
				r.free(b)
				if idle {
					r.complete(0)
				}
				r.calls = nil
				got := r.alloc(40*mib, 1)
				count := r.counts()
				require.Zero(t, count[sim.CallStreamSync]+count[sim.CallEventSync])
				if idle && conf != "" {
					require.EqualValues(t, 80*mib, r.reserved())
					require.Equal(t, 2, count[sim.CallPageUnmap])
				} else {
					require.EqualValues(t, 120*mib, r.reserved(), "its work may still use them")
					require.Zero(t, count[sim.CallPageUnmap])
				}
				r.free(held, got)
			})
		}
	}
}

// A driver that refuses pages is heard, and nothing is lost.
func TestReclaim_PagesThatTheDriverRefuses(t *testing.T) {
	r := newRig(t, gib, reclaiming+",expandable_segments:True")
	held, b := r.alloc(20*mib, 0), r.alloc(60*mib, 0)
	r.free(b)
	r.complete(0)
	r.dev.FailNext(sim.CallPageUnmap, 2, errInjected)
	_, err := r.tryAlloc(40*mib, 1)
	require.ErrorIs(t, err, errInjected)
	require.EqualValues(t, 60*mib, r.reserved(), "one page has gone")
	r.dev.Inject(func(c sim.Call) error {
		if c.Kind == sim.CallStreamQuery {
			return errInjected
		}
		return nil
	})
	r.free(r.alloc(20*mib, 1), held)
	require.EqualValues(t, 80*mib, r.reserved(), "a stream that cannot be asked may have work")
}

// Pages are mapped where the fewest are needed, not at the lowest address.
func TestReclaim_TheFewestPages(t *testing.T) {
	for conf, want := range map[string]uint64{"expandable_segments:True": 120, reclaiming + ",expandable_segments:True": 80} {
		r := newRig(t, gib, conf)
		hole, held, end := r.alloc(60*mib, 0), r.alloc(20*mib, 0), r.alloc(40*mib, 0)
		r.free(hole)
		r.empty() // 60 MiB without memory, and what follows the last block
		r.free(end)
		b := r.alloc(60*mib, 0)
		require.EqualValues(t, want*mib, r.reserved(), conf)
		r.free(b, held)
	}
}

// Compaction leaves the free blocks that the request grows over: without them it would need more pages than were counted.
func TestReclaim_CompactionKeepsWhatIsGrownOver(t *testing.T) {
	for _, conf := range []string{"", reclaiming + ","} { // 104 MiB else
		r := newRig(t, gib, conf+"expandable_segments:True,expandable_segments_compaction:1")
		first, hole, third, held := r.alloc(20*mib, 0), r.alloc(20*mib, 0), r.alloc(20*mib, 0), r.alloc(2*mib, 0)
		r.free(hole)
		r.empty()
		other, beside := r.alloc(40*mib, 1), r.alloc(2*mib, 1)
		r.work(other, 1) // its pages are taken when compaction waits for them
		r.free(other, first, third)
		b := r.alloc(60*mib, 0)
		require.EqualValues(t, 84*mib, r.reserved(), conf)
		r.free(b, held, beside)
	}
}

// A bound on reserved memory holds although pages of the request's own stream move.
func TestReclaim_CompactionStaysWithinItsBound(t *testing.T) {
	peak := func(conf string) uint64 {
		r := newRig(t, 4*gib, conf+"expandable_segments:True,expandable_segments_compaction:1")
		var held []Block
		sizes := []uint64{24, 6, 2, 33, 12, 4, 18}
		for i := range 400 {
			held = append(held, r.alloc(sizes[i*i%len(sizes)]*mib+uint64(i%5)*300*kib, i%3))
			if len(held) > 10 {
				k := i * 7 % len(held)
				r.free(held[k])
				held[k] = held[len(held)-1]
				held = held[:len(held)-1]
			}
		}
		s := r.a.Stats()
		r.free(held...)
		return uint64(100 * s.ReservedBytes.All.Peak / s.AllocatedBytes.All.Peak)
	}
	for _, conf := range []string{"", reclaiming + ","} { // 139 where pages go back to the holes that they were taken from
		require.LessOrEqual(t, peak(conf), uint64(110), conf)
	}
}
