package pinned

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

var errDriver = errors.New("driver says no")

// limitPinned makes the device refuse pinned memory above a total of bytes.
func (r *rig) limitPinned(bytes uint64) {
	r.dev.Inject(func(c sim.Call) error {
		if c.Kind == sim.CallAllocPinned && uint64(r.p.books.stats.AllocatedBytes.Current)+c.Bytes > bytes {
			return device.ErrOutOfMemory
		}
		return nil
	})
}

func TestPinned_OutOfMemoryGivesTheCacheBackAndAsksAgain(t *testing.T) {
	r := newRig(t, "")
	r.limitPinned(4 * mib)
	r.free(r.alloc(mib), r.alloc(2*mib))
	b := r.alloc(3 * mib)
	require.EqualValues(t, 4*mib, b.Size())
	require.Equal(t, 4*mib, r.allocated())
	require.Zero(t, r.calls(sim.CallEventSync), "there was nothing to wait for")
}

func TestPinned_OutOfMemorySaysWhat(t *testing.T) {
	r := newRig(t, "")
	r.limitPinned(4 * mib)
	held := r.alloc(2 * mib)
	r.free(r.alloc(mib))
	_, err := r.p.Alloc(2*mib + 1)
	var oom *OOMError
	require.ErrorAs(t, err, &oom)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.Equal(t, OOMError{Device: r.dev.ID(), Requested: 2*mib + 1, Tried: 4 * mib, Active: 2 * mib, Err: oom.Err}, *oom)
	require.ErrorContains(t, err, "tried to allocate 4.00 MiB for a request of 2097153 bytes; 2.00 MiB is in use, 0 bytes is cached")
	require.ErrorContains(t, err, "pinned_max_round_threshold_mb")
	r.check()
	require.Zero(t, r.allocated()-2*mib, "the cache was given back")

	r.free(held)
	r.alloc(2*mib + 1)
}

func TestPinned_OutOfMemoryWaitsForEventsFirst(t *testing.T) {
	r := newRig(t, "")
	r.limitPinned(4 * mib)
	for range 4 {
		b := r.alloc(mib)
		r.record(b, 1, 2)
		r.free(b)
	}
	r.alloc(4 * mib)
	require.Equal(t, 2, r.calls(sim.CallEventSync), "one wait for each stream")
	require.Equal(t, 1, r.dev.Live().Pinned)
}

func TestPinned_OutOfMemoryWaitsForTheWholeStreamWithoutAnEvent(t *testing.T) {
	r := newRig(t, "")
	r.limitPinned(mib)
	b := r.alloc(mib)
	r.record(b, 1)
	e := recordedOn(t, r, 1)
	r.dev.FailNext(sim.CallEventCreate, 1, errDriver)
	r.free(b)
	r.alloc(mib / 2)
	require.Equal(t, 1, r.calls(sim.CallStreamSync))
	require.NoError(t, e.Close())
}

// A broken device: waiting fails, and so does asking. Close gives memory and events back all the same.
func TestPinned_CloseAbandonsBlocksWhoseEventsNeverComplete(t *testing.T) {
	r := newRig(t, "")
	b := r.alloc(4096)
	r.record(b, 1, 2)
	r.free(b)
	r.dev.Inject(func(c sim.Call) error {
		if c.Kind == sim.CallEventQuery || c.Kind == sim.CallEventSync {
			return errDriver
		}
		return nil
	})
	err := r.p.Close()
	require.ErrorIs(t, err, errDriver)
	require.ErrorIs(t, err, memory.ErrLeak)
	require.Zero(t, r.dev.Live().Pinned+r.dev.Live().Events)
	r.check()
}

func TestPinned_OutOfMemoryTellsOfFailedWork(t *testing.T) {
	r := newRig(t, "")
	r.limitPinned(mib)
	b := r.alloc(mib)
	r.record(b, 1)
	r.dev.FailWork(1, "copy", errDriver)
	r.free(b)
	_, err := r.p.Alloc(mib)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorIs(t, err, errDriver, "waiting for the stream took the error; it must not be lost")
	r.check()
	r.alloc(mib)
}

func TestPinned_DriverErrorsOfAllocLoseNothing(t *testing.T) {
	r := newRig(t, "")
	r.free(r.alloc(4096))
	r.dev.FailNext(sim.CallAllocPinned, 1, errDriver)
	_, err := r.p.Alloc(8192)
	require.ErrorIs(t, err, errDriver)
	require.NotErrorIs(t, err, memory.ErrOutOfMemory)
	r.check()
	require.Equal(t, 4096, r.allocated(), "the cache is not given back for that")
	r.alloc(8192)
}

func TestPinned_WithoutAnEventABlockWaitsForTheWholeStream(t *testing.T) {
	for _, kind := range []sim.CallKind{sim.CallEventCreate, sim.CallEventRecord} {
		r := newRig(t, "")
		a := r.alloc(4096)
		r.record(a, 1, 2)
		r.dev.FailNext(kind, 1, errDriver)
		e := recordedOn(t, r, 1)
		r.dev.FailNext(kind, 1, errDriver)
		r.free(a)
		r.complete(2)
		r.requireOther(a, r.alloc(4096))
		r.complete(1)
		r.requireSame(a, r.alloc(4096))
		require.NoError(t, e.Close())
	}
}

// recordedOn enqueues work on a stream, past a fault that waits for the next event.
func recordedOn(t *testing.T, r *rig, stream int) device.Event {
	t.Helper()
	for {
		e, err := r.dev.NewEvent()
		if err != nil {
			continue
		}
		if r.stream(stream).Record(e) == nil {
			return e
		}
		require.NoError(t, e.Close())
	}
}

func TestPinned_AnEventThatCannotBeAskedHasNotCompleted(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.record(a, 1)
	r.free(a)
	r.complete(1)
	r.dev.FailNext(sim.CallEventQuery, 1, errDriver)
	r.requireOther(a, r.alloc(4096))
	r.requireSame(a, r.alloc(4096))
}

func TestPinned_ABlockThatTheDriverDoesNotTakeBackStaysCached(t *testing.T) {
	r := newRig(t, "")
	a, b, c := r.alloc(4096), r.alloc(4096), r.alloc(8192)
	r.free(a, b, c)
	r.dev.FailNext(sim.CallFreePinned, 2, errDriver)
	require.ErrorIs(t, r.p.EmptyCache(), errDriver)
	r.check()
	require.Equal(t, 4096, r.allocated(), "the others are gone")
	require.EqualValues(t, 1, r.p.Stats().NumFreeErrors)
	r.requireSame(b, r.alloc(4096))
}

func TestPinned_FreeOfALargeBlockReturnsTheDriversError(t *testing.T) {
	r := newRig(t, "pinned_max_cached_size_mb:1")
	a := r.alloc(2 * mib)
	r.dev.FailNext(sim.CallFreePinned, 1, errDriver)
	require.ErrorIs(t, r.p.Free(a), errDriver)
	r.check()
	requireBlockError(t, r.p.Free(a), "Free", memory.ErrDoubleFree)
	require.Zero(t, r.active())
	require.Equal(t, 2*mib, r.allocated())
	r.requireSame(a, r.alloc(2*mib))
}

func TestPinned_CatchAllIgnoresErrorsOfFree(t *testing.T) {
	r := newRig(t, "pinned_max_cached_size_mb:1,pinned_free_catch_all:True")
	a := r.alloc(2 * mib)
	r.dev.FailNext(sim.CallFreePinned, 1, errDriver)
	r.free(a)
	require.EqualValues(t, 1, r.p.Stats().NumFreeErrors)
	requireBlockError(t, r.p.Free(a), "Free", memory.ErrDoubleFree)
	r.empty()
	require.Zero(t, r.allocated())
}

func TestPinned_CloseReturnsTheDriversErrors(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.record(a, 1)
	failed := errors.New("copy failed")
	r.dev.FailWork(1, "copy", failed)
	r.free(a)
	r.dev.FailNext(sim.CallEventClose, 1, errDriver)
	r.dev.FailNext(sim.CallFreePinned, 1, errDriver)
	err := r.p.Close()
	require.ErrorIs(t, err, errDriver)
	require.ErrorIs(t, err, failed)
	r.check()
	require.NoError(t, r.dev.Close()) // it has what the allocator could not give back
}

// meddler closes its allocator in the middle of a driver call: what a careless program's goroutines can do to each other.
type meddler struct {
	*sim.Device
	close func()
}

func (d *meddler) AllocPinned(n uint64) ([]byte, error) {
	defer d.close()
	return d.Device.AllocPinned(n)
}

func (d *meddler) FreePinned(b []byte) error {
	d.close()
	return d.Device.FreePinned(b)
}

func TestPinned_CloseInTheMiddleOfADriverCallLosesNothing(t *testing.T) {
	m := &meddler{close: func() {}}
	r := buildRig(t, "", func(d *sim.Device) Driver { m.Device = d; return m })
	m.close = func() { require.NoError(t, r.p.Close()) }
	_, err := r.p.Alloc(4096)
	require.ErrorIs(t, err, device.ErrClosed)
	r.check()
	require.Zero(t, r.dev.Live().Pinned)

	m.close = func() {}
	r = buildRig(t, "", func(d *sim.Device) Driver { m.Device = d; return m })
	r.free(r.alloc(4096), r.alloc(4096), r.alloc(8192))
	m.close = func() { m.close = func() {}; require.NoError(t, r.p.Close()) }
	r.empty()
	require.Zero(t, r.dev.Live().Pinned)
	require.EqualValues(t, 3, r.p.Stats().NumHostFree)
}

func TestPinned_EventsOfAbandonedBlocksChangeNothing(t *testing.T) {
	r := newRig(t, "")
	a := r.alloc(4096)
	r.record(a, 1)
	r.free(a)
	leak := &memory.LeakError{}
	gone := r.p.bucket(4096).abandon(leak)
	require.Len(t, gone, 1)
	require.EqualValues(t, 1, leak.Blocks)
	r.complete(1)
	r.p.pollEvents()
	r.check()
	require.NoError(t, r.p.unpin(gone[0].mem, gone[0].origin))
}

// Every call of a longer story fails once, at each place where it is made; nothing is lost by that, and the story goes on.
func TestPinned_EveryFaultLeavesTheBooksInOrder(t *testing.T) {
	for kind := range sim.NumCalls {
		for nth := 1; ; nth++ {
			dev := sim.New(mib, sim.ManualStreams())
			p, err := New(dev, memory.Config{PinnedMaxCachedBytes: mib, PinnedReserveSegmentBytes: mib})
			require.NoError(t, err)
			dev.FailNext(kind, nth, errDriver)
			pinnedStory(&rig{t, dev, p})
			lost := 0
			if err := p.Close(); err != nil {
				require.ErrorIs(t, err, errDriver)
				lost = 1 // the piece of memory, or the event, that the driver did not take
			}
			require.LessOrEqual(t, dev.Live().Pinned+dev.Live().Events, lost)
			if dev.Calls().Failed[kind] == 0 {
				break
			}
		}
	}
}

// pinnedStory allocates, records, frees and empties, whatever fails.
func pinnedStory(r *rig) {
	for round := range 3 {
		var blocks []Block
		for i := range 6 {
			b, err := r.p.Alloc(uint64(300*kib + i*200*kib))
			r.check()
			if err == nil {
				blocks = append(blocks, b)
			} else {
				require.ErrorIs(r.t, err, errDriver)
			}
		}
		for i, b := range blocks {
			for s := range i % 3 {
				r.record(b, s)
			}
			if err := r.p.Free(b); err != nil {
				require.ErrorIs(r.t, err, errDriver)
			}
			r.check()
		}
		r.complete(round)
		pinnedEmpty(r)
	}
	for s := range 3 {
		r.complete(s)
	}
	pinnedEmpty(r)
	pinnedEmpty(r) // what failed in the first goes in the second
	require.Zero(r.t, r.active())
	require.LessOrEqual(r.t, r.dev.Live().Pinned, 1, "the reserve segment")
}

func pinnedEmpty(r *rig) {
	if err := r.p.EmptyCache(); err != nil {
		require.ErrorIs(r.t, err, errDriver)
	}
	r.check()
}
