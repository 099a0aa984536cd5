package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// policyOf is the policy of settings in text form.
func policyOf(t testing.TB, conf string) *policy {
	t.Helper()
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	return newPolicy(c)
}

// The rows are the worked examples of PyTorch's rule: each names the step of it that decides.
func TestBlockSize_FollowsThePublishedExamples(t *testing.T) {
	for _, c := range []struct {
		divisions     string
		request, want uint64
		why           string
	}{
		{"", 1, 512, "minimum"},
		{"", 511, 512, "minimum"},
		{"", 512, 512, "multiple of 512"},
		{"", 513, 1024, "multiple of 512"},
		{"", 1000, 1024, "multiple of 512"},
		{"", mib + 1, mib + 512, "multiple of 512, large pool"},
		{"4", 1200, 1536, "512*4 = 2048 is not below 1200: only multiples of 512"},
		{"4", 2048, 2048, "at the bound: multiples of 512"},
		{"4", 2049, 2560, "first size above the bound: p = 2048, step 512"},
		{"4", 5000, 5120, "p = 4096, step 1024"},
		{"4", 600 * kib, 640 * kib, "p = 512 KiB, step 128 KiB"},
		{"8", 9*mib + 1, 10 * mib, "p = 8 MiB, step 1 MiB"},
		{"4", 8 * mib, 8 * mib, "a power of two stays"},
		{"2", 514 * mib, 768 * mib, "p = 512 MiB, step 256 MiB"},
		{"1", 514 * mib, 514 * mib, "1 is off"},
		{"1", 514*mib + 1, 514*mib + 512, "1 is off: multiples of 512"},
		{"16", 8000, 8192, "512*16 = 8192 is not below 8000: multiples of 512"},
		{"2", 5000, 6144, "p = 4096, step 2048"},
		{"2", 7000, 8192, "the next octave begins at 2p"},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.divisions, c.request), func(t *testing.T) {
			conf := ""
			if c.divisions != "" {
				conf = keyRoundup + ":" + c.divisions
			}
			require.Equal(t, c.want, policyOf(t, conf).blockSize(c.request), c.why)
		})
	}
}

// The list form: what PyTorch's configuration test asserts, and the sizes that follow from it.
func TestRoundupDivisions_ListSetsIntervals(t *testing.T) {
	for _, c := range []struct {
		list string
		want map[uint64]uint // megabytes to divisions
	}{
		{"[64:8,128:2,256:4,512:2,1024:4,>:1]", map[uint64]uint{
			1: 8, 32: 8, 64: 8, 127: 8, 128: 2, 255: 2, 256: 4, 512: 2, 1024: 4, 2048: 1, 4096: 1, 8192: 1, 65536: 1,
		}},
		{"[128:8,256:16,512:1,2048:8,>:2]", map[uint64]uint{
			64: 8, 128: 8, 256: 16, 512: 1, 1024: 0, 1500: 0, 2048: 8, 4096: 2,
		}},
		{"[256:1,512:2,1024:4,>:8]", map[uint64]uint{1: 1, 255: 1, 511: 1, 512: 2, 1024: 4, 2047: 4, 2048: 8, 32768: 8}},
		{"[>:8]", map[uint64]uint{1: 0, 2: 8, 4: 8, 32768: 8}},
		{"[65536:4]", map[uint64]uint{1: 4, 1024: 4, 32768: 4, 131072: 4}}, // beyond the last interval: the last
	} {
		t.Run(c.list, func(t *testing.T) {
			p := policyOf(t, keyRoundup+":"+c.list)
			for mb, want := range c.want {
				require.Equal(t, want, p.divisions[interval(mb*mib)], "%d MiB", mb)
			}
		})
	}
}

func TestBlockSize_SizesBelowOneMiBFollowTheFirstInterval(t *testing.T) {
	require.EqualValues(t, 640*kib, policyOf(t, keyRoundup+":[64:4]").blockSize(600*kib))
	require.EqualValues(t, 600*kib, policyOf(t, keyRoundup+":[>:4]").blockSize(600*kib))
}

func TestSegmentSize_HasThreeClasses(t *testing.T) {
	p := policyOf(t, "")
	for _, c := range []struct{ block, want uint64 }{
		{512, 2 * mib}, {mib, 2 * mib},
		{mib + 512, 20 * mib}, {10*mib - 512, 20 * mib},
		{10 * mib, 10 * mib}, {10*mib + 512, 12 * mib}, {12 * mib, 12 * mib}, {30 * mib, 30 * mib}, {31 * mib, 32 * mib},
	} {
		require.Equal(t, c.want, p.segmentSize(c.block), "block of %d bytes", c.block)
	}
	require.EqualValues(t, 64*mib, policyOf(t, keyLargeSegment+":64").segmentSize(2*mib))
	require.EqualValues(t, 12*mib, policyOf(t, keyLargeSegment+":64").segmentSize(10*mib+512), "made to measure all the same")
}

func TestPoolFor_OneMiBIsStillSmall(t *testing.T) {
	require.Equal(t, smallPool, poolFor(mib))
	require.Equal(t, largePool, poolFor(mib+512))
	require.Equal(t, "small", smallPool.String())
	require.Equal(t, "large", largePool.String())
}

// Whatever the setting, a block holds its request, in multiples of 512 bytes, at most twice as large, and a larger request
// never gets a smaller block.
func TestBlockSize_IsLargeEnoughAndMonotonic(t *testing.T) {
	for _, divisions := range []string{"1", "2", "4", "8", "16"} {
		p, last := policyOf(t, keyRoundup+":"+divisions), uint64(0)
		for request := uint64(1); request < 1<<34; request += request/97 + 1 {
			size := p.blockSize(request)
			require.GreaterOrEqual(t, size, request)
			require.Zero(t, size%minBlock)
			require.LessOrEqual(t, size, max(2*request, minBlock))
			require.GreaterOrEqual(t, size, last, "request %d, %s divisions", request, divisions)
			last = size
		}
	}
}

func TestAlloc_StatisticsFollowTheRoundedSize(t *testing.T) {
	r := newRig(t, 4*1024*mib, keyRoundup+":4")
	b := r.alloc(5000, 0)
	require.EqualValues(t, 5120, b.Size())
	s := r.a.Stats()
	require.EqualValues(t, 5120, s.AllocatedBytes.All.Current)
	require.EqualValues(t, 5000, s.RequestedBytes.All.Current)
	r.free(b)
	require.Zero(t, r.a.Stats().RequestedBytes.All.Current)
}
