package memory

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
)

// overdueProgram holds 64 MiB on stream 0, where 8 MiB are cached for requests that need nothing else.
type overdueProgram struct {
	*rig
}

func newOverdueProgram(t *testing.T, conf string) overdueProgram {
	p := overdueProgram{newRig(t, gib, conf)}
	p.alloc(64*mib, 0)
	p.alloc(minBlock, 0) // so that what is pending lies between blocks in use
	return p
}

// pendAmong lets streams use a block of 16 MiB that is freed then, with blocks in use around it, and returns it.
func (p overdueProgram) pendAmong(users ...int) Block {
	p.t.Helper()
	b, spare := p.alloc(16*mib, 0), p.alloc(8*mib, 0)
	p.alloc(minBlock, 0)
	for _, u := range users {
		p.work(b, u)
		p.record(b, u)
	}
	p.free(spare, b)
	p.calls = nil
	return b
}

// give makes requests on stream 0 for so many times 8 MiB, which are cached.
func (p overdueProgram) give(times int) {
	p.t.Helper()
	for range times {
		p.free(p.alloc(8*mib, 0))
	}
}

// counts are the calls by kind since the last time.
func (p overdueProgram) counts() map[sim.CallKind]int {
	count := map[sim.CallKind]int{}
	for _, c := range p.calls {
		count[c.Kind]++
	}
	p.calls = nil
	return count
}

// When a quarter of what is held was given out since the free, the stream waits on the device, and the block is cached.
func TestOverdue_TheStreamWaitsOnTheDevice(t *testing.T) {
	p := newOverdueProgram(t, compacting)
	b := p.pendAmong(1, 2)
	p.give(3) // held are 64 MiB and two small blocks: due after more than 16 MiB
	require.Zero(t, p.counts()[sim.CallStreamWait])
	require.EqualValues(t, 80*mib+2*minBlock, p.a.Stats().ActiveBytes.All.Current)

	p.give(1)
	count := p.counts()
	require.Equal(t, 2, count[sim.CallStreamWait], "one for each stream that used it")
	require.Zero(t, count[sim.CallEventSync]+count[sim.CallStreamSync], "the processor does not wait")
	require.False(t, p.done(1) || p.done(2))
	require.EqualValues(t, 64*mib+2*minBlock, p.a.Stats().ActiveBytes.All.Current)
	require.Zero(t, p.a.pendingWork.Load())
	again := p.alloc(16*mib, 0)
	require.Equal(t, b.Ptr(), again.Ptr())
	require.Zero(t, p.counts()[sim.CallPageMap])
	p.complete(0)
	require.True(t, p.done(1) && p.done(2), "what comes on stream 0 comes after their work")
	require.True(t, p.a.deeds.spoiled.Load(), "a rehearsal would not know when the work is done")
}

// Two blocks in turn, one of which another stream works on while the next one is filled: the wait is for the one before.
func TestOverdue_TwoBlocksInTurnOverlap(t *testing.T) {
	r := newRig(t, gib, compacting)
	one, two := r.alloc(16*mib, 1), r.alloc(16*mib, 1)
	use := func(b Block) {
		r.work(b, 0)
		r.record(b, 0)
		r.free(b)
		r.calls = nil
	}
	r.free(two)
	use(one)
	next := r.alloc(16*mib, 1)
	require.Equal(t, two.Ptr(), next.Ptr())
	require.Zero(t, r.takeCalls(sim.CallStreamWait))
	use(next)
	require.Equal(t, one.Ptr(), r.alloc(16*mib, 1).Ptr())
	require.Equal(t, 1, r.takeCalls(sim.CallStreamWait))
	r.complete(1)
	require.False(t, r.done(0), "the work on the second block is not waited for")
}

// It is not done for less than twice what the setting lets be wasted, and for all that is due when that is more.
func TestOverdue_NotForLittle(t *testing.T) {
	p := newOverdueProgram(t, "expandable_segments:True,expandable_segments_compaction:1.1")
	first, second := p.alloc(16*mib, 0), p.alloc(16*mib, 0)
	p.free(p.alloc(8*mib, 0)) // the most is 104 MiB, so twice 10.4 MiB are too little
	for _, b := range []Block{first, second} {
		p.record(b, 1)
	}
	p.free(first)
	p.give(20)
	require.Zero(t, p.counts()[sim.CallStreamWait])
	require.Equal(t, int64(1), p.a.pendingWork.Load())
	p.free(second)
	p.give(3)
	require.Zero(t, p.counts()[sim.CallStreamWait])
	p.give(1)
	require.Equal(t, 2, p.counts()[sim.CallStreamWait])
	require.Zero(t, p.a.pendingWork.Load())
}

// Without pages that move nothing is changed.
func TestOverdue_OnlyWithCompaction(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True", "expandable_segments_compaction:1"} {
		p := newOverdueProgram(t, conf)
		p.pendAmong(1)
		p.give(20)
		require.Zero(t, p.counts()[sim.CallStreamWait], conf)
		require.Equal(t, int64(1), p.a.pendingWork.Load(), conf)
	}
}

// A stream that cannot be made to wait goes on, the block stays pending, and it is tried again.
func TestOverdue_AWaitThatFailsLosesNothing(t *testing.T) {
	for nth := 1; nth <= 2; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			p := newOverdueProgram(t, compacting)
			b := p.pendAmong(1, 2)
			waits := 0
			p.dev.Inject(func(c sim.Call) error {
				if c.Kind == sim.CallStreamWait {
					if waits++; waits == nth {
						return errInjected
					}
				}
				return nil
			})
			p.give(4)
			require.Equal(t, nth, waits)
			require.Equal(t, int64(2), p.a.pendingWork.Load())
			require.EqualValues(t, 80*mib+2*minBlock, p.a.Stats().ActiveBytes.All.Current)
			p.give(2)
			require.Equal(t, nth, waits, "not at each request")
			p.give(1)
			require.Equal(t, nth+2, waits)
			require.Zero(t, p.a.pendingWork.Load())
			require.Equal(t, b.Ptr(), p.alloc(16*mib, 0).Ptr())
		})
	}
}

// Without an event there is nothing to wait for: the processor finds out when the stream is idle.
func TestOverdue_NotWithoutAnEvent(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallEventCreate, sim.CallEventRecord} {
		p := newOverdueProgram(t, compacting)
		p.dev.FailNext(kind, 1, errInjected)
		p.pendAmong(1)
		p.give(20)
		require.Zero(t, p.counts()[sim.CallStreamWait], kind)
		require.Equal(t, int64(1), p.a.pendingWork.Load(), kind)
		p.complete(1)
		p.give(1)
		require.Zero(t, p.a.pendingWork.Load(), kind)
	}
}

// A wait would be part of the graph, and its replays would not wait for what ran once.
func TestOverdue_NotDuringACapture(t *testing.T) {
	var dev *capturingDriver
	p := overdueProgram{buildRig(t, gib, compacting, func(d *sim.Device) Driver {
		dev = &capturingDriver{Device: d}
		return dev
	})}
	p.alloc(64*mib, 0)
	p.pendAmong(1)
	dev.capturing = true
	p.give(20)
	require.Zero(t, p.counts()[sim.CallStreamWait])
	dev.capturing = false
	p.give(6)
	require.Equal(t, 1, p.counts()[sim.CallStreamWait])
}

// A stream that lags behind reads what was there before, although the next holder writes first.
func TestOverdue_KeepsContentForAStreamThatLags(t *testing.T) {
	c, err := ParseConfig(compacting)
	require.NoError(t, err)
	dev := host.New(host.Capacity(64*mib), host.CheckBounds())
	a, err := New(dev, c)
	require.NoError(t, err)
	var streams [2]device.Executor
	for i := range streams {
		s, err := dev.NewStream()
		require.NoError(t, err)
		streams[i] = s.(device.Executor)
	}
	own, other := streams[0], streams[1]
	alloc := func(bytes uint64) Block {
		b, err := a.Alloc(bytes, own)
		require.NoError(t, err)
		require.NoError(t, a.check())
		return b
	}
	held, b, spare := alloc(4*mib), alloc(mib), alloc(512*kib)
	end := alloc(minBlock)
	require.NoError(t, own.Fill(b.Ptr(), 1, b.Size()))
	written, err := dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, own.Record(written))
	require.NoError(t, other.Wait(written))
	gate := make(chan struct{})
	require.NoError(t, other.Submit("read", func() error {
		<-gate
		for _, v := range host.Bytes(b.Ptr(), b.Size()) {
			if v != 1 {
				return fmt.Errorf("found %d", v)
			}
		}
		return nil
	}))
	require.NoError(t, a.RecordStream(b, other))
	require.NoError(t, a.Free(spare))
	require.NoError(t, a.Free(b))
	for range 4 { // more than a quarter of what is held
		require.NoError(t, a.Free(alloc(512*kib)))
	}
	again := alloc(mib)
	require.Equal(t, b.Ptr(), again.Ptr())
	require.NoError(t, own.Fill(again.Ptr(), 2, again.Size()))
	for range 1000 { // the others go on meanwhile
		runtime.Gosched()
		done, err := own.Done()
		require.NoError(t, err)
		require.False(t, done, "the next holder's stream waits")
	}
	close(gate)
	for _, s := range streams {
		require.NoError(t, s.Synchronize(context.Background()))
	}
	for _, b := range []Block{held, again, end} {
		require.NoError(t, a.Free(b))
	}
	require.NoError(t, written.Close())
	require.NoError(t, a.Close())
	require.NoError(t, dev.Close())
}
