package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// ordered is a simulated device with what NewAsync needs: an allocator in stream order that orders nothing.
type ordered struct{ *sim.Device }

func (ordered) StreamOrdered() bool                                        { return true }
func (o ordered) AllocAsync(n uint64, _ device.Stream) (device.Ptr, error) { return o.Malloc(n) }
func (o ordered) FreeAsync(p device.Ptr, _ device.Stream) error            { return o.Free(p) }
func (ordered) TrimPool(uint64) error                                      { return nil }
func (ordered) PoolUsage() (u device.PoolUsage, err error)                 { return u, nil }
func (ordered) ResetPoolPeaks() error                                      { return nil }

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

// The same of the two allocators without a cache.
func TestRecordStream_OfOtherAllocatorsForgetsClosedStreams(t *testing.T) {
	dev := sim.New(gib)
	async, err := NewAsync(ordered{dev}, Config{})
	require.NoError(t, err)
	direct := NewDirect(dev)
	h, err := async.Alloc(512, dev.DefaultStream())
	require.NoError(t, err)
	d, err := direct.Alloc(512, dev.DefaultStream())
	require.NoError(t, err)
	for range 20 {
		s, err := dev.NewStream()
		require.NoError(t, err)
		require.NoError(t, async.RecordStream(h, s))
		require.NoError(t, direct.RecordStream(d, s))
		require.NoError(t, s.Close())
	}
	require.LessOrEqual(t, len(async.live[h.b].users), 1)
	require.LessOrEqual(t, len(d.b.users), 1)
	require.NoError(t, async.Free(h))
	require.NoError(t, direct.Free(d))
	require.NoError(t, async.Close())
	require.NoError(t, direct.Close())
	require.NoError(t, dev.Close())
}
