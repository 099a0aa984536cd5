package devicetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var closeTests = []test{
	{"ClosedDeviceRefusesEverything", testClosedDevice},
	{"CloseTakesWhatNobodyFreed", testCloseWithMemory},
}

func testClosedDevice(s *suite, t *testing.T, dev device.Device) {
	if s.shared {
		t.Skip("the device is not ours to close")
	}
	stream, err := dev.NewStream()
	require.NoError(t, err)
	event, err := dev.NewEvent()
	require.NoError(t, err)
	p, err := dev.Malloc(4096)
	require.NoError(t, err)
	require.NoError(t, stream.Fill(p, 1, 4096))
	require.NoError(t, stream.Record(event))
	id, properties := dev.ID(), dev.Properties()
	require.NoError(t, dev.Close())
	require.NoError(t, dev.Close(), "closing twice is harmless")
	for name, err := range deviceErrors(dev, p) {
		require.ErrorIs(t, err, device.ErrClosed, name)
	}
	for _, stream := range []device.Stream{stream, dev.DefaultStream()} {
		for name, err := range streamErrors(stream, p, event) {
			require.ErrorIs(t, err, device.ErrClosed, name)
		}
		report, ok := stream.(device.CloseReporter)
		require.True(t, !ok || report.Closed(), "nothing can be enqueued on stream %d any more", stream.ID())
	}
	_, err = event.Done()
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, event.Synchronize(context.Background()), device.ErrClosed)
	require.NoError(t, stream.Close(), "what is left may be closed in any order")
	require.NoError(t, event.Close())
	require.Equal(t, id, dev.ID())
	require.Equal(t, properties, dev.Properties())
}

// deviceErrors makes each call of a device that can fail.
func deviceErrors(dev device.Device, p device.Ptr) map[string]error {
	errs := map[string]error{
		"Free":        dev.Free(p),
		"Synchronize": dev.Synchronize(context.Background()),
	}
	_, errs["Malloc"] = dev.Malloc(4096)
	_, errs["MemInfo"] = dev.MemInfo()
	_, errs["NewStream"] = dev.NewStream()
	_, errs["NewEvent"] = dev.NewEvent()
	if v, ok := dev.(device.VirtualMemory); ok {
		_, errs["Reserve"] = v.Reserve(v.Granularity())
		errs["Unreserve"] = v.Unreserve(p)
		errs["Map"] = v.Map(p, v.Granularity(), v.Granularity())
		errs["Unmap"] = v.Unmap(p, v.Granularity())
	}
	if m, ok := dev.(device.PinnedMemory); ok {
		_, errs["AllocPinned"] = m.AllocPinned(4096)
		errs["FreePinned"] = m.FreePinned(make([]byte, 1))
	}
	return errs
}

// testCloseWithMemory leaves one of everything to Close, which must not complain.
func testCloseWithMemory(s *suite, t *testing.T, dev device.Device) {
	if s.shared {
		t.Skip("the device is not ours to close")
	}
	_, err := dev.Malloc(1 << 20)
	require.NoError(t, err)
	if v, ok := dev.(device.VirtualMemory); ok {
		p, err := v.Reserve(4 * v.Granularity())
		require.NoError(t, err)
		require.NoError(t, v.Map(p.Add(v.Granularity()), v.Granularity(), v.Granularity()))
	}
	if m, ok := dev.(device.PinnedMemory); ok {
		_, err := m.AllocPinned(4096)
		require.NoError(t, err)
	}
	require.NoError(t, dev.Close())
}
