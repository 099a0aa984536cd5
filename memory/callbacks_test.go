package memory

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// hookedSource is a pool's source that calls a function before it asks the device.
type hookedSource struct {
	dev          *sim.Device
	malloc, free func()
}

func (s *hookedSource) Malloc(n uint64) (device.Ptr, error) {
	s.malloc()
	return s.dev.Malloc(n)
}

func (s *hookedSource) Free(p device.Ptr) error {
	s.free()
	return s.dev.Free(p)
}

// callback is a way by which the allocator calls its program. arm sees to it that the next trigger calls f.
type callback struct {
	name    string
	arm     func(r *rig, f func()) (trigger func() error)
	only    string // the calls that f may make: all if empty
	mayFail bool   // the request that calls f fails anyway
}

// once makes f run at the first call alone: what it calls itself comes by again.
func once(f func()) func() {
	ran := false
	return func() {
		if !ran {
			ran = true
			f()
		}
	}
}

func nothing() {}

// callbacks are all that memory has for one device.
var callbacks = []callback{
	{name: "OnLowMemory", arm: func(r *rig, f func()) func() error {
		f = once(f)
		r.a.OnLowMemory(func() bool { f(); return true })
		return allocates(r.a, r, 30*mib)
	}},
	{name: "OnOOM", mayFail: true, arm: func(r *rig, f func()) func() error {
		f = once(f)
		r.a.OnOOM(func(*OOMError) { f() })
		return allocates(r.a, r, 1<<50)
	}},
	{name: "OnOOM of Reserve", mayFail: true, arm: func(r *rig, f func()) func() error {
		f = once(f)
		r.conf("max_split_size_mb:40")
		r.a.OnOOM(func(*OOMError) { f() })
		return func() error { return r.a.Reserve(2*gib, r.stream(1)) }
	}},
	{name: "OnRelease of a request", arm: func(r *rig, f func()) func() error {
		f = once(f)
		require.NoError(r.t, r.a.Free(r.alloc(600*mib, 1)))
		r.a.OnRelease(func(Release) { f() })
		return allocates(r.a, r, 700*mib)
	}},
	{name: "OnRelease of EmptyCache", arm: func(r *rig, f func()) func() error {
		f = once(f)
		require.NoError(r.t, r.a.Free(r.alloc(30*mib, 1)))
		r.a.OnRelease(func(Release) { f() })
		return r.a.EmptyCache
	}},
	{name: "Source.Malloc", arm: func(r *rig, f func()) func() error {
		return allocates(r.a.NewPool(PoolSource(&hookedSource{r.dev, once(f), nothing})), r, 30*mib)
	}},
	{name: "Source.Free", only: "Free FreeLater RecordStream Device", arm: func(r *rig, f func()) func() error {
		p := r.a.NewPool(PoolSource(&hookedSource{r.dev, nothing, once(f)}))
		r.free(r.allocIn(p, 30*mib, 1))
		return p.EmptyCache
	}},
	{name: "filter of a route", arm: func(r *rig, f func()) func() error {
		p := r.a.NewPool()
		f = once(f)
		require.NoError(r.t, r.a.BeginRoute(p, func(device.Stream) bool { f(); return true }))
		return allocates(r.a, r, 30*mib)
	}},
	{name: "option of a pool", arm: func(r *rig, f func()) func() error {
		f = once(f)
		return func() error { r.a.NewPool(func(*Pool) { f() }); return nil }
	}},
}

// allocates allocates and frees at once.
func allocates(a Allocator, r *rig, bytes uint64) func() error {
	return func() error {
		b, err := a.Alloc(bytes, r.stream(1))
		if err != nil {
			return err
		}
		return a.Free(b)
	}
}

// reentries are the calls of an allocator that a callback may think of. held is a block in use.
var reentries = []struct {
	name string
	call func(r *rig, held Block) error
}{
	{"Alloc", func(r *rig, _ Block) error { return allocates(r.a, r, 5*mib)() }},
	{"AllocFromTheDriver", func(r *rig, _ Block) error { return allocates(r.a, r, 50*mib)() }},
	{"Free", func(r *rig, held Block) error { return r.a.Free(held) }},
	{"FreeLater", func(r *rig, held Block) error { r.a.FreeLater(held); return nil }},
	{"RecordStream", func(r *rig, held Block) error { return r.a.RecordStream(held, r.stream(2)) }},
	{"EmptyCache", func(r *rig, _ Block) error { return r.a.EmptyCache() }},
	{"Stats", func(r *rig, _ Block) error { r.a.Stats(); return nil }},
	{"Snapshot", func(r *rig, _ Block) error { r.a.Snapshot(); return nil }},
	{"RecordHistory", func(r *rig, _ Block) error { return r.a.RecordHistory(HistoryOptions{}) }},
	{"ResetPeakStats", func(r *rig, _ Block) error { r.a.ResetPeakStats(); return nil }},
	{"SetMemoryLimit", func(r *rig, _ Block) error { r.a.SetMemoryLimit(gib); return nil }},
	{"SetConfig", func(r *rig, _ Block) error { return r.a.SetConfig(Config{}) }},
	{"Reserve", func(r *rig, _ Block) error { return r.a.Reserve(60*mib, r.stream(3)) }},
	{"NewPool", func(r *rig, _ Block) error { return r.a.NewPool().Close() }},
	{"Device", func(r *rig, _ Block) error { _ = r.a.Device(); return nil }},
}

func TestCallbacks_MayCallTheAllocator(t *testing.T) {
	for _, c := range callbacks {
		for _, re := range reentries {
			t.Run(c.name+"/"+re.name, func(t *testing.T) {
				r := newRig(t, gib, "")
				held := r.alloc(3*mib, 0)
				called := 0
				trigger := c.arm(r, func() {
					called++
					if c.allows(re.name) {
						if err := re.call(r, held); !errors.Is(err, ErrOutOfMemory) { // Reserve holds all there is
							require.NoError(t, err)
						}
						return
					}
					require.Panics(t, func() { _ = re.call(r, held) }, "it would wait for itself")
				})
				err := trigger()
				require.Equal(t, c.mayFail, err != nil, "%v", err)
				require.Equal(t, 1, called)
				r.check()
				require.NoError(t, r.a.EmptyCache())
				r.requireNothingLost(held)
			})
		}
	}
}

func (c callback) allows(call string) bool {
	return c.only == "" || slices.Contains(strings.Fields(c.only), call)
}

// requireNothingLost asserts that what the device gave is what the books say, and that it can be given back but for held.
func (r *rig) requireNothingLost(held Block) {
	r.t.Helper()
	r.check()
	require.EqualValues(r.t, r.dev.Live().Bytes, r.reserved())
	if err := r.a.Free(held); err != nil {
		require.ErrorIs(r.t, err, ErrDoubleFree)
	}
	for _, p := range r.a.pools {
		require.NoError(r.t, p.EmptyCache())
	}
	r.empty()
	require.Zero(r.t, r.dev.Live().Bytes)
}

// A callback's panic reaches who called the allocator, which goes on as if the call had failed.
func TestCallbacks_PanicsPassThrough(t *testing.T) {
	for _, conf := range []string{"", "release_lock_on_cudamalloc:True", "garbage_collection_threshold:0.5"} {
		for _, c := range callbacks {
			t.Run(c.name+"/"+conf, func(t *testing.T) {
				r := newRig(t, gib, conf)
				held := r.alloc(3*mib, 0)
				trigger := c.arm(r, func() { panic("the callback's") })
				require.PanicsWithValue(t, "the callback's", func() { _ = trigger() })
				r.check()
				err := trigger()
				require.Equal(t, c.mayFail, err != nil, "the callback is done with panics: %v", err)
				require.NoError(t, allocates(r.a, r, 70*mib)())
				r.a.Snapshot()
				r.requireNothingLost(held)
			})
		}
	}
}

// Several sources that panic while the allocator is closed do not keep the others' memory, nor the events.
func TestClose_GivesAllElseBackWhenSourcesPanic(t *testing.T) {
	r := newRig(t, gib, "")
	var kept []device.Ptr
	for i := range 4 {
		s := &hookedSource{r.dev, nothing, nothing}
		b := r.allocIn(r.a.NewPool(PoolSource(s)), 30*mib, 1)
		if i%2 == 0 {
			s.free = func() { panic("the source's") }
			kept = append(kept, b.Ptr())
		}
	}
	b := r.alloc(3*mib, 0)
	r.record(b, 2)
	r.free(b)
	require.PanicsWithValue(t, "the source's", func() { _ = r.a.Close() })
	for _, p := range kept {
		require.NoError(t, r.dev.Free(p), "its source has refused it")
	}
	live := r.dev.Live()
	live.Streams = 0
	require.Equal(t, sim.Live{}, live)
	require.NoError(t, r.a.Close(), "it is closed")
}

// A request inside a callback does without the callbacks; others wait for them, because what they free may be theirs. What was held
// leaves no room for either of the two requests, and once it is free there is room for both at the same time.
func TestOnLowMemory_OthersWaitForTheCallback(t *testing.T) {
	r := newRig(t, 100*mib, "")
	held := r.alloc(60*mib, 0)
	entered, freed := make(chan struct{}), make(chan struct{})
	calls := 0
	r.a.OnLowMemory(func() bool {
		if calls++; calls > 1 {
			return false
		}
		close(entered)
		<-freed
		_, err := r.a.Alloc(90*mib, r.stream(1)) // would call this function without end
		require.ErrorIs(r.t, err, ErrOutOfMemory)
		return r.a.Free(held) == nil
	})
	results := make(chan error, 2)
	go func() { results <- allocates(r.a, r, 42*mib)() }()
	<-entered
	go func() { results <- allocates(r.a, r, 44*mib)() }()
	close(freed)
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	r.check()
}

// A graph whose work panics leaves its pool and its capture behind in order.
func TestCapture_OfWorkThatPanicsLetsGoOfThePool(t *testing.T) {
	z := newRig(t, gib, "")
	p := z.a.NewPool()
	s := &fakeCapturer{Stream: z.stream(1)}
	require.PanicsWithValue(t, "the work's", func() {
		_, _ = z.a.CaptureGraph(s, func() error { panic("the work's") }, CapturePool(p))
	})
	require.Equal(t, 1, p.Uses())
	require.Nil(t, z.a.routing())
	require.Zero(t, s.CaptureID())
	z.check()
}

// fakeCapturer is a stream that says that it can be captured.
type fakeCapturer struct {
	device.Stream
	id uint64
}

func (s *fakeCapturer) BeginCapture() error { s.id = 7; return nil }
func (s *fakeCapturer) EndCapture() (device.Graph, error) {
	s.id = 0
	return nil, device.ErrUnavailable
}
func (s *fakeCapturer) CaptureID() uint64 { return s.id }

func TestCallbacks_NilFunctionsDoNothing(t *testing.T) {
	r := newRig(t, 64*mib, "")
	r.a.OnLowMemory(nil)
	r.a.OnOOM(nil)
	r.a.OnRelease(nil)
	told := 0
	r.a.OnLowMemory(func() bool { told++; return false })
	r.a.OnOOM(func(*OOMError) { told++ })
	_, err := r.a.Alloc(gib, r.stream(0))
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.Equal(t, 2, told)
}
