package cuda_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// TestFaults_OfEveryCallLoseNothing fails each driver call of a walk through the device in turn, and repeats what failed.
// Nothing may be left in the driver.
func TestFaults_OfEveryCallLoseNothing(t *testing.T) {
	for name, walk := range map[string]func(*testing.T, *cuda.Device) int{"streams and memory": walk, "graphs": walkGraph} {
		t.Run(name, func(t *testing.T) {
			path := fakecuda.Build(t)
			driver := fakecuda.Open(t, path)
			total := 1
			for fault := 0; fault <= total; fault++ {
				driver.Reset()
				devices, err := cuda.OpenLibrary(path)
				require.NoError(t, err)
				d, before := devices[0], driver.Total()
				if fault > 0 {
					driver.Fail("*", fault, 999)
				}
				failures := walk(t, d)
				if fault == 0 {
					require.Zero(t, failures)
					total = driver.Total() - before
					require.Greater(t, total, 20)
				}
				driver.ClearFaults()
				require.NoError(t, d.Close(), "fault %d", fault)
				require.Empty(t, driver.Leaks(), "fault %d of %d", fault, total)
			}
		})
	}
}

// walkGraph captures and runs a graph, and does all of it again until it succeeds.
func walkGraph(t *testing.T, d *cuda.Device) (failures int) {
	t.Helper()
	s, err := d.NewStream()
	for ; err != nil; s, err = d.NewStream() {
		failures++
	}
	for {
		err := captureAndRun(d, s.(*cuda.Stream))
		if err == nil {
			return failures
		}
		var result cuda.Result
		require.True(t, errors.As(err, &result), err)
		require.False(t, d.Capturing())
		failures++
		require.Less(t, failures, 3, err)
	}
}

func captureAndRun(d *cuda.Device, s *cuda.Stream) error {
	p, err := d.Malloc(100)
	if err != nil {
		return err
	}
	if err := s.BeginCapture(); err != nil {
		return err
	}
	fillErr := s.Fill(p, 1, 100)
	g, err := s.EndCapture()
	if err := errors.Join(fillErr, err); err != nil {
		return errors.Join(err, closeIf(g))
	}
	exec, err := g.Instantiate()
	if err != nil {
		return errors.Join(err, closeIf(g))
	}
	return errors.Join(exec.Launch(s), s.Synchronize(background), closeIf(exec), closeIf(g))
}

// closeIf closes what is there, again if it failed.
func closeIf(c interface{ Close() error }) error {
	if c == nil {
		return nil
	}
	if err := c.Close(); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// walk makes each kind of call, again when it failed, and returns how many failed.
func walk(t *testing.T, d *cuda.Device) (failures int) {
	t.Helper()
	again := func(call func() error) {
		t.Helper()
		err := call()
		if err != nil {
			failures++
			var result cuda.Result
			require.True(t, errors.As(err, &result), err)
			err = call()
		}
		require.NoError(t, err)
	}
	var p, v device.Ptr
	var s device.Stream
	var e device.Event
	var b []byte
	g := d.Granularity()
	again(func() (err error) { p, err = d.Malloc(1000); return err })
	again(func() (err error) { v, err = d.Reserve(8 * g); return err })
	again(func() error { return d.Map(v.Add(g), 3*g, g) })
	again(func() (err error) { _, err = d.MemInfo(); return err })
	again(func() (err error) { s, err = d.NewStream(); return err })
	again(func() (err error) { e, err = d.NewEvent(); return err })
	again(func() (err error) { b, err = d.AllocPinned(1000); return err })
	for _, call := range streamCalls(d, s.(*cuda.Stream), e, p, v.Add(g), b) {
		again(call)
	}
	for at := g; at < 4*g; at += g {
		again(func() error { return d.Unmap(v.Add(at), g) })
	}
	again(func() error { return d.Unreserve(v) })
	again(func() error { return d.Free(p) })
	again(func() error { return d.FreePinned(b) })
	again(func() error { return e.Close() })
	again(func() error { return s.Close() })
	return failures
}

// streamCalls are the calls that enqueue work on a stream or wait for it. p and q are memory.
func streamCalls(d *cuda.Device, s *cuda.Stream, e device.Event, p, q device.Ptr, b []byte) []func() error {
	var async device.Ptr
	large := make([]byte, 3<<20)
	return []func() error{
		func() error { return s.CopyToDevice(p, make([]byte, 1000)) },
		func() error { return s.CopyToDevice(q, large) },
		func() error { return s.CopyToDeviceAsync(p, b) },
		func() error { return s.Copy(q, p, 1000) },
		func() error { return s.Fill(p, 1, 1000) },
		func() error { return s.Record(e) },
		func() error { return d.DefaultStream().Wait(e) },
		func() error { _, err := e.Done(); return err },
		func() error { return e.Synchronize(background) },
		func() error { _, err := s.Done(); return err },
		func() error { return s.CopyToHost(make([]byte, 100), p) },
		func() error { return s.CopyToHostAsync(b, p) },
		func() error { return s.Synchronize(background) },
		func() error { return d.Synchronize(background) },
		func() (err error) { async, err = d.AllocAsync(1000, s); return err },
		func() error { _, err := d.PoolUsage(); return err },
		func() error { return d.FreeAsync(async, s) },
		func() error { return s.Synchronize(background) },
		func() error { return d.TrimPool(0) },
	}
}

func TestMap_ThatFailsHalfwayMapsNothing(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	g := d.Granularity()
	v, err := d.Reserve(8 * g)
	require.NoError(t, err)
	before, err := d.MemInfo()
	require.NoError(t, err)
	for _, call := range []string{"cuMemCreate", "cuMemMap", "cuMemSetAccess"} {
		r.Fail(call, 1, 999)
		require.ErrorContains(t, d.Map(v, 4*g, g), call)
		after, err := d.MemInfo()
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	r.ClearFaults()
	require.NoError(t, d.Map(v, 4*g, g))
	require.NoError(t, d.Unmap(v, 4*g))
	require.NoError(t, d.Unreserve(v))
}

func TestUnmap_WaitsForTheWorkThatUsesThePages(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	g := d.Granularity()
	v, err := d.Reserve(g)
	require.NoError(t, err)
	require.NoError(t, d.Map(v, g, g))
	s := r.Stream(d)
	r.HoldStream(s.Handle())
	require.NoError(t, s.Fill(v, 1, g))
	unmapped := make(chan error)
	go func() { unmapped <- d.Unmap(v, g) }()
	select {
	case <-unmapped:
		require.Fail(t, "unmapped while in use")
	default:
	}
	r.ReleaseStream(s.Handle())
	require.NoError(t, <-unmapped)
	require.NoError(t, s.Synchronize(background), "the work found its memory")
	require.NoError(t, d.Unreserve(v))
}

// Virtual memory is asked for without a context, with one if the driver wants that, and done without if it answers nothing.
func TestOpen_AsksForVirtualMemoryWithAndWithoutAContext(t *testing.T) {
	for nth, want := range map[int]uint64{1: 2 << 20, 0: 0} {
		r := cudatest.New(t, 1, func(l *fakecuda.Library) { l.Fail("cuMemGetAllocationGranularity", nth, 201) })
		d := r.Devices[0]
		require.Equal(t, want, d.Granularity())
		require.Equal(t, 1, r.Calls()["cuDevicePrimaryCtxRetain"])
		_, err := d.Reserve(2 << 20)
		require.Equal(t, want == 0, errors.Is(err, device.ErrUnavailable), err)
		require.NoError(t, d.Close())
	}
}
