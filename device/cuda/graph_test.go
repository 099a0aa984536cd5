package cuda_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

// instantiate ends a capture and makes it runnable.
func instantiate(t *testing.T, s *cuda.Stream) device.GraphExec {
	t.Helper()
	g, err := s.EndCapture()
	require.NoError(t, err)
	exec, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, g.Close(), "closing twice is harmless")
	t.Cleanup(func() { require.NoError(t, exec.Close()) })
	return exec
}

func TestGraph_RunsWhatWasCapturedAndNotBefore(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, p := r.Stream(d), r.Malloc(d, 200)
	require.NoError(t, s.CopyToDevice(p, make([]byte, 200)))
	require.NoError(t, s.BeginCapture())
	require.True(t, s.Capturing())
	require.NoError(t, s.Fill(p, 5, 100))
	require.NoError(t, s.Copy(p.Add(100), p, 100))
	exec := instantiate(t, s)
	require.False(t, s.Capturing())
	got := make([]byte, 200)
	require.NoError(t, s.CopyToHost(got, p))
	require.Equal(t, make([]byte, 200), got, "a capture runs nothing")
	for range 3 {
		require.NoError(t, s.Fill(p, 0, 200))
		require.NoError(t, exec.Launch(s))
		require.NoError(t, s.CopyToHost(got, p))
		require.Equal(t, byte(5), got[0])
		require.Equal(t, byte(5), got[199])
	}
}

func TestCapture_SpreadsToStreamsThatWaitAndComesBack(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	main, side, p := r.Stream(d), r.Stream(d), r.Malloc(d, 200)
	fork, join := r.Event(d), r.Event(d)
	require.NoError(t, main.BeginCapture())
	require.NoError(t, main.Fill(p, 5, 100))
	require.NoError(t, main.Record(fork))
	require.NoError(t, side.Wait(fork))
	require.True(t, side.Capturing())
	require.NoError(t, side.Copy(p.Add(100), p, 100))
	require.NoError(t, side.Record(join))
	require.NoError(t, main.Wait(join))
	exec := instantiate(t, main)
	require.False(t, side.Capturing())
	require.NoError(t, exec.Launch(side))
	got := make([]byte, 200)
	require.NoError(t, side.CopyToHost(got, p))
	require.Equal(t, byte(5), got[199])
	_, err := fork.Done()
	require.ErrorIs(t, err, device.ErrInvalidValue, "it stands for nothing that runs")
	require.NoError(t, side.Record(fork))
	require.NoError(t, fork.Synchronize(background), "until it is recorded again")
}

func TestCapture_IsNotHarmedByWhatIsRefused(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, e, p := r.Stream(d), r.Event(d), r.Malloc(d, 100)
	g := d.Granularity()
	v, err := d.Reserve(g)
	require.NoError(t, err)
	require.NoError(t, d.Map(v, g, g))
	require.NoError(t, s.BeginCapture())
	require.NoError(t, s.Fill(p, 5, 100))
	require.NoError(t, s.Record(e))
	_, doneErr := s.Done()
	_, eventErr := e.Done()
	for name, err := range map[string]error{
		"Stream.Done": doneErr, "Event.Done": eventErr, "Stream.Synchronize": s.Synchronize(background),
		"Event.Synchronize": e.Synchronize(background), "Device.Synchronize": d.Synchronize(background),
		"CopyToHost": s.CopyToHost(make([]byte, 10), p), "CopyToDevice": s.CopyToDevice(p, make([]byte, 10)),
		"BeginCapture": s.BeginCapture(), "Unmap": d.Unmap(v, g), "Close": s.Close(),
	} {
		require.ErrorIs(t, err, device.ErrInvalidValue, name)
	}
	q := r.Malloc(d, 100) // the driver may be asked for memory in a capture
	require.NoError(t, s.Copy(q, p, 100))
	exec := instantiate(t, s)
	require.NoError(t, exec.Launch(s))
	got := make([]byte, 100)
	require.NoError(t, s.CopyToHost(got, q))
	require.Equal(t, byte(5), got[99])
	require.NoError(t, d.Unmap(v, g))
	require.NoError(t, d.Unreserve(v))
}

func TestCapture_ErrorsEndIt(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	require.ErrorIs(t, d.DefaultStream().(*cuda.Stream).BeginCapture(), device.ErrInvalidValue)
	main, side, e, p := r.Stream(d), r.Stream(d), r.Event(d), r.Malloc(d, 100)
	r.Expect("CUDA_ERROR_STREAM_CAPTURE_UNJOINED")
	_, err := main.EndCapture()
	require.ErrorIs(t, err, device.ErrInvalidValue)
	require.NoError(t, main.BeginCapture())
	require.NoError(t, main.Record(e))
	require.NoError(t, side.Wait(e))
	require.NoError(t, side.Fill(p, 1, 100))
	_, err = side.EndCapture()
	require.ErrorContains(t, err, "no capture began on stream 2")
	_, err = main.EndCapture() // side was not joined
	var result cuda.Result
	require.True(t, errors.As(err, &result))
	require.EqualValues(t, 904, result)
	require.False(t, main.Capturing())
	require.False(t, side.Capturing())
	require.NoError(t, main.Fill(p, 1, 100))
	require.NoError(t, d.Synchronize(background))
}

func TestClose_EndsCaptures(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s, err := d.NewStream()
	require.NoError(t, err)
	require.NoError(t, s.(*cuda.Stream).BeginCapture())
	require.NoError(t, s.Fill(r.Malloc(d, 10), 1, 10))
	require.NoError(t, d.Close())
}

func TestGraph_ClosedIsRefused(t *testing.T) {
	r := cudatest.New(t, 2)
	d := r.Devices[0]
	s := r.Stream(d)
	require.NoError(t, s.BeginCapture())
	g, err := s.EndCapture()
	require.NoError(t, err)
	n, err := g.(*cuda.Graph).Nodes()
	require.NoError(t, err)
	require.Zero(t, n)
	exec, err := g.Instantiate()
	require.NoError(t, err)
	require.ErrorIs(t, exec.Launch(r.Stream(r.Devices[1])), device.ErrInvalidValue)
	require.NoError(t, errors.Join(g.Close(), exec.Close()))
	_, err = g.Instantiate()
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, exec.Launch(s), device.ErrClosed)
}

// A launch makes the graph's memory again after its owner freed it: Close frees that, or else the device's Close.
func TestGraph_CloseFreesWhatItsLastLaunchMade(t *testing.T) {
	t.Run("at once", func(t *testing.T) { closesWithMemory(t, false) })
	t.Run("later", func(t *testing.T) { closesWithMemory(t, true) })
}

func closesWithMemory(t *testing.T, fails bool) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s := r.Stream(d)
	require.NoError(t, s.BeginCapture())
	p, err := d.AllocAsync(4096, s)
	require.NoError(t, err)
	inside, err := d.AllocAsync(4096, s)
	require.NoError(t, err)
	require.NoError(t, d.FreeAsync(inside, s))
	g, err := s.EndCapture()
	require.NoError(t, err)
	require.ErrorIs(t, d.FreeAsync(inside, s), device.ErrInvalidValue)
	x, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, x.Launch(s))
	require.NoError(t, d.FreeAsync(p, s))
	require.ErrorIs(t, d.FreeAsync(p, s), device.ErrInvalidValue)
	require.NoError(t, x.Launch(s))
	if fails {
		r.Fail("cuMemFree_v2", 1, 999)
		require.ErrorContains(t, x.Close(), "cuMemFree_v2")
	}
	require.NoError(t, x.Close())
}

func TestGraph_MemoryOfAGraphThatWasNotLaunchedIsNobodysToFree(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	s := r.Stream(d)
	require.NoError(t, s.BeginCapture())
	p, err := d.AllocAsync(4096, s)
	require.NoError(t, err)
	g, err := s.EndCapture()
	require.NoError(t, err)
	require.ErrorContains(t, d.FreeAsync(p, s), "was not launched")
	require.NoError(t, g.Close())
}
