package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// told collects what OnRelease says.
func (r *rig) told() *[]Release {
	var list []Release
	r.a.OnRelease(func(e Release) { list = append(list, e) })
	return &list
}

func TestOnRelease_TellsOfARetryAndWhetherItHelped(t *testing.T) {
	r := newRig(t, 100*mib, "")
	told := r.told()
	r.free(r.alloc(60*mib, 1))
	b := r.alloc(80*mib, 2)
	id := r.a.Device()
	require.Equal(t, []Release{{Device: id, Cause: ReleaseRetry, Bytes: 60 * mib, Calls: 1, Requested: 80 * mib, Stream: r.stream(2).ID(), Served: true}}, *told)

	*told = nil
	_, err := r.a.Alloc(90*mib, r.stream(1))
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.Equal(t, []Release{{Device: id, Cause: ReleaseRetry, Requested: 90 * mib, Stream: r.stream(1).ID()}}, *told)
	require.EqualValues(t, 2, r.a.Stats().NumAllocRetries)
	r.free(b)
}

func TestOnRelease_TellsOfEmptyCacheUnlessNothingWent(t *testing.T) {
	r := newRig(t, gib, "")
	told := r.told()
	require.NoError(t, r.a.EmptyCache())
	require.Empty(t, *told)
	r.free(r.alloc(3*mib, 0))
	p := r.a.NewPool()
	r.free(r.allocIn(p, 30*mib, 0))
	require.NoError(t, r.a.EmptyCache())
	require.NoError(t, p.EmptyCache())
	require.Equal(t, []Release{
		{Device: r.a.Device(), Cause: ReleaseAsked, Bytes: 20 * mib, Calls: 1},
		{Device: r.a.Device(), Cause: ReleaseAsked, Bytes: 30 * mib, Calls: 1},
	}, *told)
}

func TestOnRelease_TellsOfGarbageAndOversizeBlocks(t *testing.T) {
	r := newRig(t, gib, "garbage_collection_threshold:0.5")
	r.a.SetMemoryLimit(100 * mib)
	told := r.told()
	r.free(r.alloc(60*mib, 0))
	r.alloc(70*mib, 0)
	require.Len(t, *told, 1)
	require.Equal(t, ReleaseGarbage, (*told)[0].Cause)
	require.EqualValues(t, 60*mib, (*told)[0].Bytes)

	r = newRig(t, 90*mib, "max_split_size_mb:40")
	told = r.told()
	r.free(r.alloc(60*mib, 0))
	r.alloc(40*mib, 0) // too small for the block that is cached
	require.Len(t, *told, 1)
	require.Equal(t, ReleaseOversize, (*told)[0].Cause)
	require.True(t, (*told)[0].Served)
}

// The observer's block would be nobody's.
func TestOnRelease_APanicTakesNothing(t *testing.T) {
	r := newRig(t, 100*mib, "")
	r.free(r.alloc(60*mib, 1))
	r.a.OnRelease(func(Release) { panic("full disk") })
	require.PanicsWithValue(t, "full disk", func() { _, _ = r.a.Alloc(80*mib, r.stream(1)) })
	require.Zero(t, r.a.Stats().AllocatedBytes.All.Current)
	r.check()
}

func TestOnRelease_OfNoAllocatorDoesNothing(t *testing.T) {
	(*Caching)(nil).OnRelease(func(Release) {})
	new(Caching).OnRelease(func(Release) {})
	require.Equal(t, device.ID{}, (*Caching)(nil).Device())
}
