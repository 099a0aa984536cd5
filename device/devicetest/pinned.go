package devicetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var pinnedTests = []test{
	{"PinnedMemoryIsZeroedAndUsable", testPinned},
	{"WrongPinnedMemoryIsInvalid", testPinnedInvalid},
}

func pinned(t *testing.T, dev device.Device) device.PinnedMemory {
	t.Helper()
	m, ok := dev.(device.PinnedMemory)
	if !ok {
		t.Skip("the device has no pinned memory")
	}
	return m
}

func testPinned(s *suite, t *testing.T, dev device.Device) {
	const n = 100_001
	m := pinned(t, dev)
	b, err := m.AllocPinned(n)
	require.NoError(t, err)
	require.Len(t, b, n)
	require.Equal(t, make([]byte, n), b)
	copy(b, pattern(4, n))
	p := malloc(t, dev, n)
	for _, stream := range streams(t, dev) {
		require.NoError(t, stream.CopyToDevice(p, b))
		s.requireBytes(t, stream, p, pattern(4, n))
		clear(b)
		require.NoError(t, stream.CopyToHost(b, p))
		if s.storage {
			require.Equal(t, pattern(4, n), b)
		}
		copy(b, pattern(4, n))
	}
	require.NoError(t, m.FreePinned(b[:10]), "any slice from the first byte on will do")
	requireError(t, dev, m.FreePinned(b), device.ErrInvalidValue)
}

func testPinnedInvalid(_ *suite, t *testing.T, dev device.Device) {
	m := pinned(t, dev)
	_, err := m.AllocPinned(0)
	requireError(t, dev, err, device.ErrInvalidValue)
	_, err = m.AllocPinned(1 << 62)
	requireError(t, dev, err, device.ErrOutOfMemory)
	requireError(t, dev, m.FreePinned(make([]byte, 8)), device.ErrInvalidValue)
	requireError(t, dev, m.FreePinned(nil), device.ErrInvalidValue)
	b, err := m.AllocPinned(4096)
	require.NoError(t, err)
	requireError(t, dev, m.FreePinned(b[1:]), device.ErrInvalidValue)
	require.NoError(t, m.FreePinned(b))
}
