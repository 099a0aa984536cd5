//go:build linux && amd64

package fakecuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Attributes of pools.
const (
	releaseThreshold = 4
	reservedCurrent  = 5
	reservedHigh     = 6
	usedCurrent      = 7
	usedHigh         = 8
)

func (c *cu) pool() (pool uintptr, get func(attribute int32) uint64) {
	c.t.Helper()
	c.ok(c.DefaultPool(&pool, 0))
	return pool, func(attribute int32) (v uint64) {
		c.t.Helper()
		c.ok(c.PoolGet(pool, attribute, &v))
		return v
	}
}

func (c *cu) allocAsync(n uint64, s uintptr) (p uint64) {
	c.t.Helper()
	c.ok(c.AllocAsync(&p, n, s))
	return p
}

func TestPool_KeepsWhatWasFreedUntilTheThreshold(t *testing.T) {
	c := start(t)
	s := c.stream()
	pool, get := c.pool()
	p := c.allocAsync(3*mib, s)
	c.ok(c.Set8(p, 7, 3*mib, s))
	require.Equal(t, []uint64{3 * mib, 4 * mib}, []uint64{get(usedCurrent), get(reservedCurrent)})
	c.ok(c.FreeAsync(p, s))
	require.Equal(t, []uint64{0, 4 * mib}, []uint64{get(usedCurrent), get(reservedCurrent)})
	c.ok(c.StreamSynchronize(s)) // the threshold is 0: all goes back
	require.Zero(t, get(reservedCurrent))

	keep := uint64(2 * mib)
	c.ok(c.PoolSet(pool, releaseThreshold, &keep))
	c.ok(c.FreeAsync(c.allocAsync(6*mib, s), s))
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, keep, get(reservedCurrent))
	require.Equal(t, []uint64{6 * mib, 6 * mib}, []uint64{get(usedHigh), get(reservedHigh)})
	zero := uint64(0)
	c.ok(c.PoolSet(pool, usedHigh, &zero))
	require.Zero(t, get(usedHigh))
	c.is(invalidValue, c.PoolSet(pool, usedHigh, &keep))
	c.ok(c.PoolTrim(pool, 0))
	require.Zero(t, get(reservedCurrent))
	c.ok(c.PrimaryRelease(0))
}

func TestPool_ReusesBytesOnTheSameStreamAndGrowsForOthers(t *testing.T) {
	c := start(t)
	a, b := c.stream(), c.stream()
	_, get := c.pool()
	c.lib.Hold()
	c.ok(c.FreeAsync(c.allocAsync(2*mib, a), a))
	p := c.allocAsync(2*mib, a)
	require.Equal(t, uint64(2*mib), get(reservedCurrent))
	c.ok(c.FreeAsync(p, a))
	c.allocAsync(2*mib, b) // a has not come to the free
	require.Equal(t, uint64(4*mib), get(reservedCurrent))
	c.lib.Release()
}

func TestPool_IsOutOfMemoryAtTheCapacity(t *testing.T) {
	c := load(t)
	c.lib.Capacity(0, 8*mib)
	c.ok(c.Init(0))
	c.enter(0)
	s := c.stream()
	p := c.allocAsync(6*mib, s)
	var q uint64
	c.is(outOfMemory, c.AllocAsync(&q, 4*mib, s))
	c.is(outOfMemory, c.MemAlloc(&q, 4*mib))
	c.ok(c.FreeAsync(p, s))
	c.ok(c.EventSynchronize(c.event()))
	for c.StreamQuery(s) == notReady {
	}
	c.ok(c.MemAlloc(&q, 8*mib)) // takes what is idle in the pool
}

func TestPool_MemoryIsForStreamOrderOnly(t *testing.T) {
	c := start(t)
	s, other := c.stream(), c.stream()
	p := c.allocAsync(1000, s)
	c.ok(c.Set8(p, 1, 1000, s))
	c.ok(c.FreeAsync(p, s))
	c.is(invalidValue, c.Set8(p, 1, 1000, s))
	c.found("freed by cuMemFreeAsync, call 1")
	c.is(invalidValue, c.FreeAsync(p, s))
	c.found("freed twice")
	c.ok(c.StreamSynchronize(s))

	c.lib.HoldStream(s)
	p = c.allocAsync(1000, s)
	c.ok(c.Set8(p, 1, 1000, other)) // s has not come to the allocation
	c.is(illegalAddress, c.StreamSynchronize(other))
	c.lib.ReleaseStream(s)
}

func TestPool_MemoryCanBeFreedWithoutAStream(t *testing.T) {
	c := start(t)
	s := c.stream()
	p := c.allocAsync(1000, s)
	c.ok(c.MemFree(p))
	c.is(invalidValue, c.MemFree(p))
	q := c.alloc(1000)
	c.is(invalidValue, c.FreeAsync(q, s))
	c.found("not the start of pool memory")
}

func TestPool_LeaksAreListed(t *testing.T) {
	c := start(t)
	s := c.stream()
	c.allocAsync(1000, s)
	require.Contains(t, c.lib.Leaks()[1], "1000 bytes of pool memory")
	c.ok(c.StreamDestroy(s))
	c.ok(c.PrimaryRelease(0))
	require.Len(t, c.lib.Leaks(), 1)
	require.Contains(t, c.lib.Leaks()[0], "alive when its context was destroyed")
}
