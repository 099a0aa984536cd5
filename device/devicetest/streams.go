package devicetest

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var streamTests = []test{
	{"DefaultStreamIsZeroAndCannotBeClosed", testDefaultStream},
	{"StreamsAreNumberedInOrder", testStreamIDs},
	{"WorkOnOneStreamRunsInOrder", testStreamOrder},
	{"WaitOrdersStreams", testWaitOrders},
	{"SynchronizeMeansDone", testSynchronizeMeansDone},
	{"WaitForFinishedWorkIgnoresAnEndedContext", testEndedContext},
	{"ClosedStreamIsRefused", testClosedStream},
	{"ForeignEventIsInvalid", testForeignEvent},
}

func testDefaultStream(_ *suite, t *testing.T, dev device.Device) {
	s := dev.DefaultStream()
	require.Equal(t, device.StreamID(0), s.ID())
	require.Equal(t, dev, s.Device())
	require.True(t, s == dev.DefaultStream(), "it is always the same")
	requireError(t, dev, s.Close(), device.ErrInvalidValue)
	require.NoError(t, s.Synchronize(context.Background()))
}

func testStreamIDs(_ *suite, t *testing.T, dev device.Device) {
	last := device.StreamID(0)
	for range 4 {
		s := newStream(t, dev)
		require.Greater(t, s.ID(), last)
		require.Equal(t, dev, s.Device())
		last = s.ID()
	}
}

func testStreamOrder(s *suite, t *testing.T, dev device.Device) {
	const n = 1 << 16
	a, b := malloc(t, dev, n), malloc(t, dev, n)
	for _, stream := range streams(t, dev) {
		for i := range 50 {
			require.NoError(t, stream.Fill(a, byte(i), n))
			require.NoError(t, stream.Copy(b, a, n))
		}
		require.NoError(t, stream.Fill(a, 0xFF, n))
		s.requireBytes(t, stream, b, bytes.Repeat([]byte{49}, n))
	}
}

// testWaitOrders passes a value along a chain of streams, each of which waits for the one before.
func testWaitOrders(s *suite, t *testing.T, dev device.Device) {
	const n, links = 1 << 16, 6
	cells := make([]device.Ptr, links+1)
	for i := range cells {
		cells[i] = malloc(t, dev, n)
	}
	streams := make([]device.Stream, links)
	for i := range streams {
		streams[i] = newStream(t, dev)
	}
	streams[links/2] = dev.DefaultStream()
	event := newEvent(t, dev)
	for round := range 10 {
		require.NoError(t, streams[0].Fill(cells[0], byte(round), n))
		for i, stream := range streams {
			if i > 0 {
				require.NoError(t, stream.Wait(event))
			}
			require.NoError(t, stream.Copy(cells[i+1], cells[i], n))
			require.NoError(t, stream.Record(event)) // recording again moves it; waits made before stay
		}
		s.requireBytes(t, streams[links-1], cells[links], bytes.Repeat([]byte{byte(round)}, n))
		require.NoError(t, streams[0].Wait(event))
	}
}

func testSynchronizeMeansDone(_ *suite, t *testing.T, dev device.Device) {
	p := malloc(t, dev, 1<<20)
	for _, stream := range streams(t, dev) {
		require.NoError(t, stream.Fill(p, 1, 1<<20))
		require.NoError(t, stream.Synchronize(context.Background()))
		done, err := stream.Done()
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, stream.Fill(p, 2, 1<<20))
		require.NoError(t, dev.Synchronize(context.Background()))
		done, err = stream.Done()
		require.NoError(t, err)
		require.True(t, done)
	}
}

func testEndedContext(_ *suite, t *testing.T, dev device.Device) {
	for _, stream := range streams(t, dev) {
		event := newEvent(t, dev)
		require.NoError(t, stream.Record(event))
		require.NoError(t, stream.Synchronize(context.Background()))
		require.NoError(t, stream.Synchronize(ended()))
		require.NoError(t, event.Synchronize(ended()))
	}
	require.NoError(t, dev.Synchronize(ended()))
}

func testClosedStream(_ *suite, t *testing.T, dev device.Device) {
	p := malloc(t, dev, 4096)
	e := newEvent(t, dev)
	s, err := dev.NewStream()
	require.NoError(t, err)
	require.NoError(t, s.Record(e))
	report, ok := s.(device.CloseReporter)
	require.False(t, ok && report.Closed())
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice is harmless")
	require.True(t, !ok || report.Closed())
	for name, err := range streamErrors(s, p, e) {
		require.ErrorIs(t, err, device.ErrClosed, name)
		requireError(t, dev, err, device.ErrClosed)
	}
	done, err := e.Done()
	require.NoError(t, err)
	require.True(t, done, "an event outlives its stream")
	require.NoError(t, dev.DefaultStream().Wait(e))
}

// streamErrors makes each call of a stream.
func streamErrors(s device.Stream, p device.Ptr, e device.Event) map[string]error {
	_, doneErr := s.Done()
	errs := map[string]error{
		"CopyToDevice": s.CopyToDevice(p, make([]byte, 8)),
		"CopyToHost":   s.CopyToHost(make([]byte, 8), p),
		"Copy":         s.Copy(p, p.Add(16), 8),
		"Fill":         s.Fill(p, 1, 8),
		"Record":       s.Record(e),
		"Wait":         s.Wait(e),
		"Done":         doneErr,
		"Synchronize":  s.Synchronize(context.Background()),
	}
	if x, ok := s.(device.Executor); ok {
		errs["Submit"] = x.Submit("operation", func() error { return nil })
	}
	return errs
}

// foreignEvent is an event that no device made.
type foreignEvent struct{ device.Event }

func testForeignEvent(_ *suite, t *testing.T, dev device.Device) {
	for _, stream := range streams(t, dev) {
		for _, e := range []device.Event{nil, foreignEvent{}} {
			requireError(t, dev, stream.Record(e), device.ErrInvalidValue)
			requireError(t, dev, stream.Wait(e), device.ErrInvalidValue)
		}
	}
}
