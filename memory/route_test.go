package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// test_nested_mempool: a request goes to the innermost route that takes its stream.
func TestRoute_InnermostCounts(t *testing.T) {
	r := newRig(t, gib, "")
	p, q := r.a.NewPool(), r.a.NewPool()
	on := func(ids ...device.StreamID) func(device.Stream) bool {
		return func(s device.Stream) bool {
			for _, id := range ids {
				if s.ID() == id {
					return true
				}
			}
			return false
		}
	}
	poolOf := func(stream int) PoolID {
		b := r.alloc(12*mib, stream)
		for _, seg := range r.a.Snapshot().Segments {
			if seg.Address == b.Ptr() {
				return seg.PoolID
			}
		}
		return PoolID{9, 9}
	}
	require.NoError(t, r.a.BeginRoute(p, on(1, 2)))
	require.Equal(t, 2, p.Uses())
	require.ErrorContains(t, r.a.BeginRoute(p, on(1)), "already recording to pool")
	require.NoError(t, r.a.BeginRoute(q, on(2, 3)))
	require.Equal(t, []PoolID{{}, {0, 1}, {0, 2}, {0, 2}}, []PoolID{poolOf(0), poolOf(1), poolOf(2), poolOf(3)})
	require.NoError(t, r.a.EndRoute(q))
	require.Equal(t, []PoolID{{0, 1}, {}}, []PoolID{poolOf(2), poolOf(3)})
	require.NoError(t, r.a.EndRoute(p))
	require.Equal(t, 1, p.Uses())
	require.Equal(t, PoolID{}, poolOf(1))
	require.ErrorContains(t, r.a.EndRoute(p), "is on no route")

	other := newRig(t, gib, "")
	require.ErrorContains(t, other.a.BeginRoute(p, on(1)), "of another allocator")
}
