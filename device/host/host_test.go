package host

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func TestNew_MakesADeviceWithItsOwnIndexAndCapacity(t *testing.T) {
	a, b := New(Capacity(1<<20)), New()
	defer a.Close()
	defer b.Close()
	require.Equal(t, device.Host, a.ID().Kind)
	require.NotEqual(t, a.ID(), b.ID())
	require.NotZero(t, a.ID().Index, "0 is the process-wide device")
	require.Equal(t, uint64(1<<20), a.Properties().TotalMemory)
	require.Greater(t, b.Properties().TotalMemory, uint64(64<<20), "the machine's memory")
}

func TestOpen_WithoutCapacityIsTheProcessWideDevice(t *testing.T) {
	a, err := device.Open("host")
	require.NoError(t, err)
	b, err := device.Open("host")
	require.NoError(t, err)
	require.True(t, a == b && a == device.Device(Default()))
	require.Equal(t, device.ID{Kind: device.Host}, a.ID())
	require.True(t, device.Default() == a, "there is no GPU package in this test")
	c, err := device.Open("host:1MiB")
	require.NoError(t, err)
	require.False(t, a == c)
	require.Equal(t, uint64(1<<20), c.Properties().TotalMemory)
	require.NoError(t, c.Close())
	require.Equal(t, 1, device.Count(device.Host))
}

func TestClose_OfTheProcessWideDeviceOnlyWaits(t *testing.T) {
	d := Default()
	s, err := d.NewStream()
	require.NoError(t, err)
	ran := false
	require.NoError(t, s.(device.Executor).Submit("set", func() error { ran = true; return nil }))
	require.NoError(t, d.Close())
	require.True(t, ran)
	p, err := d.Malloc(4096)
	require.NoError(t, err, "it is still open")
	require.NoError(t, d.Free(p))
	require.NoError(t, s.Close())
}

func TestLive_CountsWhatIsNotGivenBack(t *testing.T) {
	d := New()
	defer d.Close()
	g := d.Granularity()
	p, err := d.Malloc(g + 1)
	require.NoError(t, err)
	r, err := d.Reserve(4 * g)
	require.NoError(t, err)
	require.NoError(t, d.Map(r, 2*g, g))
	b, err := d.AllocPinned(3)
	require.NoError(t, err)
	count, bytes := d.Live()
	require.Equal(t, 5, count, "an allocation, a range, two pages, a pinned piece")
	require.Equal(t, 5*g, bytes)

	require.NoError(t, d.Free(p))
	require.NoError(t, d.Unmap(r, 2*g))
	require.NoError(t, d.Unreserve(r))
	require.NoError(t, d.FreePinned(b))
	count, bytes = d.Live()
	require.Zero(t, count)
	require.Zero(t, bytes)
}

func TestClose_GivesEverythingBack(t *testing.T) {
	d := New()
	_, err := d.Malloc(1)
	require.NoError(t, err)
	r, err := d.Reserve(4 * d.Granularity())
	require.NoError(t, err)
	require.NoError(t, d.Map(r, d.Granularity(), d.Granularity()))
	_, err = d.AllocPinned(3)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	count, bytes := d.Live()
	require.Zero(t, count)
	require.Zero(t, bytes)
}

func TestMemory_IsZeroedWhenNew(t *testing.T) {
	d := New()
	defer d.Close()
	const n = 1 << 20
	for range 3 {
		p, err := d.Malloc(n)
		require.NoError(t, err)
		require.Equal(t, make([]byte, n), Bytes(p, n))
		require.NoError(t, d.DefaultStream().Fill(p, 0xEE, n))
		require.NoError(t, d.Free(p))
	}
}

func TestBytes_IsTheMemoryItself(t *testing.T) {
	d := New()
	defer d.Close()
	p, err := d.Malloc(100)
	require.NoError(t, err)
	b := Bytes(p.Add(10), 20)
	require.Len(t, b, 20)
	b[3] = 99
	got := make([]byte, 1)
	require.NoError(t, d.DefaultStream().CopyToHost(got, p.Add(13)))
	require.Equal(t, byte(99), got[0])
	require.Empty(t, Bytes(0, 0))
}

func TestCheckBounds_NamesTheRangeThatIsOutside(t *testing.T) {
	d := New(CheckBounds())
	defer d.Close()
	page := d.Granularity()
	p, err := d.Malloc(page)
	require.NoError(t, err)
	q, err := d.NewStream()
	require.NoError(t, err)
	for _, s := range []device.Stream{d.DefaultStream(), q} {
		for name, err := range map[string]error{
			"Fill":         s.Fill(p, 1, page+1),
			"CopyToDevice": s.CopyToDevice(p.Add(page-1), make([]byte, 2)),
			"CopyToHost":   s.CopyToHost(make([]byte, 2), p.Add(page-1)),
			"Copy":         s.Copy(p, p.Add(2*page), 8),
			"wrapping":     s.Fill(p, 1, 1<<64-1),
			"half of all":  s.Fill(p, 1, 1<<63),
			"copy of half": s.Copy(p, p.Add(8), 1<<63),
		} {
			require.ErrorIs(t, err, device.ErrInvalidValue, name)
		}
		require.NoError(t, s.Fill(p, 1, page))
	}
	require.NoError(t, d.Free(p))
	require.ErrorContains(t, d.DefaultStream().Fill(p, 1, 1), "1 bytes at address 0x")
}

func TestInlineStream_AllocatesNothing(t *testing.T) {
	d := New()
	defer d.Close()
	p, err := d.Malloc(8192)
	require.NoError(t, err)
	s := d.DefaultStream().(device.Executor)
	e, err := d.NewEvent()
	require.NoError(t, err)
	buffer := make([]byte, 4096)
	f := func() error { return nil }
	var failed error
	note := func(err error) {
		if err != nil {
			failed = err
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		note(s.Record(e))
		_, err := e.Done()
		note(err)
		note(s.Wait(e))
		note(s.CopyToDevice(p, buffer))
		note(s.CopyToHost(buffer, p))
		note(s.Copy(p, p.Add(4096), 4096))
		note(s.Fill(p, 7, 4096))
		note(s.Submit("nothing", f))
		note(s.Synchronize(context.Background()))
	}))
	require.NoError(t, failed)
}

func TestQueuedEvent_AllocatesNothing(t *testing.T) {
	d := New()
	defer d.Close()
	s, err := d.NewStream()
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = s.Record(e)
		_, _ = e.Done()
	}))
}

// TestQueue_SurvivesAFault touches memory that is gone, which would end the program on any other goroutine.
func TestQueue_SurvivesAFault(t *testing.T) {
	d := New()
	defer d.Close()
	page := d.Granularity()
	p, err := d.Reserve(page) // addresses without memory
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, s.Fill(p, 1, page))
	err = s.Synchronize(context.Background())
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "Fill")
	require.NoError(t, s.(device.Executor).Submit("read", func() error {
		if Bytes(p, 1)[0] == 0 {
			return errors.New("read a byte that is not there")
		}
		return nil
	}))
	err = s.Synchronize(context.Background())
	var fault *device.PanicError
	require.ErrorAs(t, err, &fault)
	require.ErrorContains(t, err, "read")
}

func TestFill_SetsEveryByte(t *testing.T) {
	for n := range 70 {
		b := make([]byte, n+1)
		fill(b[:n], 5)
		for _, v := range b[:n] {
			require.Equal(t, byte(5), v)
		}
		require.Zero(t, b[n])
		fill(b, 0)
		require.Equal(t, make([]byte, n+1), b)
	}
}

func TestSizes_ThatNoMemoryHasAreRefused(t *testing.T) {
	d := New()
	defer d.Close()
	p, err := d.Malloc(8)
	require.NoError(t, err)
	q, err := d.NewStream()
	require.NoError(t, err)
	for _, s := range []device.Stream{d.DefaultStream(), q} {
		for _, n := range []uint64{1 << 63, 1<<63 + 5, 1<<64 - 1} {
			require.ErrorIs(t, s.Fill(p, 1, n), device.ErrInvalidValue)
			require.ErrorIs(t, s.Copy(p, p.Add(4), n), device.ErrInvalidValue)
		}
		require.ErrorIs(t, s.CopyToHost(make([]byte, 8), device.Ptr(1<<64-4)), device.ErrInvalidValue)
		require.NoError(t, s.Synchronize(context.Background()))
	}
}
