package memory

import (
	"fmt"
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
	require.Equal(t, "memory: Alloc: the allocator is nil or a zero value", err.Error())
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

// The others: internal/apifuzz calls all methods, and here is what they answer.
func TestNilAndZeroAllocators_RefuseOrDoNothing(t *testing.T) {
	s := newRig(t, gib, "").stream(0)
	for _, a := range []CloseReporter{(*Caching)(nil), new(Caching), (*Direct)(nil), new(Direct), (*Async)(nil), new(Async)} {
		requireAbsent(t, a, s)
		require.True(t, a.Closed())
	}
	for _, p := range []*Pool{nil, {}, new(Caching).NewPool()} {
		requireAbsent(t, p, s)
		require.Zero(t, p.Uses())
		require.Empty(t, p.Allocated())
		require.Empty(t, p.Snapshot().Segments)
		var bad *ArgumentError
		_, err := p.Checkpoint()
		require.ErrorAs(t, err, &bad)
		require.ErrorAs(t, p.Retain(), &bad)
		require.ErrorAs(t, p.Release(), &bad)
	}
}

// requireAbsent makes the calls of an allocator that is none.
func requireAbsent(t *testing.T, a Allocator, s device.Stream) {
	t.Helper()
	var bad *ArgumentError
	_, err := a.Alloc(8, s)
	for _, err := range []error{err, a.Free(Block{}), a.RecordStream(Block{}, s), a.EmptyCache()} {
		require.ErrorAs(t, err, &bad, "%T", a)
	}
	a.FreeLater(Block{})
	require.NoError(t, a.Close())
	require.Equal(t, Stats{}, a.Stats())
	require.Zero(t, a.Device())
	require.Contains(t, fmt.Sprint(a), "(nil)")
}

func TestNilAndZeroGraphs_RefuseOrDoNothing(t *testing.T) {
	s := newRig(t, gib, "").stream(0)
	for _, g := range []*Graph{nil, {}} {
		var bad *ArgumentError
		require.ErrorAs(t, g.Replay(s), &bad)
		require.NoError(t, g.Close())
		require.Nil(t, g.Pool())
	}
}

// A closed stream is refused by what takes memory ahead of use or at an address, too, and in pools.
func TestClosedStream_GetsNoMemoryInAnyWay(t *testing.T) {
	r := newRig(t, gib, "")
	s := r.stream(3)
	p := r.a.NewPool()
	b, err := p.Alloc(mib, s)
	require.NoError(t, err)
	at := b.Ptr()
	require.NoError(t, r.a.Free(b))
	require.NoError(t, s.Close())
	_, poolErr := p.Alloc(mib, s)
	_, atErr := r.a.AllocAt(mib, s, at)
	for _, err := range []error{poolErr, atErr, r.a.Reserve(mib, s)} {
		require.ErrorIs(t, err, device.ErrClosed)
		require.ErrorContains(t, err, "stream 3 is closed")
	}
	require.NoError(t, p.Close())
}
