package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// logged returns a device that writes its driver log to the string.
func logged(capacity uint64, options ...Option) (*Device, func() string) {
	var log []byte
	d := New(capacity, append(options, OnCall(func(c Call) { log = c.LogLine(log) }))...)
	return d, func() string {
		text := string(log)
		log = nil
		return text
	}
}

func TestDriverLog_OfAllocations(t *testing.T) {
	d, log := logged(4 << 20)
	p := malloc(t, d, 2<<20)
	q := malloc(t, d, 1<<20)
	_, err := d.Malloc(2 << 20)
	require.Error(t, err)
	require.NoError(t, d.Free(p))
	require.Error(t, d.Free(p))
	_, err = d.Malloc(0)
	require.Error(t, err)
	malloc(t, d, 3<<20)
	require.NoError(t, d.Free(q))
	require.NoError(t, d.DefaultStream().Synchronize(context.Background()))
	require.Equal(t, "M 0 2097152\nM 1 1048576\nX 2097152\nF 0\nM 2 3145728\nF 1\n", log())
}

func TestDriverLog_OfVirtualMemory(t *testing.T) {
	d, log := logged(6 << 20)
	malloc(t, d, 512)
	p := reserve(t, d, 16<<20)
	require.Equal(t, "M 0 512\nR 1 16777216\n", log())
	require.NoError(t, d.Map(p.Add(2<<20), 4<<20, 2<<20))
	require.Equal(t, "P 1 2097152 2097152\nP 1 4194304 2097152\n", log())
	require.NoError(t, d.Unmap(p.Add(2<<20), 2<<20))
	require.ErrorIs(t, d.Map(p.Add(8<<20), 8<<20, 2<<20), device.ErrOutOfMemory)
	require.Equal(t, "U 1 2097152 2097152\nx 2097152\n", log(), "a Map that fails maps nothing, not even for a while")
	require.NoError(t, d.Unmap(p.Add(4<<20), 2<<20))
	require.NoError(t, d.Unreserve(p))
	require.Equal(t, "U 1 4194304 2097152\nr 1 16777216\n", log())
	calls := d.Calls()
	require.Equal(t, uint64(4), calls.Count[CallPageCreate], "two, and one more before the one that failed")
	require.Equal(t, uint64(1), calls.Failed[CallPageCreate])
	require.Equal(t, uint64(3), calls.Count[CallPageRelease])
	require.Equal(t, uint64(2), calls.Count[CallPageMap])
	require.Equal(t, uint64(2), calls.Count[CallPageUnmap])
	require.Equal(t, uint64(512), calls.BytesNow)
}

func TestCalls_CountsByKind(t *testing.T) {
	d := New(1<<20, ManualStreams())
	s := d.DefaultStream()
	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, s.Record(e))
	done, err := e.Done()
	require.NoError(t, err)
	require.False(t, done)
	d.Complete(0)
	done, err = e.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, s.Record(e))
	require.NoError(t, e.Synchronize(context.Background()))
	require.NoError(t, s.(device.Executor).Submit("matmul", nil))
	_, err = d.Malloc(1 << 30)
	require.Error(t, err)

	want := Calls{EventQueryNotReady: 1}
	want.Count[CallEventCreate] = 1
	want.Count[CallEventRecord] = 2
	want.Count[CallEventQuery] = 2
	want.Count[CallEventSync] = 1
	want.Count[CallSubmit] = 1
	want.Count[CallMalloc], want.Failed[CallMalloc] = 1, 1
	require.Equal(t, want, d.Calls())
}

func TestElapsed_AddsUpCosts(t *testing.T) {
	d := New(1<<20, WithCosts(Costs{CallMalloc: 300 * time.Microsecond, CallFree: 200 * time.Microsecond}))
	p := malloc(t, d, 512)
	_, err := d.Malloc(1 << 30)
	require.Error(t, err)
	require.NoError(t, d.Free(p))
	require.NoError(t, d.DefaultStream().Synchronize(context.Background()))
	require.Equal(t, 800*time.Microsecond, d.Elapsed())
	d.SetCosts(Costs{CallMalloc: time.Second})
	malloc(t, d, 512)
	require.Equal(t, time.Second+800*time.Microsecond, d.Elapsed())
}

var errBus = errors.New("bus error")

func TestFailNext_FailsTheNthCallOfItsKind(t *testing.T) {
	d := New(1 << 20)
	d.FailNext(CallMalloc, 2, errBus)
	d.FailNext(CallMalloc, 3, device.ErrOutOfMemory)
	d.FailNext(CallFree, 1, errBus)
	p := malloc(t, d, 512)
	_, err := d.Malloc(512)
	require.ErrorIs(t, err, errBus)
	require.ErrorContains(t, err, "Malloc: bus error (injected)")
	_, err = d.Malloc(512)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	malloc(t, d, 512)
	require.ErrorIs(t, d.Free(p), errBus)
	require.NoError(t, d.Free(p), "the call that failed did nothing")
	require.Equal(t, 1, d.Live().Allocations)
}

func TestInject_SeesTheCallAndDecides(t *testing.T) {
	d := New(64 << 20)
	d.Inject(func(c Call) error {
		if c.Kind == CallMalloc && c.Bytes > 1<<20 {
			return errBus
		}
		return nil
	})
	malloc(t, d, 1<<20)
	_, err := d.Malloc(1<<20 + 1)
	require.ErrorIs(t, err, errBus)
	d.Inject(nil)
	malloc(t, d, 1<<20+1)
}

// TestFaults_OfEveryCallChangeNothing fails each call of a walk through the device in turn, and repeats it.
func TestFaults_OfEveryCallChangeNothing(t *testing.T) {
	fault := 0 // number of the call that is to fail
	for ; ; fault++ {
		calls := 0
		d := New(16 << 20)
		d.Inject(func(Call) error {
			calls++
			if calls == fault+1 {
				return errBus
			}
			return nil
		})
		failures := walk(t, d)
		require.LessOrEqual(t, failures, 1)
		require.Equal(t, Live{}, d.Live())
		require.Zero(t, d.Calls().BytesNow)
		require.NoError(t, d.Close())
		if failures == 0 {
			break
		}
	}
	require.Greater(t, fault, 30, "there were calls to fail")
}

// walk makes each kind of call, again when it failed, and returns how many failed.
func walk(t *testing.T, d *Device) (failures int) {
	t.Helper()
	again := func(call func() error) {
		err := call()
		if err != nil {
			failures++
			require.ErrorIs(t, err, errBus)
			err = call()
		}
		require.NoError(t, err)
	}
	var p, r device.Ptr
	var s device.Stream
	var e device.Event
	var b []byte
	again(func() (err error) { p, err = d.Malloc(1000); return err })
	again(func() (err error) { r, err = d.Reserve(16 << 20); return err })
	again(func() error { return d.Map(r.Add(2<<20), 6<<20, 2<<20) })
	again(func() (err error) { _, err = d.MemInfo(); return err })
	again(func() (err error) { s, err = d.NewStream(); return err })
	again(func() (err error) { e, err = d.NewEvent(); return err })
	again(func() (err error) { b, err = d.AllocPinned(10); return err })
	for _, call := range streamCalls(d, s, e, p, r.Add(2<<20), b) {
		again(call)
	}
	for at := uint64(2 << 20); at < 8<<20; at += 2 << 20 {
		again(func() error { return d.Unmap(r.Add(at), 2<<20) })
	}
	again(func() error { return d.Unreserve(r) })
	again(func() error { return d.Free(p) })
	again(func() error { return d.FreePinned(b) })
	again(func() error { return e.Close() })
	again(func() error { return s.Close() })
	return failures
}

// streamCalls are the calls that enqueue work on a stream or wait for it. p and q are memory.
func streamCalls(d *Device, s device.Stream, e device.Event, p, q device.Ptr, b []byte) []func() error {
	ctx := context.Background()
	return []func() error{
		func() error { return s.CopyToDevice(p, b) },
		func() error { return s.Copy(q, p, 1000) },
		func() error { return s.Fill(p, 1, 1000) },
		func() error { return s.(device.Executor).Submit("matmul", nil) },
		func() error { return s.Record(e) },
		func() error { return d.DefaultStream().Wait(e) },
		func() error { _, err := e.Done(); return err },
		func() error { return e.Synchronize(ctx) },
		func() error { _, err := s.Done(); return err },
		func() error { return s.CopyToHost(b, p) },
		func() error { return s.Synchronize(ctx) },
		func() error { return d.Synchronize(ctx) },
	}
}

func TestMap_ThatFailsHalfwayUnmapsWhatItMapped(t *testing.T) {
	d, log := logged(64 << 20)
	p := reserve(t, d, 16<<20)
	d.FailNext(CallPageMap, 3, errBus)
	require.ErrorIs(t, d.Map(p, 8<<20, 2<<20), errBus)
	require.Equal(t, "R 0 16777216\nP 0 0 2097152\nP 0 2097152 2097152\nU 0 0 2097152\nU 0 2097152 2097152\n", log())
	require.Equal(t, Live{Ranges: 1}, d.Live())
	require.NoError(t, d.Map(p, 8<<20, 2<<20))
}

func TestUnmap_ThatFailsLeavesTheRestMapped(t *testing.T) {
	d := New(64 << 20)
	p := reserve(t, d, 16<<20)
	require.NoError(t, d.Map(p, 6<<20, 2<<20))
	d.FailNext(CallPageUnmap, 2, errBus)
	require.ErrorIs(t, d.Unmap(p, 6<<20), errBus)
	require.Equal(t, Live{Ranges: 1, Pages: 2, Bytes: 4 << 20}, d.Live())
	require.NoError(t, d.Unmap(p.Add(2<<20), 4<<20))
}

func TestLive_CountsWhatIsNotGivenBack(t *testing.T) {
	d := New(64 << 20)
	malloc(t, d, 100)
	p := reserve(t, d, 16<<20)
	require.NoError(t, d.Map(p, 4<<20, 2<<20))
	_, err := d.NewStream()
	require.NoError(t, err)
	_, err = d.NewEvent()
	require.NoError(t, err)
	_, err = d.AllocPinned(5)
	require.NoError(t, err)
	require.Equal(t, Live{Allocations: 1, Ranges: 1, Pages: 2, Streams: 1, Events: 1, Pinned: 1, Bytes: 512 + 4<<20}, d.Live())
	require.NoError(t, d.Close())
	require.Equal(t, Live{}, d.Live())
}

func TestCallKind_HasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := range NumCalls {
		require.NotEmpty(t, k.String())
		require.False(t, seen[k.String()], k.String())
		seen[k.String()] = true
	}
	require.Equal(t, "CallKind(200)", CallKind(200).String())
}
