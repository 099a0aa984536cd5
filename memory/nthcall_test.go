package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/memtest"
)

// nthWalk is a fixed program of which each driver call fails in turn, of whatever kind it is.
type nthWalk struct {
	t       *testing.T
	what    string
	alloc   memory.Allocator
	streams []device.Stream
	live    []memory.Block
}

// expect asserts that an error is typed and comes from the call that failed.
func (w *nthWalk) expect(err error) {
	w.t.Helper()
	if err == nil {
		return
	}
	var oom *memory.OOMError
	var driver *device.Error
	require.True(w.t, errors.As(err, &oom) || errors.As(err, &driver), "%s: %v", w.what, err)
	require.NotErrorIs(w.t, err, memory.ErrLeak, w.what)
}

func (w *nthWalk) take(from memory.Allocator, bytes uint64, stream int) {
	w.t.Helper()
	b, err := from.Alloc(bytes, w.streams[stream])
	w.prove()
	if err != nil {
		w.expect(err)
		return
	}
	for _, o := range w.live {
		require.True(w.t, b.Ptr().Add(b.Size()) <= o.Ptr() || o.Ptr().Add(o.Size()) <= b.Ptr(), "%s: blocks overlap", w.what)
	}
	w.live = append(w.live, b)
}

// give frees the oldest block; later says how, and if streams use it too.
func (w *nthWalk) give(later, recorded bool) {
	w.t.Helper()
	if len(w.live) == 0 {
		return
	}
	b := w.live[0]
	w.live = w.live[1:]
	if recorded {
		w.expect(w.alloc.RecordStream(b, w.streams[0]))
		w.expect(w.alloc.RecordStream(b, w.streams[1]))
	}
	if later {
		w.alloc.FreeLater(b)
		return
	}
	err := w.alloc.Free(b)
	for range 3 { // a driver that refuses is asked again; what came with a free that was done is heard then
		if err == nil || errors.Is(err, memory.ErrDoubleFree) {
			return
		}
		w.expect(err)
		err = w.alloc.Free(b)
	}
	require.NoError(w.t, err, w.what)
}

func (w *nthWalk) prove() {
	w.t.Helper()
	if _, ok := w.alloc.(*memory.Caching); ok {
		require.NoError(w.t, check(w.alloc), w.what)
	}
}

// run is the program, on a device of 104 MiB.
func (w *nthWalk) run() {
	w.t.Helper()
	w.take(w.alloc, 512, 0)
	w.take(w.alloc, 3*device.MiB, 0)
	w.take(w.alloc, 12*device.MiB, 1)
	w.give(false, true)
	w.give(false, true)
	w.take(w.alloc, 14*device.MiB, 0)
	w.give(true, true)
	w.take(w.alloc, 50*device.MiB, 1) // what is cached has to go back
	if a, ok := w.alloc.(*memory.Caching); ok {
		w.caching(a)
	}
	w.take(w.alloc, 200*device.MiB, 0) // more than there is
	w.give(false, false)
	w.expect(w.alloc.EmptyCache())
	w.prove()
	w.take(w.alloc, 5*device.MiB, 1)
	w.give(false, true)
	w.expect(w.alloc.EmptyCache())
	w.prove()
}

// caching is what other allocators do not have.
func (w *nthWalk) caching(a *memory.Caching) {
	w.t.Helper()
	p := a.NewPool()
	w.take(p, 2*device.MiB, 0)
	w.expect(p.Release())
	w.expect(a.SetMemoryFraction(0.9))
	w.expect(a.Reserve(24*device.MiB, w.streams[1]))
	_, err := a.Usage()
	w.expect(err)
	w.prove()
}

// finish gives the rest back. The driver does as it is told again.
func (w *nthWalk) finish(dev device.Device, free uint64) {
	w.t.Helper()
	for len(w.live) > 0 {
		w.give(false, false)
	}
	for range 2 {
		require.NoError(w.t, w.alloc.EmptyCache(), w.what)
	}
	w.prove()
	s := w.alloc.Stats()
	require.Zero(w.t, s.Allocation.All.Current, w.what)
	require.NoError(w.t, w.alloc.Close(), w.what)
	require.NoError(w.t, dev.Synchronize(context.Background()))
	info, err := dev.MemInfo()
	require.NoError(w.t, err)
	require.Equal(w.t, free, info.Free, "%s: bytes are lost", w.what)
}

// sharing are the settings by which memory cached for one stream serves another, or its own earlier.
const sharing = "record_stream_device_wait:True,cross_stream_reclaim:True,search_after_event_sync:True"

// reclaiming is sharing for tests in which one stream must not wait for another that stands still.
const reclaiming = "cross_stream_reclaim:True,search_after_event_sync:True"

// nthAllocators are those that the walk is for.
var nthAllocators = map[string]memtest.Opener{
	"default":      caching(""),
	"expandable":   caching("expandable_segments:True"),
	"gc":           caching("garbage_collection_threshold:0.3,per_process_memory_fraction:0.95,max_split_size_mb:20"),
	"release_lock": caching("release_lock_on_cudamalloc:True"),
	"shared":       caching(sharing),
	"shared_pages": caching(sharing + ",expandable_segments:True,expandable_segments_compaction:1"),
	"direct":       func(_ testing.TB, dev device.Device) memory.Allocator { return memory.NewDirect(dev) },
	"async":        async,
}

func TestNthCall_OfAnyKindOnSim(t *testing.T) {
	for name, open := range nthAllocators {
		for _, injected := range []error{errors.New("injected failure"), device.ErrOutOfMemory} {
			t.Run(fmt.Sprint(name, "/", injected), func(t *testing.T) {
				for nth, total := 0, 1; nth <= total; nth++ {
					dev := sim.New(104*device.MiB, sim.ManualStreams())
					w := &nthWalk{t: t, what: fmt.Sprintf("call %d of %d fails", nth, total), alloc: open(t, dev),
						streams: []device.Stream{dev.Stream(1), dev.Stream(2)}}
					calls := 0
					dev.Inject(func(c sim.Call) error {
						if calls++; calls == nth {
							w.what += ": " + c.Kind.String()
							return injected
						}
						return nil
					})
					w.run()
					dev.Inject(nil)
					w.finish(dev, 104*device.MiB)
					require.Zero(t, dev.Live().Events, w.what)
					if nth == 0 {
						total = calls
						require.Greater(t, total, 10)
					}
					require.NoError(t, dev.Close())
				}
			})
		}
	}
}

// On the emulated driver the calls are those of CUDA; 2 is CUDA_ERROR_OUT_OF_MEMORY, 999 CUDA_ERROR_UNKNOWN.
func TestNthCall_OfAnyKindOnCUDA(t *testing.T) {
	path := fakecuda.Build(t)
	driver := fakecuda.Open(t, path)
	for name, open := range nthAllocators {
		for _, code := range []int{2, 999} {
			if testing.Short() && (code != 2 || slices.Contains([]string{"expandable", "gc", "release_lock", "shared"}, name)) {
				continue // shared_pages has most of them
			}
			t.Run(fmt.Sprint(name, "/", code), func(t *testing.T) {
				for nth, total := 0, 1; nth <= total; nth++ {
					driver.Reset()
					driver.Capacity(0, 104*device.MiB)
					driver.Set("poison_bytes", "4096")
					total = max(total, nthOnCUDA(t, driver, path, open, nth, code))
				}
			})
		}
	}
}

// nthOnCUDA is one run. It returns how many calls the walk made.
func nthOnCUDA(t *testing.T, driver *fakecuda.Library, path string, open memtest.Opener, nth, code int) int {
	t.Helper()
	devices, err := cuda.OpenLibrary(path)
	require.NoError(t, err)
	d := devices[0]
	w := &nthWalk{t: t, what: fmt.Sprintf("call %d fails with %d", nth, code), alloc: open(t, d)}
	for range 2 {
		s, err := d.NewStream()
		require.NoError(t, err)
		w.streams = append(w.streams, s)
	}
	info, err := d.MemInfo()
	require.NoError(t, err)
	before := driver.Total()
	if nth > 0 {
		driver.Fail("*", nth, code)
	}
	w.run()
	calls := driver.Total() - before
	driver.ClearFaults()
	w.finish(d, info.Free)
	require.NoError(t, d.Close(), w.what)
	require.Empty(t, driver.Leaks(), w.what)
	if nth > 0 {
		return 0
	}
	require.Greater(t, calls, 10)
	return calls
}
