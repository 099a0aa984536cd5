package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

var background = context.Background()

func TestOpen_MakesNoContextBeforeItIsNeeded(t *testing.T) {
	r := cudatest.New(t, 2)
	d := r.Devices[0]
	p := d.Properties()
	require.NotEmpty(t, p.Name)
	require.EqualValues(t, cudatest.Capacity, p.TotalMemory)
	require.GreaterOrEqual(t, p.Major, 8)
	warp, err := d.Attribute(cuda.WarpSize)
	require.NoError(t, err)
	require.Equal(t, 32, warp)
	require.Zero(t, r.Calls()["cuDevicePrimaryCtxRetain"])
	require.NoError(t, d.Free(r.Malloc(d, 1)))
	require.NoError(t, d.Free(r.Malloc(d, 1)))
	require.Equal(t, 1, r.Calls()["cuDevicePrimaryCtxRetain"])
}

func TestStreams_HavePriorities(t *testing.T) {
	d := cudatest.New(t, 1).Devices[0]
	least, greatest, err := d.PriorityRange()
	require.NoError(t, err)
	require.LessOrEqual(t, greatest, least)
	s, err := d.NewStreamWithPriority(greatest)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestStream_DoneIsFalseWhileThereIsWork(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 64)
	r.HoldStream(s.Handle())
	require.NoError(t, s.Fill(p, 1, 64))
	require.NoError(t, s.Record(e))
	done, err := s.Done()
	require.NoError(t, err)
	require.False(t, done)
	done, err = e.Done()
	require.NoError(t, err)
	require.False(t, done)
	r.ReleaseStream(s.Handle())
	require.NoError(t, e.Synchronize(background))
	done, err = e.Done()
	require.NoError(t, err)
	require.True(t, done)
}

func TestWaits_EndWithTheirContext(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 64)
	r.HoldStream(s.Handle())
	require.NoError(t, s.Fill(p, 1, 64))
	require.NoError(t, s.Record(e))
	for name, wait := range map[string]func(context.Context) error{
		"stream": s.Synchronize, "event": e.Synchronize, "device": d.Synchronize,
	} {
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		err := wait(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		var failed *device.Error
		require.ErrorAs(t, err, &failed, name)
	}
	r.ReleaseStream(s.Handle())
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	require.NoError(t, s.Synchronize(ctx))
	require.NoError(t, d.Synchronize(ctx))
}

// TestCopyToDevice_IsAsynchronousAndLetsGoOfItsSource changes the source while the copy cannot have begun.
func TestCopyToDevice_IsAsynchronousAndLetsGoOfItsSource(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 1<<20)
	want := cudatest.Pattern(3, 1<<19)
	source := bytes.Clone(want)
	r.HoldStream(s.Handle())
	require.NoError(t, s.CopyToDevice(p, source))
	clear(source)
	require.NoError(t, s.CopyToDevice(p.Add(1<<19), source[:100]))
	r.ReleaseStream(s.Handle())
	got := make([]byte, len(want))
	require.NoError(t, s.CopyToHost(got, p))
	require.Equal(t, want, got)
}

func TestCopyToDevice_OfMuchMoreThanTheStagingMemory(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	const n = 9<<20 + 13
	s, p := r.Stream(d), r.Malloc(d, n)
	for round := range 3 {
		want, got := cudatest.Pattern(round, n), make([]byte, n)
		require.NoError(t, s.CopyToDevice(p, want))
		require.NoError(t, s.CopyToHost(got, p))
		require.True(t, bytes.Equal(want, got), "round %d", round)
	}
}

func TestAsyncCopies_TakePinnedMemoryOnly(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 4096)
	in, err := d.AllocPinned(4096)
	require.NoError(t, err)
	out, err := d.AllocPinned(4096)
	require.NoError(t, err)
	copy(in, cudatest.Pattern(1, 4096))
	r.HoldStream(s.Handle())
	require.NoError(t, s.CopyToDeviceAsync(p, in))
	require.NoError(t, s.CopyToHostAsync(out[10:], p.Add(10)))
	require.Equal(t, make([]byte, 4096), out, "nothing ran yet")
	r.ReleaseStream(s.Handle())
	require.NoError(t, s.Synchronize(background))
	require.Equal(t, in[10:], out[10:])

	require.ErrorIs(t, s.CopyToDeviceAsync(p, make([]byte, 8)), device.ErrInvalidValue)
	require.ErrorIs(t, s.CopyToHostAsync(make([]byte, 8), p), device.ErrInvalidValue)
	require.NoError(t, s.CopyToHostAsync(nil, 0))
	require.NoError(t, d.FreePinned(in))
	require.ErrorIs(t, s.CopyToDeviceAsync(p, in[:0:0]), nil)
	require.NoError(t, d.FreePinned(out))
}

func TestElapsed_IsTheTimeBetweenTimingEvents(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 64)
	a, err := d.NewTimingEvent()
	require.NoError(t, err)
	b, err := d.NewTimingEvent()
	require.NoError(t, err)
	require.NoError(t, s.Record(a))
	r.DelayWork(2 * time.Millisecond)
	require.NoError(t, s.Fill(p, 1, 64))
	require.NoError(t, s.Record(b))
	require.NoError(t, b.Synchronize(background))
	elapsed, err := b.Elapsed(a)
	require.NoError(t, err)
	require.Greater(t, elapsed, time.Millisecond)
	_, err = b.Elapsed(r.Event(d))
	require.ErrorIs(t, err, device.ErrInvalidValue)
	require.NoError(t, errors.Join(a.Close(), b.Close()))
}

// TestDevice_ServesManyGoroutinesWithoutThreads would fail with CUDA_ERROR_INVALID_CONTEXT if calls relied on the thread.
// The driver would be given the handle of an event that is gone, or end a capture: it is asked about neither event then.
func TestElapsed_RefusesEventsThatTheDriverMustNotBeAskedAbout(t *testing.T) {
	r := cudatest.New(t, 2)
	d := r.Devices[0]
	timing := func(d *cuda.Device) *cuda.Event {
		e, err := d.NewTimingEvent()
		require.NoError(t, err)
		return e
	}
	s := r.Stream(d)
	done, closed, captured, foreign := timing(d), timing(d), timing(d), timing(r.Devices[1])
	require.NoError(t, s.Record(done))
	require.NoError(t, s.Synchronize(background))
	require.NoError(t, closed.Close())
	require.NoError(t, s.BeginCapture())
	require.NoError(t, s.Record(captured))
	for name, c := range map[string]struct {
		e, since *cuda.Event
		want     error
	}{
		"since closed": {done, closed, device.ErrClosed}, "until closed": {closed, done, device.ErrClosed},
		"since captured": {done, captured, device.ErrInvalidValue}, "until captured": {captured, done, device.ErrInvalidValue},
		"since of another device": {done, foreign, device.ErrInvalidValue}, "since nothing": {done, nil, device.ErrInvalidValue},
	} {
		_, err := c.e.Elapsed(c.since)
		require.ErrorIs(t, err, c.want, name)
	}
	require.Zero(t, r.Calls()["cuEventElapsedTime"])
	g, err := s.EndCapture()
	require.NoError(t, err, "the capture goes on")
	require.NoError(t, errors.Join(g.Close(), done.Close(), captured.Close(), foreign.Close()))
}

func TestDevice_ServesManyGoroutinesWithoutThreads(t *testing.T) {
	r := cudatest.New(t, 2)
	var group sync.WaitGroup
	errs := make([]error, 64)
	for g := range errs {
		group.Go(func() { errs[g] = roundTrips(r.Devices[g%2], g) })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
}

func roundTrips(d *cuda.Device, seed int) error {
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	e, err := d.NewEvent()
	if err != nil {
		return err
	}
	for round := range 20 {
		want, got := cudatest.Pattern(seed+round, 3000), make([]byte, 3000)
		p, err := d.Malloc(6000)
		if err != nil {
			return err
		}
		err = errors.Join(s.CopyToDevice(p, want), s.Copy(p.Add(3000), p, 3000), s.Record(e), d.DefaultStream().Wait(e),
			e.Synchronize(background), s.CopyToHost(got, p.Add(3000)), d.Free(p))
		if err != nil {
			return err
		}
		if !bytes.Equal(want, got) {
			return errors.New("content was lost")
		}
	}
	return errors.Join(e.Close(), s.Close())
}
