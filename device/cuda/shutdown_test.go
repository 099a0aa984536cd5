package cuda_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

const tinyPTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n"

// process gives Open the devices of a fresh emulated driver.
func process(t *testing.T, devices int) *fakecuda.Library {
	t.Helper()
	path := fakecuda.Build(t)
	l := fakecuda.Open(t, path)
	l.Devices(devices)
	cuda.UseLibrary(t, path)
	t.Cleanup(func() {
		l.ClearFaults()
		l.Release()
		require.NoError(t, device.Shutdown())
	})
	return l
}

func openCUDA(t *testing.T, spec string) *cuda.Device {
	t.Helper()
	d, err := device.Open(spec)
	require.NoError(t, err)
	return d.(*cuda.Device)
}

// litter leaves one of everything on a device, with work on it.
func litter(d *cuda.Device) error {
	p, errMalloc := d.Malloc(1000)
	s, errStream := d.NewStream()
	e, errEvent := d.NewEvent()
	if err := errors.Join(errMalloc, errStream, errEvent); err != nil {
		return err
	}
	g := d.Granularity()
	v, errReserve := d.Reserve(4 * g)
	_, errPinned := d.AllocPinned(4096)
	_, errReport := d.Report(64, func([]byte) error { return nil })
	_, errAsync := d.AllocAsync(1000, s)
	m, errModule := d.LoadModule([]byte(tinyPTX))
	return errors.Join(errReserve, errPinned, errReport, errAsync, errModule,
		d.Map(v.Add(g), 2*g, g), s.CopyToDevice(p, make([]byte, 1000)), s.Record(e), d.DefaultStream().Wait(e),
		d.DefaultStream().Fill(p, 1, 1000), litterGraphs(d, p), find(m))
}

func find(m device.Module) error {
	if m == nil {
		return nil
	}
	_, err := m.Kernel("nothing")
	return err
}

// litterGraphs leaves a graph, a runnable one that has left memory, and a capture that goes on.
func litterGraphs(d *cuda.Device, p device.Ptr) error {
	made, err := d.NewStream()
	if err != nil {
		return err
	}
	s := made.(*cuda.Stream)
	if err := s.BeginCapture(); err != nil {
		return err
	}
	q, errAlloc := d.AllocAsync(500, s)
	errFill := s.Fill(q, 1, 500)
	g, err := s.EndCapture()
	if err = errors.Join(errAlloc, errFill, err); err != nil {
		return err
	}
	x, err := g.Instantiate()
	if err != nil {
		return err
	}
	return errors.Join(x.Launch(s), d.FreeAsync(q, s), x.Launch(s), s.BeginCapture(), s.Fill(p, 1, 10))
}

func TestShutdown_LeavesNothingInTheDriver(t *testing.T) {
	l := process(t, 2)
	a, b := openCUDA(t, "cuda:0"), openCUDA(t, "cuda:1")
	require.NoError(t, litter(a))
	require.NoError(t, litter(b))
	require.NoError(t, a.EnablePeerAccess(b))
	require.NotEmpty(t, l.Leaks())
	require.NoError(t, device.Shutdown())
	require.Empty(t, l.Leaks())
	require.Empty(t, l.Findings())
	require.Equal(t, 2, l.Calls()["cuDevicePrimaryCtxRelease_v2"])

	require.NoError(t, device.Shutdown(), "again is harmless")
	require.Equal(t, 2, l.Calls()["cuDevicePrimaryCtxRelease_v2"])
	for name, err := range uses(a) {
		require.ErrorIs(t, err, device.ErrClosed, name)
		var typed *device.Error
		require.ErrorAs(t, err, &typed, name)
	}
	require.NoError(t, a.Close())
	again := openCUDA(t, "cuda:0")
	require.NotSame(t, a, again)
	require.NoError(t, litter(again))
	require.NoError(t, device.Shutdown())
	require.Empty(t, l.Leaks())
	require.Empty(t, l.Findings())
}

// uses are some calls of a device that has ended.
func uses(d *cuda.Device) map[string]error {
	errs := map[string]error{
		"Synchronize": d.Synchronize(background), "Fill": d.DefaultStream().Fill(4096, 1, 1), "Free": d.Free(4096),
		"CopyToDevice": d.DefaultStream().CopyToDevice(4096, []byte{1}), "Map": d.Map(4096, d.Granularity(), d.Granularity()),
		"Unmap": d.Unmap(4096, d.Granularity()),
	}
	_, errs["Malloc"] = d.Malloc(1)
	_, errs["LoadModule"] = d.LoadModule([]byte(tinyPTX))
	_, errs["NewStream"] = d.NewStream()
	_, errs["Report"] = d.Report(8, nil)
	_, errs["AllocPinned"] = d.AllocPinned(8)
	return errs
}

func TestShutdown_OfDevicesThatDidNothingMakesNoContext(t *testing.T) {
	l := process(t, 1)
	require.NoError(t, device.Shutdown())
	d := openCUDA(t, "cuda:0")
	require.NoError(t, device.Shutdown())
	require.Zero(t, l.Calls()["cuDevicePrimaryCtxRetain"])
	require.Zero(t, l.Calls()["cuDevicePrimaryCtxRelease_v2"])
	_, err := d.Malloc(1)
	require.ErrorIs(t, err, device.ErrClosed)
	require.Zero(t, l.Calls()["cuDevicePrimaryCtxRetain"])
}

func TestShutdown_WaitsForTheWork(t *testing.T) {
	l := process(t, 1)
	d := openCUDA(t, "cuda:0")
	p, err := d.Malloc(100)
	require.NoError(t, err)
	l.Hold()
	require.NoError(t, d.DefaultStream().Fill(p, 1, 100))
	ended := make(chan error, 1)
	go func() { ended <- device.Shutdown() }()
	for l.Calls()["cuCtxSynchronize"] == 0 {
		runtime.Gosched()
	}
	require.Empty(t, ended, "the work is not done")
	l.Release()
	require.NoError(t, <-ended)
	require.Empty(t, l.Leaks())
}

// Calls that have begun come to their end before anything is given back; others are refused at once.
func TestShutdown_WaitsForCallsThatHaveBegun(t *testing.T) {
	l := process(t, 2)
	d, idle := openCUDA(t, "cuda:0"), openCUDA(t, "cuda:1")
	p, err := d.Malloc(100)
	require.NoError(t, err)
	require.NoError(t, litter(idle))
	l.Hold()
	require.NoError(t, d.DefaultStream().Fill(p, 1, 100))
	waited, ended := make(chan error, 1), make(chan error, 1)
	go func() { waited <- d.DefaultStream().Synchronize(background) }()
	for l.Calls()["cuStreamSynchronize"] == 0 {
		runtime.Gosched()
	}
	go func() { ended <- device.Shutdown() }()
	for err := error(nil); err == nil; runtime.Gosched() {
		if _, err = idle.MemInfo(); err != nil {
			require.ErrorIs(t, err, device.ErrClosed)
		}
	}
	for range 1000 {
		runtime.Gosched()
		require.Zero(t, l.Calls()["cuCtxSynchronize"], "it went on, on some device")
	}
	l.Release()
	require.NoError(t, <-ended)
	require.NoError(t, <-waited)
	require.Empty(t, l.Leaks())
}

func TestShutdown_MeetsWorkOfOtherGoroutines(t *testing.T) {
	l := process(t, 2)
	l.DelayCalls(20 * time.Microsecond) // so that more of them are begun and not done
	for range 8 {
		var wait sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			d := openCUDA(t, []string{"cuda:0", "cuda:1"}[i%2])
			started := make(chan struct{})
			wait.Go(func() {
				errs[i] = workUntilError(d, sync.OnceFunc(func() { close(started) }))
			})
			<-started
		}
		require.NoError(t, device.Shutdown())
		wait.Wait()
		for _, err := range errs {
			require.ErrorIs(t, err, device.ErrClosed)
		}
		require.Empty(t, l.Leaks())
		require.Empty(t, l.Findings())
	}
}

// workUntilError makes calls of many kinds until one fails.
func workUntilError(d *cuda.Device, started func()) error {
	g := d.Granularity()
	large := make([]byte, 3<<20)
	for {
		p, err := d.Malloc(3 << 20)
		if err != nil {
			return err
		}
		s, err := d.NewStream()
		if err != nil {
			return err
		}
		m, err := d.LoadModule([]byte(tinyPTX))
		if err != nil {
			return err
		}
		started()
		v, err := d.Reserve(2 * g)
		if err != nil {
			return err
		}
		for _, call := range []func() error{
			func() error { return d.Map(v, 2*g, g) },
			func() error { return s.CopyToDevice(p, large) },
			func() error { return s.Fill(v, 1, g) },
			func() error { return d.Unmap(v, 2*g) },
			func() error { return d.Unreserve(v) },
			func() error { return s.CopyToHost(large, p) },
			func() error { return d.Synchronize(background) },
			func() error { return d.Free(p) },
			m.Close, s.Close,
		} {
			if err := call(); err != nil {
				return err
			}
		}
	}
}

func TestShutdown_EndsADeviceThatIsLost(t *testing.T) {
	l := process(t, 1)
	d := openCUDA(t, "cuda:0")
	require.NoError(t, litter(d))
	p, err := d.Malloc(10)
	require.NoError(t, err)
	l.Fail("work", 1, 700)
	for err == nil { // it may hit work of another stream, sooner or later
		err = errors.Join(d.DefaultStream().Fill(p, 1, 10), d.DefaultStream().Synchronize(background))
	}
	require.ErrorIs(t, err, device.ErrLaunch)
	err = device.Shutdown()
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.Equal(t, 1, l.Calls()["cuDevicePrimaryCtxRelease_v2"])
	require.NoError(t, litter(openCUDA(t, "cuda:0")), "a new context is a new start")
}

func TestShutdown_TellsOfWorkThatFailed(t *testing.T) {
	l := process(t, 1)
	d := openCUDA(t, "cuda:0")
	p, err := d.Malloc(10)
	require.NoError(t, err)
	l.Fail("work", 1, 700)
	require.NoError(t, d.DefaultStream().Fill(p, 1, 10))
	err = device.Shutdown()
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "Fill")
	require.Equal(t, 1, l.Calls()["cuDevicePrimaryCtxRelease_v2"])
}

// Whatever the driver refuses, the rest is given back, and the context.
func TestShutdown_GoesOnAfterEachFault(t *testing.T) {
	l := process(t, 1)
	d := openCUDA(t, "cuda:0")
	require.NoError(t, litter(d))
	before := l.Total()
	require.NoError(t, device.Shutdown())
	total := l.Total() - before
	require.Greater(t, total, 20)
	for fault := 1; fault <= total; fault++ {
		require.NoError(t, litter(openCUDA(t, "cuda:0")))
		released := l.Calls()["cuDevicePrimaryCtxRelease_v2"]
		l.Fail("*", fault, 999)
		err := device.Shutdown()
		l.ClearFaults()
		if err != nil {
			var result cuda.Result
			require.ErrorAs(t, err, &result)
		}
		require.Equal(t, released+1, l.Calls()["cuDevicePrimaryCtxRelease_v2"], "fault %d of %d: %v", fault, total, err)
	}
}

// A program that profiles and ends by Shutdown alone has its file: the events are read before the context is given up.
func TestShutdown_WritesTheProfileOfTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	t.Setenv(cuda.ProfileVariable, file)
	l := process(t, 1)
	d := openCUDA(t, "cuda:0")
	require.NoError(t, litter(d))
	require.NoError(t, device.Shutdown())
	require.Empty(t, l.Leaks(), "the profile's events too")
	require.Empty(t, l.Findings())
	totals, err := os.ReadFile(file + ".txt")
	require.NoError(t, err)
	require.Contains(t, string(totals), "Fill")
	require.NotContains(t, string(totals), "lost")
	require.FileExists(t, file)

	_, err = d.StartProfile()
	require.ErrorIs(t, err, device.ErrClosed)
	require.NoError(t, litter(openCUDA(t, "cuda:0")), "a fresh device profiles anew")
	require.NoError(t, device.Shutdown())
	again, err := os.ReadFile(file + ".txt")
	require.NoError(t, err)
	require.Greater(t, len(again), len(totals))
}
