package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
)

// A block that lives for long and is used on streams that come and go knows those that are open.
func TestRecordStream_ForgetsClosedStreams(t *testing.T) {
	dev := sim.New(gib)
	a, err := New(dev, Config{})
	require.NoError(t, err)
	h, err := a.Alloc(512, dev.DefaultStream())
	require.NoError(t, err)
	for range 20 {
		s, err := dev.NewStream()
		require.NoError(t, err)
		require.NoError(t, a.RecordStream(h, s))
		require.NoError(t, s.Close())
	}
	require.LessOrEqual(t, len(h.b.users), 1)
	require.NoError(t, a.Free(h))
	require.NoError(t, a.Close())
	require.NoError(t, dev.Close())
}
