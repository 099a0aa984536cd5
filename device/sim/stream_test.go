package sim

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func done(t *testing.T, of interface{ Done() (bool, error) }) bool {
	t.Helper()
	ok, err := of.Done()
	require.NoError(t, err)
	return ok
}

func recorded(t *testing.T, d *Device, s device.Stream) device.Event {
	t.Helper()
	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, s.Record(e))
	return e
}

func TestAutomaticStreams_AreAlwaysDone(t *testing.T) {
	d := New(1 << 20)
	s := d.DefaultStream()
	p := malloc(t, d, 100)
	require.NoError(t, s.Fill(p, 1, 100))
	e := recorded(t, d, s)
	require.True(t, done(t, s))
	require.True(t, done(t, e))
	d.Complete(0)
	d.Complete(17)
}

func TestManualStreams_FinishOnlyWhenTold(t *testing.T) {
	d := New(1<<20, ManualStreams())
	a, b := d.Stream(1), d.Stream(2)
	first := recorded(t, d, a)
	other := recorded(t, d, b)
	require.False(t, done(t, first))
	require.False(t, done(t, a))
	d.Complete(1)
	later := recorded(t, d, a)
	require.True(t, done(t, first))
	require.False(t, done(t, later), "only what was on the stream is finished")
	require.False(t, done(t, other), "and only on that stream")
	require.NoError(t, a.Record(first))
	require.False(t, done(t, first), "recording moves the event")
}

func TestManualStreams_WaitingFinishesUpToThere(t *testing.T) {
	d := New(1<<20, ManualStreams())
	p := malloc(t, d, 100)
	s := d.DefaultStream()
	ctx := context.Background()
	first, second := recorded(t, d, s), recorded(t, d, s)
	require.NoError(t, first.Synchronize(ctx))
	require.True(t, done(t, first))
	require.False(t, done(t, second))
	require.NoError(t, s.Synchronize(ctx))
	require.True(t, done(t, second))

	require.NoError(t, s.Record(first))
	require.NoError(t, s.CopyToHost(make([]byte, 5), p))
	require.True(t, done(t, first), "a copy to the host waits")

	other := d.Stream(5)
	require.NoError(t, s.Record(first))
	require.NoError(t, other.Record(second))
	require.NoError(t, d.Synchronize(ctx))
	require.True(t, done(t, first) && done(t, second))
}

func TestManualStreams_FinishWhatTheyWaitedForToo(t *testing.T) {
	d := New(1<<20, ManualStreams())
	a, b, c := d.Stream(1), d.Stream(2), d.Stream(3)
	first := recorded(t, d, a)
	require.NoError(t, b.Wait(first))
	second := recorded(t, d, b)
	require.NoError(t, c.Wait(second))
	third := recorded(t, d, c)
	beyond := recorded(t, d, a)
	require.NoError(t, a.Wait(third)) // a and c now wait for points of each other
	d.Complete(3)
	require.True(t, done(t, first) && done(t, second) && done(t, third))
	require.False(t, done(t, beyond), "c waited for less")
	d.Complete(1)
	require.True(t, done(t, a))
}

func TestManualStreams_DoNotWaitPastTheEndOfAContext(t *testing.T) {
	d := New(1<<20, ManualStreams())
	s := d.DefaultStream()
	e := recorded(t, d, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range []error{s.Synchronize(ctx), e.Synchronize(ctx), d.Synchronize(ctx)} {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.False(t, done(t, e))
}

func TestFailWork_SurfacesAtTheNextWait(t *testing.T) {
	for _, d := range []*Device{New(1 << 20), New(1<<20, ManualStreams())} {
		s := d.DefaultStream()
		ctx := context.Background()
		before := recorded(t, d, s)
		d.FailWork(0, "matmul", errBus)
		require.NoError(t, before.Synchronize(ctx))
		err := s.Synchronize(ctx)
		require.ErrorIs(t, err, device.ErrLaunch)
		require.ErrorIs(t, err, errBus)
		require.ErrorContains(t, err, "matmul")
		require.NoError(t, s.Synchronize(ctx))

		d.Stream(4)
		d.FailWork(4, "softmax", errBus)
		d.FailWork(0, "matmul", errBus)
		require.ErrorContains(t, d.Synchronize(ctx), "matmul", "by stream number")
		require.ErrorContains(t, d.Synchronize(ctx), "softmax")
		d.FailWork(0, "matmul", errBus)
		require.ErrorIs(t, d.Close(), errBus)
	}
}

func TestStream_ReturnsTheStreamOfAnIDAndMakesIt(t *testing.T) {
	d := New(1 << 20)
	require.True(t, d.Stream(0) == d.DefaultStream())
	seven := d.Stream(7)
	require.Equal(t, device.StreamID(7), seven.ID())
	require.True(t, seven == d.Stream(7))
	next, err := d.NewStream()
	require.NoError(t, err)
	require.Equal(t, device.StreamID(8), next.ID())
	require.True(t, next == d.Stream(8))
}

func TestHotCalls_AllocateNothing(t *testing.T) {
	d := New(1<<20, ManualStreams())
	s := d.DefaultStream()
	p := malloc(t, d, 8192)
	e := recorded(t, d, s)
	buffer := make([]byte, 16)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = s.Record(e)
		_, _ = e.Done()
		d.Complete(0)
		_ = s.Copy(p, p.Add(4096), 4096)
		_ = s.CopyToDevice(p, buffer)
		_ = s.Fill(p, 1, 4096)
		_ = s.(device.Executor).Submit("matmul", nil)
	}))
}

func BenchmarkRecordAndQuery(b *testing.B) {
	d := New(1<<20, ManualStreams())
	s := d.DefaultStream()
	e, err := d.NewEvent()
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Record(e)
		_, _ = e.Done()
	}
}

func BenchmarkMallocAndFree(b *testing.B) {
	d := New(1 << 30)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := d.Malloc(1 << 20)
		_ = d.Free(p)
	}
}
