package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

const expandable = "expandable_segments:True"

func TestExpandable_RangeGrowsPageByPage(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	a := r.alloc(5*mib, 0)
	require.Equal(t, []string{"R 0 251658240", "P 0 0 20971520"}, r.takeLog(), "9/8 of the device; one page of 20 MiB")
	b := r.alloc(30*mib, 0)
	require.Equal(t, []string{"P 0 20971520 20971520"}, r.takeLog(), "the free end of the page before counts")
	require.Equal(t, place{0, 5 * mib}, r.place(b))
	r.requirePicture(
		"segment 0  240 MiB  large pool  stream 0",
		"| 5 MiB allocated | 30 MiB allocated | 5 MiB cached | 200 MiB unmapped |")
	s := r.a.Stats()
	require.EqualValues(t, 40*mib, s.ReservedBytes.All.Current)
	require.Zero(t, s.Segment.All.Allocated, "ranges are not counted as segments")
	require.Zero(t, s.InactiveSplit.All.Allocated, "nor their pieces as splits")
	require.EqualValues(t, 2, s.NumDeviceAlloc)
	r.free(a, b)
	require.EqualValues(t, 40*mib, r.reserved(), "a free unmaps nothing")
}

func TestExpandable_PoolsAndStreamsHaveRangesOfTheirOwn(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	r.alloc(512, 0)
	require.Equal(t, []string{"R 0 236978176", "P 0 0 2097152"}, r.takeLog(), "small ones have pages of 2 MiB")
	r.alloc(2*mib, 0)
	r.alloc(512, 1)
	r.requirePicture(
		"segment 0  226 MiB  small pool  stream 0",
		"| 512 B allocated | 2047.5 KiB cached | 224 MiB unmapped |",
		"segment 1  240 MiB  large pool  stream 0",
		"| 2 MiB allocated | 18 MiB cached | 220 MiB unmapped |",
		"segment 2  226 MiB  small pool  stream 1",
		"| 512 B allocated | 2047.5 KiB cached | 224 MiB unmapped |")
}

// What plain segments cannot do: freed neighbours merge and serve a larger request, whatever their sizes were.
func TestExpandable_FreedNeighboursServeLargerRequests(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	a, b, c := r.alloc(40*mib, 0), r.alloc(60*mib, 0), r.alloc(20*mib, 0)
	r.free(a, b)
	r.calls = nil
	require.Equal(t, place{0, 0}, r.place(r.alloc(95*mib, 0)))
	require.Empty(t, r.takeLog())
	r.free(c)
}

// A free block that touches the growing end is used last: best fit counts the unmapped range behind it.
func TestExpandable_TheGrowingEndIsUsedLast(t *testing.T) {
	r := newRig(t, 400*mib, expandable)
	a, b := r.alloc(24*mib, 0), r.alloc(6*mib, 0) // 10 MiB cached at the end
	r.free(a)
	r.requirePicture(
		"segment 0  460 MiB  large pool  stream 0",
		"| 24 MiB cached | 6 MiB allocated | 10 MiB cached | 420 MiB unmapped |")
	c := r.alloc(8*mib, 0)
	require.Equal(t, place{0, 0}, r.place(c), "24 MiB is the smaller one: 10 MiB could grow by 420")
	r.free(b, c)
}

// The rule moves on only to a strictly smaller one.
func TestExpandable_OfEqualSizesTheFirstIsUsed(t *testing.T) {
	r := newRig(t, 400*mib, expandable)
	blocks := []Block{r.alloc(8*mib, 0), r.alloc(2*mib, 0), r.alloc(8*mib, 0), r.alloc(2*mib, 0)}
	r.free(blocks[2], blocks[0])
	require.Equal(t, r.place(blocks[0]), r.place(r.alloc(8*mib, 0)))
}

func TestExpandable_TrimKeepsPartialPages(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	a := r.alloc(30*mib, 0) // pages 0 and 1
	b := r.alloc(50*mib, 0) // to 80 MiB, pages 1 to 3
	c := r.alloc(25*mib, 0) // to 105 MiB, pages 4 and 5, of which 15 MiB stay cached
	r.free(b)
	r.takeLog()
	r.empty()
	require.Equal(t, []string{"U 0 41943040 20971520", "U 0 62914560 20971520"}, r.takeLog(),
		"pages 2 and 3 are wholly free; page 1 is shared with a, page 5 with c")
	r.requirePicture(
		"segment 0  240 MiB  large pool  stream 0",
		"| 30 MiB allocated | 10 MiB cached | 40 MiB unmapped | 25 MiB allocated | 15 MiB cached | 120 MiB unmapped |")
	require.EqualValues(t, 80*mib, r.reserved())
	require.EqualValues(t, 1, r.a.Stats().NumDeviceFree, "one unmapping, of two pages")

	// The hole is filled again: 10 MiB are still there, and the addresses are the old ones.
	d := r.alloc(45*mib, 0)
	require.Equal(t, place{0, 30 * mib}, r.place(d))
	require.Equal(t, []string{"P 0 41943040 20971520", "P 0 62914560 20971520"}, r.takeLog())
	r.free(a, c, d)
	r.empty()
	require.Equal(t, []string{"U 0 0 20971520", "U 0 20971520 20971520", "U 0 41943040 20971520", "U 0 62914560 20971520",
		"U 0 83886080 20971520", "U 0 104857600 20971520", "r 0 251658240"}, r.takeLog(), "an empty range is given back")
	r.requirePicture()
}

func TestExpandable_TrimWaitsForTheWorkOnItsStream(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	b := r.alloc(20*mib, 1)
	require.NoError(t, r.stream(1).Fill(b.Ptr(), 0, b.Size()))
	r.free(b)
	r.calls = nil
	r.empty()
	require.Equal(t, 1, r.takeCalls(sim.CallStreamSync))
	done, err := r.stream(1).Done()
	require.NoError(t, err)
	require.True(t, done)
	r.alloc(10*mib, 1)
	r.calls = nil
	r.empty()
	require.Zero(t, r.takeCalls(sim.CallStreamSync), "there is no whole page to unmap, and nothing to wait for")
}

// brokenRange is a range of four pages: unmapped, cached, unmapped, held.
func brokenRange(r *rig) {
	blocks := []Block{r.alloc(20*mib, 0), r.alloc(20*mib, 0), r.alloc(20*mib, 0), r.alloc(20*mib, 0)}
	r.free(blocks[0], blocks[2])
	r.empty()
	r.free(blocks[1])
	r.requirePicture(
		"segment 0  120 MiB  large pool  stream 0",
		"| 20 MiB unmapped | 20 MiB cached | 20 MiB unmapped | 20 MiB allocated | 40 MiB unmapped |")
	r.takeLog()
}

// When mapping ends midway, what was mapped before stays cached.
func TestExpandable_ErrorMidwayKeepsWhatWasMapped(t *testing.T) {
	r := newRig(t, 100*mib, expandable)
	brokenRange(r)
	r.dev.FailNext(sim.CallPageCreate, 2, errInjected)
	_, err := r.tryAlloc(55*mib, 0)
	require.ErrorIs(t, err, errInjected)
	r.requirePicture(
		"segment 0  120 MiB  large pool  stream 0",
		"| 40 MiB cached | 20 MiB unmapped | 20 MiB allocated | 40 MiB unmapped |")
	r.takeLog()
	require.Equal(t, place{0, 0}, r.place(r.alloc(55*mib, 0)))
	require.Equal(t, []string{"P 0 41943040 20971520"}, r.takeLog())
}

// Likewise when the device is full; the ladder then gives those pages back too, and tries once more.
func TestExpandable_OutOfMemoryMidway(t *testing.T) {
	r := newRig(t, 100*mib, expandable)
	brokenRange(r)
	r.dev.Occupy(40 * mib)
	_, err := r.tryAlloc(55*mib, 0)
	requireOOM(t, err, ErrDeviceFull)
	require.Equal(t, []string{"P 0 0 20971520", "x 20971520", "U 0 0 20971520", "U 0 20971520 20971520", "x 20971520"}, r.takeLog())
	r.requirePicture(
		"segment 0  120 MiB  large pool  stream 0",
		"| 60 MiB unmapped | 20 MiB allocated | 40 MiB unmapped |")
	r.dev.Occupy(0)
	require.Equal(t, place{0, 0}, r.place(r.alloc(55*mib, 0)))
}

func TestExpandable_ARequestBeyondTheRangeIsOutOfMemory(t *testing.T) {
	r := newRig(t, 80*mib, expandable+",expandable_segments_reserve:0.5")
	r.alloc(40*mib, 0)
	_, err := r.tryAlloc(60*mib, 1)
	requireOOM(t, err, ErrDeviceFull)
	log := r.takeLog()
	require.Equal(t, []string{"R 0 41943040", "P 0 0 20971520", "P 0 20971520 20971520"}, log, "no range is reserved in vain")
}

func TestExpandable_ReserveIsAFractionOrANumberOfBytes(t *testing.T) {
	for setting, want := range map[string]string{
		"0.5": "R 0 536870912", "0.25G": "R 0 268435456", "0.7": "R 0 752877568", "4": "R 0 1207959552", "10G": "R 0 1207959552",
	} {
		r := newRig(t, gib, expandable+",expandable_segments_reserve:"+setting)
		r.alloc(512, 0)
		require.Equal(t, []string{want, "P 0 0 2097152"}, r.takeLog(), "%s, at most 9/8 of the device", setting)
	}
}

func TestExpandable_NoAddressesLeftIsOutOfMemory(t *testing.T) {
	r := newRig(t, 80*mib, expandable)
	r.dev.Inject(func(c sim.Call) error {
		if c.Kind == sim.CallReserve {
			return device.ErrOutOfMemory
		}
		return nil
	})
	_, err := r.tryAlloc(20*mib, 0)
	requireOOM(t, err, ErrDeviceFull)
	r.dev.Inject(nil)
	r.alloc(20*mib, 0)
}

// A page that the driver does not take back stays cached with those after it; the ones before it are gone.
func TestExpandable_UnmapThatFailsMidwayIsBooked(t *testing.T) {
	r := newRig(t, 100*mib, expandable)
	b := r.alloc(80*mib, 0)
	r.free(b)
	r.dev.FailNext(sim.CallPageUnmap, 3, errInjected)
	require.ErrorIs(t, r.a.EmptyCache(), errInjected)
	r.check()
	r.requirePicture(
		"segment 0  120 MiB  large pool  stream 0",
		"| 40 MiB unmapped | 40 MiB cached | 40 MiB unmapped |")
	require.EqualValues(t, 40*mib, r.reserved())
	b = r.alloc(40*mib, 0)
	require.NoError(t, r.stream(0).Fill(b.Ptr(), 0, b.Size()), "there is memory behind all of it")
	b = r.alloc(40*mib, 0)
	require.NoError(t, r.stream(0).Fill(b.Ptr(), 0, b.Size()))
}

func TestExpandable_RangeThatCannotBeGivenBackIsUsedAgain(t *testing.T) {
	r := newRig(t, 100*mib, expandable)
	r.free(r.alloc(80*mib, 0))
	r.dev.FailNext(sim.CallUnreserve, 1, errInjected)
	require.ErrorIs(t, r.a.EmptyCache(), errInjected)
	r.check()
	require.Zero(t, r.reserved())
	require.Equal(t, place{0, 0}, r.place(r.alloc(40*mib, 0)))
}

// What trim is given was found free a while ago: it looks again, and leaves alone what is in use, gone, or no expandable segment's.
func TestTrim_LeavesWhatIsNoFreePageAlone(t *testing.T) {
	r := newRig(t, 200*mib, expandable)
	taken := r.alloc(40*mib, 0)
	r.conf("")
	plain := r.alloc(15*mib, 1)
	free := plain.b
	r.free(plain)
	before := r.a.picture()
	r.takeLog()
	for _, b := range []*block{taken.b, free, {shard: taken.b.shard, guarded: guarded{state: stateCached}}} {
		func() {
			r.a.mu.Lock()
			defer r.a.mu.Unlock()
			_, err := r.a.trim(b, unlimited)
			require.NoError(t, err)
		}()
		require.Empty(t, r.takeLog())
		require.Equal(t, before, r.a.picture())
	}
	r.free(taken)
}
