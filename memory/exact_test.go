package memory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

func exactRig(t *testing.T, c Config) (*Caching, device.Stream) {
	dev := sim.New(device.GiB)
	a, err := New(dev, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.check()) })
	return a, dev.DefaultStream()
}

// cachedAt makes a cached segment and returns where it begins.
func cachedAt(t *testing.T, a *Caching, s device.Stream, bytes uint64) device.Ptr {
	b, err := a.Alloc(bytes, s)
	require.NoError(t, err)
	require.NoError(t, a.Free(b))
	return b.Ptr()
}

func TestAllocAt_CutsTheBlockOutOfAFreeOne(t *testing.T) {
	for name, c := range map[string]Config{"plain": {}, "expandable": {ExpandableSegments: true}} {
		t.Run(name, func(t *testing.T) {
			a, s := exactRig(t, c)
			at := cachedAt(t, a, s, 64*mib)
			b, err := a.AllocAt(16*mib, s, at.Add(8*mib))
			require.NoError(t, err)
			require.Equal(t, at.Add(8*mib), b.Ptr())
			require.Equal(t, uint64(16*mib), b.Size())
			require.NoError(t, a.check())

			before, err := a.Alloc(8*mib, s) // the prefix is free, and the best fit for its size
			require.NoError(t, err)
			require.Equal(t, at, before.Ptr())
			after, err := a.AllocAt(40*mib, s, at.Add(24*mib))
			require.NoError(t, err)
			require.Equal(t, at.Add(24*mib), after.Ptr())
			for _, x := range []Block{b, before, after} {
				require.NoError(t, a.Free(x))
			}
			require.Equal(t, int64(0), a.Stats().AllocatedBytes.All.Current)
			require.Equal(t, int64(0), a.Stats().InactiveSplit.All.Current, "all merged again")
		})
	}
}

func TestAllocAt_PutsABlockBackWhereItWas(t *testing.T) {
	a, s := exactRig(t, Config{})
	b, err := a.Alloc(1000, s)
	require.NoError(t, err)
	next, err := a.Alloc(1000, s)
	require.NoError(t, err)
	require.NoError(t, a.Free(b))
	again, err := a.AllocAt(1000, s, b.Ptr())
	require.NoError(t, err)
	require.Equal(t, b.Ptr(), again.Ptr())
	require.ErrorIs(t, a.Free(b), ErrDoubleFree, "the old handle stays stale")
	require.NoError(t, a.Free(again))
	require.NoError(t, a.Free(next))
}

// A remainder of no more than 1 MiB stays with the block, in the large pool; a prefix of any size is cut off.
func TestAllocAt_CutsAPrefixThatThePoolWouldNotSplit(t *testing.T) {
	a, s := exactRig(t, Config{})
	at := cachedAt(t, a, s, 12*mib)
	b, err := a.AllocAt(11*mib, s, at.Add(512*kib))
	require.NoError(t, err)
	require.Equal(t, at.Add(512*kib), b.Ptr())
	require.Equal(t, uint64(11*mib+512*kib), b.Size())
	require.Equal(t, int64(1), a.Stats().InactiveSplit.All.Current)
	require.NoError(t, a.Free(b))
}

func TestAllocAt_RefusesWhatIsNotFreeThere(t *testing.T) {
	a, s := exactRig(t, Config{})
	at := cachedAt(t, a, s, 64*mib)
	held, err := a.AllocAt(8*mib, s, at.Add(16*mib))
	require.NoError(t, err)
	stats := a.Stats()
	for name, c := range map[string]struct {
		bytes uint64
		at    device.Ptr
		want  string
	}{
		"occupied":          {8 * mib, at.Add(16 * mib), "exact address"},
		"partly occupied":   {8 * mib, at.Add(12 * mib), "exact address"},
		"behind the end":    {8 * mib, at.Add(60 * mib), "exact address"},
		"outside":           {8 * mib, at.Add(640 * mib), "exact address"},
		"misaligned":        {8 * mib, at.Add(100), "aligned to 512"},
		"of the other pool": {1000, at, "small pool"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.AllocAt(c.bytes, s, c.at)
			require.ErrorIs(t, err, ErrAddress)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, stats, a.Stats(), "nothing has changed")
		})
	}
	none, err := a.AllocAt(0, s, at.Add(100))
	require.NoError(t, err, "no bytes have no address")
	require.True(t, none.IsZero())
	require.NoError(t, a.Free(held))
}

func TestAllocAt_KeepsToItsStream(t *testing.T) {
	dev := sim.New(device.GiB)
	a, err := New(dev, Config{})
	require.NoError(t, err)
	at := cachedAt(t, a, dev.Stream(1), 64*mib)
	_, err = a.AllocAt(16*mib, dev.Stream(2), at)
	require.ErrorIs(t, err, ErrAddress)
	require.NoError(t, a.check())
}

func TestAllocAt_IsInTheHistory(t *testing.T) {
	a, s := exactRig(t, Config{})
	at := cachedAt(t, a, s, 64*mib)
	require.NoError(t, a.RecordHistory(HistoryOptions{}))
	b, err := a.AllocAt(16*mib, s, at.Add(8*mib))
	require.NoError(t, err)
	var actions []string
	for _, trace := range a.Snapshot().DeviceTraces { // by device: the others are empty
		for _, e := range trace {
			actions = append(actions, string(e.Action)+" "+e.InternalMetadata)
		}
	}
	const tag = " mallocWithAddress"
	require.Equal(t, []string{"alloc" + tag, "alloc" + tag, "free_requested" + tag, "free_completed" + tag}, actions, "the prefix comes and goes")
	require.NoError(t, a.Free(b))
	text, err := a.Snapshot().MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(text), `"internal_metadata":"mallocWithAddress"`), "the free after that has none")
}

// A block that is freed before anybody looks is in the peaks.
func TestAllocAt_MovesThePeaks(t *testing.T) {
	r := newRig(t, gib, "")
	b := r.alloc(3*mib, 0)
	other := r.alloc(3*mib, 1)
	at := b.Ptr()
	r.free(b)
	r.a.ResetPeakStats()
	h, err := r.a.AllocAt(3*mib, r.stream(0), at)
	require.NoError(t, err)
	require.NoError(t, r.a.Free(h))
	require.EqualValues(t, 6*mib, r.a.Stats().AllocatedBytes.All.Peak)
	require.EqualValues(t, 2, r.a.Stats().Active.All.Peak)
	r.free(other)
}
