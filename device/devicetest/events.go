package devicetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var eventTests = []test{
	{"NewEventIsComplete", testNewEvent},
	{"EventIsCompleteAfterSynchronize", testEventSynchronize},
	{"EventCanBeRecordedOnOneStreamAfterAnother", testRecordAgain},
	{"ClosedEventIsRefused", testClosedEvent},
}

func testNewEvent(_ *suite, t *testing.T, dev device.Device) {
	e := newEvent(t, dev)
	done, err := e.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, e.Synchronize(context.Background()))
	for _, stream := range streams(t, dev) {
		require.NoError(t, stream.Wait(e))
		require.NoError(t, stream.Synchronize(context.Background()))
	}
}

func testEventSynchronize(_ *suite, t *testing.T, dev device.Device) {
	p := malloc(t, dev, 1<<20)
	for _, stream := range streams(t, dev) {
		e := newEvent(t, dev)
		require.NoError(t, stream.Fill(p, 1, 1<<20))
		require.NoError(t, stream.Record(e))
		require.NoError(t, e.Synchronize(context.Background()))
		done, err := e.Done()
		require.NoError(t, err)
		require.True(t, done)
	}
}

func testRecordAgain(_ *suite, t *testing.T, dev device.Device) {
	a, b := newStream(t, dev), newStream(t, dev)
	e := newEvent(t, dev)
	for range 5 {
		require.NoError(t, a.Record(e))
		require.NoError(t, b.Wait(e))
		require.NoError(t, b.Record(e))
		require.NoError(t, a.Wait(e))
		require.NoError(t, dev.DefaultStream().Record(e))
	}
	require.NoError(t, e.Synchronize(context.Background()))
	require.NoError(t, dev.Synchronize(context.Background()))
}

func testClosedEvent(_ *suite, t *testing.T, dev device.Device) {
	e, err := dev.NewEvent()
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close(), "closing twice is harmless")
	_, err = e.Done()
	requireError(t, dev, err, device.ErrClosed)
	requireError(t, dev, e.Synchronize(context.Background()), device.ErrClosed)
	for _, stream := range streams(t, dev) {
		requireError(t, dev, stream.Record(e), device.ErrClosed)
		requireError(t, dev, stream.Wait(e), device.ErrClosed)
	}
}
