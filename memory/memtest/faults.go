package memtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
)

// errInjected is the error of driver calls that a test makes fail.
var errInjected = errors.New("memtest: injected failure")

// ownCalls are the driver calls that the program below makes itself.
var ownCalls = map[sim.CallKind]bool{sim.CallFill: true, sim.CallStreamCreate: true}

// testFaults makes driver calls fail while a program runs that takes every way to the driver: each call of each kind, one at
// a time, and then one out of two, three ... at random. Whatever fails, no memory may be lost and none handed out twice.
func (s *suite) testFaults(t *testing.T) {
	plain := s.faultRun(t)
	plain.run()
	calls := plain.dev.Calls()
	for kind := range sim.NumCalls {
		if ownCalls[kind] || calls.Count[kind] == 0 {
			continue
		}
		t.Run(kind.String(), func(t *testing.T) {
			for nth := range int(calls.Count[kind]) {
				for _, err := range []error{errInjected, device.ErrOutOfMemory} {
					r := s.faultRun(t)
					r.what = fmt.Sprintf("call %d of %s fails: %v", nth+1, kind, err)
					r.injected = err
					r.dev.FailNext(kind, nth+1, err)
					r.run()
					r.finish(kind == sim.CallEventClose)
				}
			}
		})
	}
	for odds := 2; odds < 12; odds++ {
		t.Run(fmt.Sprintf("OneCallOutOf%d", odds), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(odds), 5))
			r := s.faultRun(t)
			r.what = "calls fail at random"
			r.dev.Inject(func(c sim.Call) error {
				if !ownCalls[c.Kind] && rng.IntN(odds) == 0 {
					return errInjected
				}
				return nil
			})
			r.run()
			r.dev.Inject(nil)
			r.finish(false)
		})
	}
}

// faultRun is one run of the program.
type faultRun struct {
	*suite
	t        *testing.T
	dev      *sim.Device
	alloc    memory.Allocator
	what     string
	injected error
	live     map[string]memory.Block
}

// faultCapacity is small enough for the program to meet the end of the device.
const faultCapacity = 104 * device.MiB

func (s *suite) faultRun(t *testing.T) *faultRun {
	dev := sim.New(faultCapacity, sim.ManualStreams())
	return &faultRun{suite: s, t: t, dev: dev, alloc: s.open(t, dev), live: map[string]memory.Block{}, injected: errInjected}
}

// run is the program. Requests may fail, with the injected error or for lack of memory; frees may be tried again.
func (r *faultRun) run() {
	r.take("a", 512, 0)
	r.take("b", 3*device.MiB, 0)
	r.take("c", 30*device.MiB, 1)
	r.take("d", 12*device.MiB, 1)
	r.record("c", 2)
	r.give("c")
	r.take("e", 14*device.MiB, 0)
	r.record("b", 1)
	r.record("b", 2)
	r.give("b")
	r.dev.Complete(1)
	r.take("f", 25*device.MiB, 0) // the device is full: the cache is given back
	r.empty()
	r.give("d")
	r.take("g", 40*device.MiB, 1)
	r.record("g", 2)
	r.later("e")
	r.take("h", 5*device.MiB, 2)
	r.take("i", 200*device.MiB, 0) // more than there is
	r.give("g")
	r.take("j", 60*device.MiB, 2)
	r.record("j", 0)
	r.give("j")
	r.take("k", 11*device.MiB, 2)
	r.give("h")
	r.dev.Complete(2)
	r.take("l", 2*device.MiB, 2)
	r.give("a")
	r.empty()
	r.take("m", 70*device.MiB, 0)
}

// finish frees the rest and closes. Then the device must have everything back, but for an event that it refused to destroy.
func (r *faultRun) finish(keepsEvent bool) {
	for name := range r.live {
		r.give(name)
	}
	r.empty() // what was given to FreeLater is freed
	r.empty()
	require.Zero(r.t, r.alloc.Stats().Allocation.All.Current, r.what)
	if err := r.alloc.Close(); err != nil {
		require.ErrorIs(r.t, err, r.injected, r.what)
		require.NotErrorIs(r.t, err, memory.ErrLeak, r.what)
	}
	live := r.dev.Live()
	live.Streams = 0 // they are the program's
	if keepsEvent {
		live.Events = max(live.Events-1, 0)
	}
	require.Equal(r.t, sim.Live{}, live, r.what)
	require.NoError(r.t, r.dev.Close())
}

func (r *faultRun) stream(id int) device.Stream { return r.dev.Stream(device.StreamID(id)) }

// take allocates, and uses the whole block if it gets one.
func (r *faultRun) take(name string, bytes uint64, stream int) {
	r.t.Helper()
	b, err := r.alloc.Alloc(bytes, r.stream(stream))
	r.prove()
	if err != nil {
		require.True(r.t, isExpected(err, r.injected), "%s: Alloc: %v", r.what, err)
		return
	}
	for other, o := range r.live {
		apart := b.Ptr().Add(b.Size()) <= o.Ptr() || o.Ptr().Add(o.Size()) <= b.Ptr()
		require.True(r.t, apart, "%s: block %s overlaps %s", r.what, name, other)
	}
	require.NoError(r.t, r.stream(stream).Fill(b.Ptr(), 0, b.Size()), "%s: block %s is not all memory", r.what, name)
	r.live[name] = b
}

// give frees. A driver that refuses is asked again; an error that came with a free that was done is heard then.
func (r *faultRun) give(name string) {
	r.t.Helper()
	b, ok := r.live[name]
	if !ok {
		return
	}
	delete(r.live, name)
	err := r.alloc.Free(b)
	r.prove()
	for tries := 0; err != nil && !errors.Is(err, memory.ErrDoubleFree); tries++ {
		require.ErrorIs(r.t, err, r.injected, "%s: Free", r.what)
		require.Less(r.t, tries, 100, "%s: Free does not end", r.what)
		err = r.alloc.Free(b)
	}
}

func (r *faultRun) later(name string) {
	r.alloc.FreeLater(r.live[name])
	delete(r.live, name)
}

func (r *faultRun) record(name string, stream int) {
	if b, ok := r.live[name]; ok {
		require.NoError(r.t, r.alloc.RecordStream(b, r.stream(stream)), r.what)
	}
}

func (r *faultRun) empty() {
	if err := r.alloc.EmptyCache(); err != nil {
		require.ErrorIs(r.t, err, r.injected, "%s: EmptyCache", r.what)
	}
	r.prove()
}

func (r *faultRun) prove() {
	r.t.Helper()
	if r.check != nil {
		require.NoError(r.t, r.check(r.alloc), r.what)
	}
}
