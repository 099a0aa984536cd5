package pinned

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

func TestPinned_WaitsForAllRecordedStreams(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.record(a, 1, 2, 3, 2, 1)
	r.free(a)
	require.Equal(t, 3, r.calls(sim.CallEventRecord), "one event for each stream")
	for _, id := range []int{3, 1} {
		r.complete(id)
		r.requireOther(a, r.alloc(4096))
	}
	r.complete(2)
	r.requireSame(a, r.alloc(4096))
}

func TestPinned_WaitsOnlyForWorkBeforeTheFree(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.record(a, 1)
	r.free(a)
	r.complete(1)
	e, err := r.dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, r.stream(1).Record(e)) // later work, not finished
	r.requireSame(a, r.alloc(4096))
	require.NoError(t, e.Close())
}

func TestPinned_RecordedStreamsAreForgottenAfterTheFree(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.record(a, 1)
	r.free(a)
	r.complete(1)
	b := r.alloc(4096)
	r.requireSame(a, b)
	require.Equal(t, []device.Stream{nil}, b.b.users[:1], "nor kept alive")
	r.free(b)
	r.requireSame(a, r.alloc(4096))
	require.Equal(t, 1, r.calls(sim.CallEventRecord))
}

func TestPinned_FreeDoesNotWait(t *testing.T) {
	r := newRig(t, "")
	for range 100 {
		b := r.alloc(4096)
		r.record(b, 1, 2)
		r.free(b)
	}
	require.Zero(t, r.calls(sim.CallEventSync)+r.calls(sim.CallStreamSync)+r.calls(sim.CallDeviceSync))
	require.Equal(t, 100, r.dev.Live().Pinned)
}

// In PyTorch b would wait for a: there is one queue for all streams.
func TestPinned_ALongRunningStreamHoldsUpNoOther(t *testing.T) {
	r := newRig(t, "")
	a, b := r.alloc(4096), r.alloc(8192)
	r.record(a, 1)
	r.record(b, 2)
	r.free(a, b)
	r.complete(2)
	r.requireSame(b, r.alloc(8192))
	r.requireOther(a, r.alloc(4096))
}

func TestPinned_CompletedBlocksAreCachedInTheOrderOfTheirFrees(t *testing.T) {
	r := newRig(t, "")
	var blocks []Block
	for range 6 {
		blocks = append(blocks, r.alloc(4096))
	}
	for i, b := range blocks {
		r.record(b, 3-i%3) // streams 3, 2, 1, 3, 2, 1
	}
	r.free(blocks...)
	for id := range 4 {
		r.complete(id)
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		r.requireSame(blocks[i], r.alloc(4096))
	}
}

func TestPinned_LooksAtFewEventsForEachAlloc(t *testing.T) {
	r := newRig(t, "")
	for i := range 3000 { // enough for the queues to move up
		b, err := r.p.Alloc(1)
		require.NoError(t, err)
		require.NoError(t, r.p.RecordStream(b, r.stream(i%2)))
		require.NoError(t, r.p.Free(b))
	}
	before := r.calls(sim.CallEventQuery)
	r.alloc(1)
	require.Equal(t, 2, r.calls(sim.CallEventQuery)-before, "the first of each stream")
	r.complete(0)
	r.complete(1)
	r.alloc(1)
	require.Equal(t, 2, r.active())
	require.Equal(t, 3000, r.dev.Live().Events)
}

func TestPinned_TakesStreamsOfOtherDevices(t *testing.T) {
	r := newRig(t, "")
	other := sim.New(mib, sim.ManualStreams())
	a := r.alloc(4096)
	r.record(a, 1)
	require.NoError(t, r.p.RecordStream(a, other.Stream(1)), "the number is the same, the stream is not")
	r.free(a)
	r.complete(1)
	r.requireOther(a, r.alloc(4096))
	other.Complete(1)
	r.requireSame(a, r.alloc(4096))
	require.ErrorIs(t, r.p.Close(), memory.ErrLeak)
	require.Zero(t, other.Live().Events)
}

func TestPinned_AClosedStreamIsDone(t *testing.T) {
	r := newRig(t, "")
	s, err := r.dev.NewStream()
	require.NoError(t, err)
	before, after := r.alloc(4096), r.alloc(8192)
	require.NoError(t, r.p.RecordStream(before, s))
	require.NoError(t, r.p.RecordStream(after, s))
	r.free(before)
	require.NoError(t, s.Close())
	r.free(after)
	r.requireSame(before, r.alloc(4096))
	r.requireSame(after, r.alloc(8192))
}

// Real work: what the stream reads is what was there when the copy was asked for, though the block is freed, and its size
// allocated again and overwritten, before the copy runs.
func TestPinned_FreedBlocksKeepTheirContentUntilTheCopyRan(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	p, err := New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	s, err := dev.NewStream()
	require.NoError(t, err)
	gate := make(chan struct{})
	require.NoError(t, s.(device.Executor).Submit("gate", func() error { <-gate; return nil }))

	const n = 1000
	got := make([][]byte, 20)
	for i := range got {
		b, err := p.Alloc(n)
		require.NoError(t, err)
		fill(b.Bytes(), byte(i+1))
		require.NoError(t, s.(device.Executor).Submit("copy", func() error {
			got[i] = bytes.Clone(b.Bytes())
			return nil
		}))
		require.NoError(t, p.RecordStream(b, s))
		require.NoError(t, p.Free(b))
	}
	close(gate)
	require.NoError(t, s.Synchronize(t.Context()))
	for i := range got {
		require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, n), got[i])
	}
	b, err := p.Alloc(n)
	require.NoError(t, err)
	require.NoError(t, p.Free(b))
	require.EqualValues(t, len(got), p.Stats().NumHostAlloc, "the last one was served from cache")
	require.Zero(t, p.Stats().ActiveBytes.Current)
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func TestPinned_BackgroundGoroutineLooksAtEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "pinned_use_background_threads:True")
		defer r.close()
		a, other := r.alloc(4096), r.alloc(1)
		r.record(a, 1)
		r.free(a)
		r.complete(1)
		time.Sleep(3 * pollInterval / 2)
		require.Equal(t, 1, r.active(), "nobody called Alloc")
		r.requireSame(a, r.alloc(4096))

		r.record(other, 1)
		before := r.calls(sim.CallEventQuery)
		r.free(other)
		r.requireOther(other, r.alloc(1))
		require.Equal(t, before, r.calls(sim.CallEventQuery), "Alloc leaves events to the goroutine")
		time.Sleep(10*pollInterval + pollInterval/2)
		require.InDelta(t, 10, r.calls(sim.CallEventQuery)-before, 1)
	})
}

func TestPinned_BackgroundGoroutineRestsWhileNothingIsOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "pinned_use_background_threads:True")
		defer r.close()
		a := r.alloc(4096)
		r.record(a, 1)
		r.free(a)
		r.complete(1)
		time.Sleep(2 * pollInterval)
		queries := r.calls(sim.CallEventQuery)
		time.Sleep(time.Hour) // in a bubble an hour with a running ticker would be 36 million rounds
		require.Equal(t, queries, r.calls(sim.CallEventQuery))
		require.Zero(t, r.active())
	})
}

func TestPinned_BackgroundGoroutineStartsAtTheFirstMissAndEndsWithClose(t *testing.T) {
	r := newRig(t, "")
	r.free(r.alloc(4096))
	r.conf("pinned_use_background_threads:True")
	r.alloc(4096)
	require.False(t, r.p.worker.running.Load())
	r.alloc(4096)
	require.True(t, r.p.worker.running.Load())
	ended := r.p.worker.done
	require.ErrorIs(t, r.p.Close(), memory.ErrLeak)
	<-ended
	require.False(t, r.p.worker.running.Load())
	r.p.worker.start(r.p)
	require.False(t, r.p.worker.running.Load(), "it cannot be started again")
}
