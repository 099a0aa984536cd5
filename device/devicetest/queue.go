package devicetest

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// queueTests are for streams that run Go functions later: a function that waits for the test shows what does and does not
// block.
var queueTests = []test{
	{"CallsReturnBeforeTheWorkIsDone", testQueueIsAsynchronous},
	{"WaitDoesNotBlockTheCaller", testWaitDoesNotBlock},
	{"EventCoversOnlyWhatWasBeforeIt", testEventIsAPoint},
	{"WaitEndsWithItsContext", testWaitEndsWithContext},
	{"EachKindOfWaitTellsTheError", testWaitsTellErrors},
	{"EventBeforeTheFailureDoesNotTellIt", testErrorAfterEvent},
	{"LaterErrorIsToldByALaterWait", testTwoErrors},
	{"StreamWaitLeavesTheErrorToItsStream", testErrorAcrossStreams},
	{"FunctionThatEndsItsGoroutineFailsAlone", testGoexit},
	{"DeviceSynchronizeTellsTheErrorOfOneStreamAtATime", testErrorsOfTwoStreams},
	{"FreeWaitsForWorkThatUsesTheMemory", testFreeWaits},
	{"UnmapWaitsForWorkThatUsesThePages", testUnmapWaits},
	{"StreamCloseFinishesWaitingWorkAndTellsErrors", testStreamCloseFinishes},
	{"DeviceCloseFinishesWaitingWork", testDeviceCloseFinishes},
}

// queued returns a stream of mode ExecQueued.
func queued(t *testing.T, dev device.Device) device.Executor {
	t.Helper()
	x, ok := newStream(t, dev).(device.Executor)
	if !ok || x.Mode() != device.ExecQueued {
		t.Skip("the device's streams do not run Go functions later")
	}
	return x
}

// gate is a function for Submit that ends when the test opens it.
type gate chan struct{}

func (g gate) wait() error { <-g; return nil }
func (g gate) open()       { close(g) }

func testQueueIsAsynchronous(s *suite, t *testing.T, dev device.Device) {
	x, e, g := queued(t, dev), newEvent(t, dev), make(gate)
	p := malloc(t, dev, 8192)
	source := pattern(3, 4096)
	require.NoError(t, x.Submit("gate", g.wait))
	require.NoError(t, x.CopyToDevice(p, source))
	require.NoError(t, x.Copy(p.Add(4096), p, 4096))
	require.NoError(t, x.Fill(p, 0, 4096))
	require.NoError(t, x.Record(e))
	clear(source)
	done, err := e.Done()
	require.NoError(t, err)
	require.False(t, done)
	done, err = x.Done()
	require.NoError(t, err)
	require.False(t, done)
	g.open()
	require.NoError(t, e.Synchronize(context.Background()))
	s.requireBytes(t, x, p, append(make([]byte, 4096), pattern(3, 4096)...))
}

func testWaitDoesNotBlock(_ *suite, t *testing.T, dev device.Device) {
	first, second, e, g := queued(t, dev), queued(t, dev), newEvent(t, dev), make(gate)
	value, seen := 0, 0
	require.NoError(t, first.Submit("gate", g.wait))
	require.NoError(t, first.Submit("write", func() error { value = 42; return nil }))
	require.NoError(t, first.Record(e))
	require.NoError(t, second.Wait(e))
	require.NoError(t, second.Submit("read", func() error { seen = value; return nil }))
	require.NoError(t, dev.DefaultStream().Record(e), "recording it again does not change what was waited for")
	done, err := second.Done()
	require.NoError(t, err)
	require.False(t, done)
	g.open()
	require.NoError(t, second.Synchronize(context.Background()))
	require.Equal(t, 42, seen)
}

func testEventIsAPoint(_ *suite, t *testing.T, dev device.Device) {
	x, e, g := queued(t, dev), newEvent(t, dev), make(gate)
	require.NoError(t, x.Submit("before", func() error { return nil }))
	require.NoError(t, x.Record(e))
	require.NoError(t, x.Submit("gate", g.wait))
	require.NoError(t, e.Synchronize(context.Background()), "work behind the event does not matter")
	done, err := e.Done()
	require.NoError(t, err)
	require.True(t, done)
	g.open()
}

func testWaitEndsWithContext(_ *suite, t *testing.T, dev device.Device) {
	queued(t, dev) // or skip
	synctest.Test(t, func(t *testing.T) {
		x, e, g := queued(t, dev), newEvent(t, dev), make(gate)
		require.NoError(t, x.Submit("gate", g.wait))
		require.NoError(t, x.Record(e))
		requireError(t, dev, x.Synchronize(ended()), context.Canceled)
		requireError(t, dev, e.Synchronize(ended()), context.Canceled)
		requireError(t, dev, dev.Synchronize(ended()), context.Canceled)
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() { failed <- x.Synchronize(ctx) }()
		synctest.Wait()
		require.Empty(t, failed, "the goroutine waits")
		cancel()
		requireError(t, dev, <-failed, context.Canceled)
		g.open()
		require.NoError(t, x.Synchronize(context.Background()))
	})
}

func testWaitsTellErrors(_ *suite, t *testing.T, dev device.Device) {
	x, e := queued(t, dev), newEvent(t, dev)
	p := malloc(t, dev, 4096)
	for name, wait := range map[string]func() error{
		"Stream.Synchronize": func() error { return x.Synchronize(context.Background()) },
		"Event.Synchronize":  func() error { return e.Synchronize(context.Background()) },
		"Device.Synchronize": func() error { return dev.Synchronize(context.Background()) },
		"CopyToHost":         func() error { return x.CopyToHost(make([]byte, 8), p) },
	} {
		require.NoError(t, x.Submit("gather", func() error { return errKernel }))
		require.NoError(t, x.Submit("later", func() error { return nil }))
		require.NoError(t, x.Record(e))
		err := wait()
		require.ErrorIs(t, err, errKernel, name)
		requireError(t, dev, err, device.ErrLaunch)
		require.Contains(t, err.Error(), "gather")
		require.NoError(t, wait(), "an error is told once")
	}
}

func testErrorAfterEvent(_ *suite, t *testing.T, dev device.Device) {
	x, e := queued(t, dev), newEvent(t, dev)
	require.NoError(t, x.Record(e))
	require.NoError(t, x.Submit("gather", func() error { return errKernel }))
	require.NoError(t, e.Synchronize(context.Background()))
	require.ErrorIs(t, x.Synchronize(context.Background()), errKernel)
}

func testTwoErrors(_ *suite, t *testing.T, dev device.Device) {
	x, e := queued(t, dev), newEvent(t, dev)
	require.NoError(t, x.Submit("first", func() error { return errKernel }))
	require.NoError(t, x.Record(e))
	require.NoError(t, x.Submit("second", func() error { return errKernel }))
	require.NoError(t, x.Submit("third", func() error { return errKernel }))
	require.ErrorContains(t, e.Synchronize(context.Background()), "first")
	require.ErrorContains(t, x.Synchronize(context.Background()), "second")
	require.NoError(t, x.Synchronize(context.Background()))
}

func testErrorAcrossStreams(_ *suite, t *testing.T, dev device.Device) {
	first, second, e := queued(t, dev), queued(t, dev), newEvent(t, dev)
	require.NoError(t, first.Submit("gather", func() error { return errKernel }))
	require.NoError(t, first.Record(e))
	require.NoError(t, second.Wait(e))
	require.NoError(t, dev.DefaultStream().Wait(e))
	require.NoError(t, second.Synchronize(context.Background()))
	require.ErrorIs(t, first.Synchronize(context.Background()), errKernel)
}

func testGoexit(_ *suite, t *testing.T, dev device.Device) {
	x, g := queued(t, dev), make(gate)
	ran := 0
	require.NoError(t, x.Submit("gate", g.wait)) // so that all of this is taken in one piece
	require.NoError(t, x.Submit("gone", func() error { runtime.Goexit(); return nil }))
	require.NoError(t, x.Submit("next", func() error { ran++; return nil }))
	require.NoError(t, x.Submit("last", func() error { ran++; return nil }))
	g.open()
	err := x.Synchronize(context.Background())
	requireError(t, dev, err, device.ErrLaunch)
	require.Contains(t, err.Error(), "gone")
	require.Equal(t, 2, ran)
}

func testErrorsOfTwoStreams(_ *suite, t *testing.T, dev device.Device) {
	first, second := queued(t, dev), queued(t, dev)
	require.NoError(t, second.Submit("gather", func() error { return errKernel }))
	require.NoError(t, first.Submit("scatter", func() error { return errKernel }))
	require.ErrorContains(t, dev.Synchronize(context.Background()), "scatter")
	require.ErrorContains(t, dev.Synchronize(context.Background()), "gather")
	require.NoError(t, dev.Synchronize(context.Background()))
}

func testFreeWaits(_ *suite, t *testing.T, dev device.Device) {
	queued(t, dev) // or skip
	synctest.Test(t, func(t *testing.T) {
		p, err := dev.Malloc(1 << 20)
		require.NoError(t, err)
		requireWaits(t, dev, p, 1<<20, func() error { return dev.Free(p) })
	})
}

func testUnmapWaits(_ *suite, t *testing.T, dev device.Device) {
	queued(t, dev) // or skip
	v := virtual(t, dev)
	g := v.Granularity()
	synctest.Test(t, func(t *testing.T) {
		p, err := v.Reserve(2 * g)
		require.NoError(t, err)
		require.NoError(t, v.Map(p, 2*g, g))
		requireWaits(t, dev, p, 2*g, func() error { return v.Unmap(p, 2*g) })
		require.NoError(t, v.Unreserve(p))
	})
}

// requireWaits asserts that release waits for work that uses n bytes at p. It runs in a bubble of synctest.
func requireWaits(t *testing.T, dev device.Device, p device.Ptr, n uint64, release func() error) {
	t.Helper()
	x, g := queued(t, dev), make(gate)
	require.NoError(t, x.Submit("gate", g.wait))
	require.NoError(t, x.Fill(p, 1, n))
	released := make(chan error, 1)
	go func() { released <- release() }()
	synctest.Wait()
	require.Empty(t, released, "the memory is in use")
	g.open()
	require.NoError(t, <-released)
	require.NoError(t, x.Synchronize(context.Background()))
}

func testStreamCloseFinishes(_ *suite, t *testing.T, dev device.Device) {
	queued(t, dev) // or skip
	synctest.Test(t, func(t *testing.T) {
		x, g := queued(t, dev), make(gate)
		ran := false
		require.NoError(t, x.Submit("gate", g.wait))
		require.NoError(t, x.Submit("gather", func() error { ran = true; return errKernel }))
		closed := make(chan error, 1)
		go func() { closed <- x.Close() }()
		synctest.Wait()
		require.Empty(t, closed, "there is work")
		require.ErrorIs(t, x.Submit("late", func() error { return nil }), device.ErrClosed)
		g.open()
		require.ErrorIs(t, <-closed, errKernel)
		require.True(t, ran)
	})
}

func testDeviceCloseFinishes(s *suite, t *testing.T, dev device.Device) {
	if s.shared {
		t.Skip("the device is not ours to close")
	}
	queued(t, dev) // or skip
	synctest.Test(t, func(t *testing.T) {
		x, g := queued(t, dev), make(gate)
		p, err := dev.Malloc(4096)
		require.NoError(t, err)
		ran := false
		require.NoError(t, x.Submit("gate", g.wait))
		require.NoError(t, x.Fill(p, 1, 4096))
		require.NoError(t, x.Submit("gather", func() error { ran = true; return errKernel }))
		closed := make(chan error, 1)
		go func() { closed <- dev.Close() }()
		synctest.Wait()
		require.Empty(t, closed, "there is work")
		g.open()
		require.ErrorIs(t, <-closed, errKernel)
		require.True(t, ran)
		require.NoError(t, dev.Close())
	})
}
