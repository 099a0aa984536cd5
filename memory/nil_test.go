package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func TestZeroPools_AndCheckpointsAreRefused(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool()
	var bad *ArgumentError
	var checkpoint *CheckpointError
	for _, c := range []*PoolCheckpoint{nil, {}} {
		_, err := p.Restore(c)
		require.ErrorAs(t, err, &checkpoint)
		require.ErrorContains(t, err, "there is no checkpoint")
	}
	all := func(device.Stream) bool { return true }
	for _, none := range []*Pool{nil, {}} {
		require.ErrorAs(t, r.a.EndRoute(none), &bad)
		require.ErrorAs(t, r.a.BeginRoute(none, all), &bad)
	}
	require.NoError(t, p.Release())
}

func TestNilCaching_RefusesOrDoesNothing(t *testing.T) {
	r := newRig(t, gib, "")
	var a *Caching
	var bad *ArgumentError
	_, err := a.Alloc(8, r.stream(0))
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "memory: Alloc: the allocator is nil", err.Error())
	require.ErrorAs(t, a.RecordStream(Block{}, r.stream(0)), &bad)
	require.ErrorAs(t, a.Free(Block{}), &bad)
	require.ErrorAs(t, a.EmptyCache(), &bad)
	a.FreeLater(Block{})
	require.NoError(t, a.Close())
	require.True(t, a.Closed())
	require.Equal(t, Stats{}, a.Stats())
	require.Empty(t, a.Snapshot().Segments)
	require.Empty(t, a.SnapshotState().Segments)
	require.Zero(t, a.Device())
	require.Equal(t, "caching allocator (nil)", a.String())
}
