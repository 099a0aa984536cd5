package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

const deviceWait = "record_stream_device_wait:True"

// work puts something on a stream that uses b.
func (r *rig) work(b Block, stream int) {
	r.t.Helper()
	require.NoError(r.t, r.stream(stream).Fill(b.Ptr(), 0, b.Size()))
}

// pend allocates on a stream, lets others use the block, and frees it.
func (r *rig) pend(bytes uint64, stream int, users ...int) Block {
	r.t.Helper()
	b := r.alloc(bytes, stream)
	for _, u := range users {
		r.work(b, u)
		r.record(b, u)
	}
	r.free(b)
	return b
}

// done reports whether all work of a stream is finished.
func (r *rig) done(stream int) bool {
	r.t.Helper()
	done, err := r.stream(stream).Done()
	require.NoError(r.t, err)
	return done
}

func TestDeviceWait_APendingBlockServesItsStream(t *testing.T) {
	for conf, waits := range map[string]int{"": 0, deviceWait: 2} {
		r := newRig(t, gib, conf)
		b := r.pend(12*mib, 0, 1, 2)
		r.calls = nil
		again := r.alloc(12*mib, 0)
		require.Equal(t, conf != "", b.Ptr() == again.Ptr(), conf)
		count := map[sim.CallKind]int{}
		for _, c := range r.calls {
			count[c.Kind]++
		}
		require.Equal(t, waits, count[sim.CallStreamWait], "%s: one for each stream that used it", conf)
		require.Equal(t, 1-waits/2, count[sim.CallMalloc], conf)
		require.Zero(t, count[sim.CallEventSync]+count[sim.CallStreamSync], "the processor does not wait")
		require.False(t, r.done(1) || r.done(2))
		r.complete(0)
		require.Equal(t, conf != "", r.done(1) && r.done(2), "%s: what comes on stream 0 comes after their work", conf)
	}
}

// The block that leaves least over is taken, counted with the free memory beside it, and only if nothing cached fits.
func TestDeviceWait_TheBestFit(t *testing.T) {
	r := newRig(t, gib, deviceWait+",expandable_segments:True")
	held := r.alloc(2*mib, 0)
	large := r.alloc(30*mib, 0)
	between := r.alloc(2*mib, 0)
	small := r.alloc(14*mib, 0)
	beside := r.alloc(2*mib, 0)
	end := r.alloc(2*mib, 0)
	for _, b := range []Block{large, small} {
		r.record(b, 1)
		r.free(b)
	}
	r.free(beside)
	require.Equal(t, beside.Ptr(), r.alloc(2*mib, 0).Ptr(), "cached ones first")
	require.Equal(t, small.Ptr(), r.alloc(12*mib, 0).Ptr())
	require.Equal(t, large.Ptr(), r.alloc(13*mib, 0).Ptr())
	_, _, _ = held, between, end

	r = newRig(t, gib, deviceWait)
	first, second := r.alloc(12*mib, 0), r.alloc(6*mib, 0)
	third, last := r.alloc(6*mib, 0), r.alloc(6*mib, 0)
	r.record(second, 1)
	r.free(second, third)
	require.Equal(t, second.Ptr(), r.alloc(9*mib, 0).Ptr(), "with what is free behind it")
	_, _ = first, last
}

// The next user may be anybody's only after it was this stream's, or when the work is done.
func TestDeviceWait_OfOtherStreamsNothing(t *testing.T) {
	r := newRig(t, gib, deviceWait)
	b := r.pend(12*mib, 0, 1)
	require.NotEqual(t, b.Ptr(), r.alloc(12*mib, 1).Ptr())
	require.NotEqual(t, b.Ptr(), r.alloc(12*mib, 2).Ptr())
	require.Equal(t, b.Ptr(), r.alloc(12*mib, 0).Ptr())
}

// The rules for large blocks are those for cached ones.
func TestDeviceWait_KeepsTheLimitsOfSplitting(t *testing.T) {
	r := newRig(t, gib, deviceWait+",max_split_size_mb:20")
	b := r.pend(40*mib, 0, 1)
	require.NotEqual(t, b.Ptr(), r.alloc(12*mib, 0).Ptr(), "an oversize block is for oversize requests")
	require.NotEqual(t, b.Ptr(), r.alloc(20*mib, 0).Ptr(), "nor for those that waste most of it")
	require.Equal(t, b.Ptr(), r.alloc(30*mib, 0).Ptr())

	r = newRig(t, gib, deviceWait+",expandable_segments:True")
	b = r.pend(12*mib, 0, 1)
	r.conf(deviceWait)
	require.NotEqual(t, b.Ptr(), r.alloc(12*mib, 0).Ptr(), "expandable segments are switched off")
}

// The event is free for another use when the stream waits for it, and the stream waits for what it stood for.
func TestDeviceWait_EventsAreUsedAgain(t *testing.T) {
	r := newRig(t, gib, deviceWait)
	other := r.alloc(12*mib, 0)
	r.pend(14*mib, 0, 1)
	r.alloc(14*mib, 0)
	r.work(other, 2)
	r.record(other, 2)
	r.free(other)
	require.EqualValues(t, 1, r.dev.Calls().Count[sim.CallEventCreate])
	r.complete(0)
	require.True(t, r.done(1))
	require.False(t, r.done(2), "stream 0 does not wait for what the event stands for now")
	r.complete(2)
	require.True(t, r.reused(other, 0))
}

// What follows in the queues of events is neither lost nor early.
func TestDeviceWait_OtherBlocksWaitOn(t *testing.T) {
	r := newRig(t, gib, deviceWait)
	first, second, third := r.alloc(12*mib, 0), r.alloc(14*mib, 0), r.alloc(16*mib, 2)
	for _, b := range []Block{first, second, third} {
		r.record(b, 1)
		r.free(b)
	}
	require.Equal(t, second.Ptr(), r.alloc(14*mib, 0).Ptr())
	require.Equal(t, int64(3), r.a.Stats().Active.All.Current)
	r.complete(1)
	require.Equal(t, third.Ptr(), r.alloc(16*mib, 2).Ptr())
	require.Equal(t, first.Ptr(), r.alloc(12*mib, 0).Ptr())
	require.Zero(t, r.a.pendingWork.Load())
}

// Statistics are those of a block whose events had completed in time.
func TestDeviceWait_Statistics(t *testing.T) {
	run := func(conf string, complete bool) Stats {
		r := newRig(t, gib, conf)
		first, second := r.alloc(5*mib, 0), r.alloc(12*mib, 0)
		r.record(first, 1)
		r.record(second, 1)
		r.free(second)
		if complete {
			r.complete(1)
		}
		r.alloc(12*mib, 0)
		r.free(first)
		return r.a.Stats()
	}
	require.Equal(t, run("", true), run(deviceWait, false))
}

// A history has the end of the free before the block is handed out again.
func TestDeviceWait_InTheHistory(t *testing.T) {
	r := newRig(t, gib, deviceWait)
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	before := r.a.Snapshot()
	b := r.pend(12*mib, 0, 1)
	r.alloc(12*mib, 0)
	s := r.a.Snapshot()
	requireUndo(t, s, []Snapshot{before})
	var got []Action
	for _, e := range s.DeviceTraces[s.device.Index] {
		if e.Addr == b.Ptr() {
			got = append(got, e.Action)
		}
	}
	require.Equal(t, []Action{ActionSegmentAlloc, ActionAlloc, ActionFreeRequested, ActionFreeCompleted, ActionAlloc}, got)
	require.True(t, r.a.deeds.spoiled.Load(), "a rehearsal would not know when the work is done")
}

// A stream that cannot be made to wait gets other memory, and the block stays as it was.
func TestDeviceWait_ThatFailsLosesNothing(t *testing.T) {
	for nth := 1; nth <= 2; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			r := newRig(t, gib, deviceWait)
			b := r.pend(12*mib, 0, 1, 2)
			waits := 0
			r.dev.Inject(func(c sim.Call) error {
				if c.Kind == sim.CallStreamWait {
					if waits++; waits == nth {
						return errInjected
					}
				}
				return nil
			})
			require.NotEqual(t, b.Ptr(), r.alloc(12*mib, 0).Ptr())
			require.Equal(t, int64(2), r.a.Stats().Active.All.Current)
			r.dev.Inject(nil)
			require.Equal(t, b.Ptr(), r.alloc(12*mib, 0).Ptr(), "it is asked again")
			r.complete(0)
			require.True(t, r.done(1) && r.done(2))
		})
	}
}

// Without an event there is nothing to wait for: the processor finds out when the stream is idle.
func TestDeviceWait_NotWithoutAnEvent(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallEventCreate, sim.CallEventRecord} {
		r := newRig(t, gib, deviceWait)
		b := r.alloc(12*mib, 0)
		r.work(b, 1)
		r.record(b, 1)
		r.dev.FailNext(kind, 1, errInjected)
		r.free(b)
		larger := r.pend(13*mib, 0, 2)
		require.Equal(t, larger.Ptr(), r.alloc(12*mib, 0).Ptr(), "%s: it is in nobody's way", kind)
		require.NotEqual(t, b.Ptr(), r.alloc(12*mib, 0).Ptr(), kind)
		r.complete(1)
		require.Equal(t, b.Ptr(), r.alloc(12*mib, 0).Ptr(), kind)
	}
}

// A stream that was closed while its request was on the way waits for nobody.
func TestDeviceWait_OfAClosedStream(t *testing.T) {
	r := newRig(t, gib, deviceWait)
	s := r.newStream()
	b := r.allocOn(r.a, 12*mib, s)
	r.record(b, 0)
	r.free(b)
	sh, err := r.a.shardOf(s)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	got, err := r.a.allocIn(sh, 12*mib)
	require.NoError(t, err)
	require.NotEqual(t, b.Ptr(), got.Ptr())
	r.check()
}

// A wait would be part of the graph, and its replays would not wait for what ran once.
func TestDeviceWait_NotDuringACapture(t *testing.T) {
	for name, conf := range map[string]string{"wait": deviceWait, "reclaim": "cross_stream_reclaim:True"} {
		t.Run(name, func(t *testing.T) {
			c, err := ParseConfig(conf)
			require.NoError(t, err)
			dev := &capturingDriver{Device: sim.New(gib, sim.ManualStreams())}
			a, err := New(dev, c)
			require.NoError(t, err)
			b, err := a.Alloc(12*mib, dev.Stream(0))
			require.NoError(t, err)
			from := 0
			if name == "wait" {
				require.NoError(t, a.RecordStream(b, dev.Stream(1)))
			} else {
				from = 1
			}
			require.NoError(t, a.Free(b))
			for _, captured := range []bool{true, false} {
				dev.capturing = captured
				got, err := a.Alloc(12*mib, dev.Stream(device.StreamID(from)))
				require.NoError(t, err)
				require.Equal(t, !captured, b.Ptr() == got.Ptr())
			}
			require.ErrorIs(t, a.Close(), ErrLeak)
		})
	}
}

// capturingDriver says that one of its streams is being captured.
type capturingDriver struct {
	*sim.Device
	capturing bool
}

func (d *capturingDriver) Capturing() bool { return d.capturing }
