package memory

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// allocIn allocates from a private pool; it must succeed.
func (r *rig) allocIn(p *Pool, bytes uint64, stream int) Block {
	r.t.Helper()
	b, err := p.Alloc(bytes, r.stream(stream))
	require.NoError(r.t, err)
	r.check()
	return b
}

// test_mempool_id.
func TestPool_IDsCountUp(t *testing.T) {
	r := newRig(t, gib, "")
	p, q := r.a.NewPool(), r.a.NewPool()
	require.Equal(t, PoolID{0, 1}, p.ID())
	require.Equal(t, PoolID{0, 2}, q.ID())
	text, err := p.ID().MarshalText()
	require.NoError(t, err)
	require.Equal(t, "0_1", string(text))
	require.Equal(t, "private pool [0 1] of "+r.a.Device().String(), p.String())
	require.Equal(t, r.a.Device(), p.Device())
}

// test_mempool_with_allocator: two small blocks share a segment of 2 MiB, apart from everybody else's.
func TestPool_HasSegmentsOfItsOwn(t *testing.T) {
	r := newRig(t, gib, "")
	p, q := r.a.NewPool(), r.a.NewPool()
	a, b := r.allocIn(p, mib, 0), r.allocIn(p, mib, 0)
	require.Equal(t, r.place(a).segment, r.place(b).segment)
	others := []Block{r.allocIn(q, mib, 0), r.alloc(mib, 0)}
	require.Equal(t, 1, r.place(others[0]).segment)
	require.Equal(t, 2, r.place(others[1]).segment)
	r.free(a, b)
	r.calls = nil
	r.allocIn(q, mib, 0)
	r.alloc(mib, 0)
	c := r.allocIn(p, 2*mib, 0)
	require.Equal(t, []string{"M 3 20971520"}, r.takeLog(), "nobody took the free 2 MiB of p, which are small")
	require.NoError(t, p.Free(c))
	require.Equal(t, r.place(a), r.place(r.allocIn(p, mib, 0)))
}

func TestPool_UsesAreCounted(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool()
	require.Equal(t, 1, p.Uses())
	require.NoError(t, p.Retain())
	require.Equal(t, 2, p.Uses())
	require.NoError(t, p.Release())
	r.allocIn(p, 512, 0)
	require.NoError(t, p.Release())
	_, err := p.Alloc(512, r.stream(0))
	require.ErrorIs(t, err, ErrPoolReleased)
	require.ErrorIs(t, p.Release(), ErrPoolReleased)
	require.ErrorIs(t, p.Retain(), ErrPoolReleased)
	require.ErrorIs(t, p.Close(), ErrPoolReleased)
	require.ErrorIs(t, r.a.BeginRoute(p, nil), ErrPoolReleased)
	zero, err := p.Alloc(0, r.stream(0))
	require.NoError(t, err)
	require.True(t, zero.IsZero())
}

// test_mempool_no_split.
func TestPool_NoSplitHandsOutWholeSegments(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool(PoolNoSplit())
	a, b := r.allocIn(p, 512, 0), r.allocIn(p, 3*mib, 0)
	require.EqualValues(t, 2*mib, a.Size())
	require.EqualValues(t, 20*mib, b.Size())
	require.EqualValues(t, 512, r.alloc(512, 0).Size(), "others are not affected")
}

// recordingSource is a device's memory that counts what is asked of it.
type recordingSource struct {
	*sim.Device
	calls []string
}

func (s *recordingSource) Malloc(n uint64) (device.Ptr, error) {
	s.calls = append(s.calls, "malloc")
	return s.Device.Malloc(n)
}

func (s *recordingSource) Free(p device.Ptr) error {
	s.calls = append(s.calls, "free")
	return s.Device.Free(p)
}

// test_mempool_with_allocator.
func TestPool_SourceIsUsedInsteadOfTheDriver(t *testing.T) {
	r := newRig(t, gib, expandable)
	s := &recordingSource{Device: r.dev}
	p := r.a.NewPool(PoolSource(s))
	b := r.allocIn(p, 40*mib, 0)
	require.Equal(t, []string{"malloc"}, s.calls, "and no expandable segment")
	r.alloc(40*mib, 0)
	require.Len(t, s.calls, 1)
	r.free(b)
	require.NoError(t, p.Close())
	require.Equal(t, []string{"malloc", "free"}, s.calls)
	left := r.a.NewPool(PoolSource(s))
	r.allocIn(left, 30*mib, 0)
	require.ErrorIs(t, r.a.Close(), ErrLeak)
	require.Equal(t, []string{"malloc", "free", "malloc", "free"}, s.calls, "closing gives it back to where it came from")
}

func TestPool_SnapshotHasItsSegmentsOnly(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool()
	r.alloc(512, 0)
	b := r.allocIn(p, 3*mib, 1)
	s := p.Snapshot()
	require.Len(t, s.Segments, 1)
	require.Equal(t, b.Ptr(), s.Segments[0].Address)
	require.Equal(t, [2]uint64{0, 1}, s.Segments[0].PoolID)
	require.Len(t, r.a.Snapshot().Segments, 2)
}

// test_reserved_bytes_by_private_pools.
func TestPool_StatisticsByPool(t *testing.T) {
	r := newRig(t, gib, "")
	p, q := r.a.NewPool(), r.a.NewPool()
	r.allocIn(p, 512, 0)
	b := r.allocIn(q, 40*mib, 0)
	s := r.a.Stats()
	require.EqualValues(t, 2*mib, s.ReservedBytesByPrivatePools[p.ID()].SmallPool.Current)
	require.EqualValues(t, 40*mib, s.ReservedBytesByPrivatePools[q.ID()].LargePool.Current)
	require.EqualValues(t, 42*mib, s.ReservedBytes.All.Current)
	require.Equal(t, s.ReservedBytesByPrivatePools, p.Stats().ReservedBytesByPrivatePools)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"reserved_bytes_by_private_pools":{"0_1":{"all":{"current":2097152`)

	r.free(b)
	require.NoError(t, q.Close())
	r.empty() // the pool is gone
	r.a.ResetPeakStats()
	r.a.ResetAccumulatedStats()
	s = r.a.Stats()
	require.Equal(t, Stat{}, s.ReservedBytesByPrivatePools[q.ID()].All, "resets reach the pools")
	require.Equal(t, Stat{Current: 2 * mib, Peak: 2 * mib}, s.ReservedBytesByPrivatePools[p.ID()].All)
}

func TestPool_FreesThroughEitherSide(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool()
	a, b, c := r.allocIn(p, 512, 0), r.allocIn(p, 512, 0), r.alloc(512, 0)
	require.NoError(t, p.RecordStream(a, r.stream(1)))
	require.NoError(t, p.Free(a))
	p.FreeLater(b)
	require.NoError(t, p.Free(c))
	require.ErrorIs(t, p.Free(c), ErrDoubleFree)
	r.complete(1)
	r.allocIn(p, 512, 0)
	require.EqualValues(t, 1, r.a.Stats().Active.All.Current)
}

func TestPool_GrowsARangeOfItsOwn(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	p := r.a.NewPool()
	a, b := r.allocIn(p, 30*mib, 0), r.alloc(30*mib, 0)
	require.Equal(t, 0, r.place(a).segment)
	require.Equal(t, 1, r.place(b).segment)
	r.free(a)
	require.NoError(t, p.Close())
	require.EqualValues(t, 40*mib, r.reserved())
	r.empty()
	require.Equal(t, 1, r.dev.Live().Ranges)
}

func TestClose_TakesPrivatePoolsToo(t *testing.T) {
	r := newRig(t, gib, "")
	p := r.a.NewPool()
	r.free(r.allocIn(p, 40*mib, 0), r.allocIn(r.a.NewPool(), 512, 1))
	require.NoError(t, r.a.Close())
	r.requireAllBack()
	_, err := p.Alloc(512, r.stream(0))
	require.ErrorIs(t, err, device.ErrClosed)
}

// Alloc has looked at the pool before another goroutine releases it: what then needs the driver is refused, because nobody would
// give the segment back.
func TestPool_ReleasedMeanwhileTakesNoSegment(t *testing.T) {
	dev := sim.New(device.GiB)
	a, err := New(dev, Config{})
	require.NoError(t, err)
	p := a.NewPool()
	b, err := p.Alloc(1000, dev.DefaultStream())
	require.NoError(t, err)
	sh := b.b.shard
	require.NoError(t, p.Free(b))
	require.NoError(t, p.Release())
	require.NoError(t, a.EmptyCache())

	_, err = a.allocIn(sh, 1000)
	require.ErrorIs(t, err, ErrPoolReleased)
	require.Zero(t, a.Stats().ReservedBytes.All.Current)
	require.NoError(t, a.check())
	require.NoError(t, a.Close())
	require.Zero(t, dev.Live().Allocations)
}

// A program that captures graph after graph makes a pool for each. The last ones are in the statistics when they are gone.
func TestPool_StatisticsRememberTheLastThatAreGone(t *testing.T) {
	r := newRig(t, gib, "")
	var last PoolID
	for range 3 * 64 {
		p := r.a.NewPool()
		b, err := p.Alloc(512, r.stream(0))
		require.NoError(t, err)
		require.NoError(t, p.Free(b))
		require.NoError(t, p.Close())
		last = p.ID()
	}
	require.Empty(t, r.a.pools, "closing ends them")
	s := r.a.Stats().ReservedBytesByPrivatePools
	require.Equal(t, 64, len(s))
	for n := range uint64(64) {
		require.EqualValues(t, 2*mib, s[PoolID{0, last[1] - n}].All.Peak)
	}
}
