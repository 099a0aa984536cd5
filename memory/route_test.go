package memory

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
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

// An Alloc that found a route which ends meanwhile, and with it the pool's last use, is served by the default pools.
func TestRoute_RequestsSurviveItsEnd(t *testing.T) {
	r := newRig(t, gib, "")
	p, outer := r.a.NewPool(), r.a.NewPool()
	all := func(device.Stream) bool { return true }
	require.NoError(t, r.a.BeginRoute(outer, all))
	require.NoError(t, r.a.BeginRoute(p, func(device.Stream) bool {
		if r.a.EndRoute(p) == nil { // what another goroutine does just after the look at the routes
			require.NoError(t, p.Release())
			require.NoError(t, r.a.EmptyCache())
		}
		return true
	}))
	b := r.alloc(3*mib, 1)
	require.Equal(t, outer, b.b.shard.pool, "the route around it goes on")
	require.NoError(t, r.a.EndRoute(outer))
	require.Nil(t, r.alloc(3*mib, 1).b.shard.pool)
	for _, sh := range *r.a.shards.Load() {
		require.NotEqual(t, p, sh.pool, "a pool that is no more gets no shard")
	}
}

// The same by goroutines, as they come.
func TestRoute_RequestsSurviveConcurrentEnds(t *testing.T) {
	for _, conf := range []string{"", "release_lock_on_cudamalloc:True"} {
		dev := sim.New(gib)
		c, err := ParseConfig(conf)
		require.NoError(t, err)
		a, err := New(dev, c)
		require.NoError(t, err)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for g := range 3 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					b, err := a.Alloc(uint64(i%5)*5*mib+1, dev.Stream(device.StreamID(g)))
					if err == nil {
						err = a.Free(b)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 300 {
			p := a.NewPool()
			require.NoError(t, a.BeginRoute(p, func(s device.Stream) bool { return s.ID() != 0 }))
			require.NoError(t, p.Release())
			require.NoError(t, a.EndRoute(p))
			require.NoError(t, a.EmptyCache())
		}
		close(stop)
		wg.Wait()
		require.NoError(t, a.EmptyCache())
		require.NoError(t, a.check())
		require.Empty(t, a.pools)
		require.NoError(t, a.Close())
		require.Zero(t, dev.Live().Bytes)
	}
}
