package memory

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// takeLadder is takeLog with the waits for events ("wait") and questions for the device's memory ("info") in between.
func (r *rig) takeLadder() []string {
	var log []string
	for _, c := range r.calls {
		switch c.Kind {
		case sim.CallEventSync:
			log = append(log, "wait")
		case sim.CallMemInfo:
			log = append(log, "info")
		default:
			if line := string(c.LogLine(nil)); line != "" {
				log = append(log, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	r.calls = nil
	return log
}

// A device of 100 MiB on which each rung of the ladder has something to give: segment 0 is 40 MiB in use, 1 an oversize
// cached block of 30 MiB, 2 is 12 MiB pending, 3 a cached segment of the small pool.
func ladderRig(t *testing.T) *rig {
	r := newRig(t, 100*mib, "max_split_size_mb:20")
	r.alloc(40*mib, 0)
	oversize, pending, small := r.alloc(30*mib, 0), r.alloc(12*mib, 0), r.alloc(512, 0)
	r.record(pending, 1)
	r.free(oversize, pending, small)
	r.calls = nil
	return r
}

func TestLadder_AskingTheDriverComesFirst(t *testing.T) {
	r := ladderRig(t)
	r.alloc(15*mib, 0)
	require.Equal(t, []string{"M 4 16777216"}, r.takeLadder(), "the cache is left alone")
}

func TestLadder_ThenJustEnoughOversizeBlocksAreGivenBack(t *testing.T) {
	r := ladderRig(t)
	r.alloc(18*mib, 0)
	require.Equal(t, []string{"X 18874368", "F 1", "M 4 18874368"}, r.takeLadder())
	require.Zero(t, r.a.Stats().NumAllocRetries, "only attempts after a full flush count")
}

func TestLadder_ThenEventsAreWaitedForAndTheCacheGivenBack(t *testing.T) {
	r := ladderRig(t)
	r.alloc(52*mib, 0)
	require.Equal(t, []string{"X 54525952", "F 1", "wait", "F 2", "F 3", "M 4 54525952"}, r.takeLadder())
	s := r.a.Stats()
	require.EqualValues(t, 1, s.NumAllocRetries)
	require.EqualValues(t, 1, s.NumSyncAllStreams)
	require.Zero(t, s.NumOOMs)
}

func TestLadder_ThenItIsOutOfMemory(t *testing.T) {
	r := ladderRig(t)
	_, err := r.tryAlloc(62*mib, 0)
	oom := requireOOM(t, err, ErrDeviceFull)
	require.Equal(t, []string{"X 65011712", "F 1", "wait", "F 2", "F 3", "X 65011712", "info"}, r.takeLadder())
	require.EqualValues(t, 62*mib, oom.Requested)
	s := r.a.Stats()
	require.EqualValues(t, 1, s.NumAllocRetries)
	require.EqualValues(t, 1, s.NumOOMs)
	r.alloc(50*mib, 0)
	require.Equal(t, []string{"M 4 52428800"}, r.takeLadder(), "the allocator works on, with what it gave back")
}

// PyTorch's order of giving back: the large pool before the small one; in each by stream, size, age.
func TestLadder_GivesBackInOrderOfPoolStreamAndSize(t *testing.T) {
	r := newRig(t, gib, "")
	var blocks []Block
	for _, stream := range []int{2, 0} {
		for _, size := range []uint64{14 * mib, 12 * mib, 512, 12 * mib} {
			blocks = append(blocks, r.alloc(size, stream))
		}
	}
	r.free(blocks...)
	r.calls = nil
	r.empty()
	require.Equal(t, []string{"F 5", "F 7", "F 4", "F 1", "F 3", "F 0", "F 6", "F 2"}, r.takeLadder())
}

func TestLadder_OtherErrorsOfTheDriverAreReturnedAsTheyAre(t *testing.T) {
	r := ladderRig(t)
	r.dev.FailNext(sim.CallMalloc, 1, errInjected)
	_, err := r.tryAlloc(15*mib, 0)
	require.ErrorIs(t, err, errInjected)
	require.NotErrorIs(t, err, ErrOutOfMemory)
	var de *device.Error
	require.ErrorAs(t, err, &de)
	require.Empty(t, r.takeLadder(), "nothing was given back")
	r.alloc(15*mib, 0)
}

// A refusal while giving back ends the request with that error; the block is cached as before.
func TestLadder_SegmentsThatTheDriverRefusesStayCached(t *testing.T) {
	r := ladderRig(t)
	r.dev.FailNext(sim.CallFree, 2, errInjected)
	_, err := r.tryAlloc(62*mib, 0)
	require.ErrorIs(t, err, errInjected)
	require.EqualValues(t, 12*mib+40*mib, r.reserved(), "the rest was given back all the same")
	r.calls = nil
	require.Equal(t, place{2, 0}, r.place(r.alloc(12*mib, 0)))
}

func TestOnLowMemory_RunsBeforeTheDriverIsAsked(t *testing.T) {
	r := newRig(t, 100*mib, "")
	held := r.alloc(12*mib, 0)
	var calls []string
	r.a.OnLowMemory(func() bool { calls = append(calls, "a"); return false })
	r.a.OnLowMemory(func() bool {
		calls = append(calls, "b")
		require.NoError(t, r.a.Free(held))
		return true
	})
	r.a.OnLowMemory(func() bool { calls = append(calls, "c"); return false })
	r.calls = nil
	b := r.alloc(12*mib, 0)
	require.Equal(t, []string{"a", "b", "c"}, calls, "all run, although one has freed memory")
	require.Equal(t, held.Ptr(), b.Ptr())
	require.Empty(t, r.takeLadder(), "what the callback freed was enough")
}

func TestOnLowMemory_WithoutSuccessTheDriverIsAsked(t *testing.T) {
	r := newRig(t, 100*mib, "")
	n := 0
	r.a.OnLowMemory(func() bool { n++; return false })
	b := r.alloc(12*mib, 0)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"M 0 12582912"}, r.takeLadder())
	r.free(b)
	r.alloc(12*mib, 0)
	require.Equal(t, 1, n, "not when the cache serves")
}

// test_caching_allocator_record_stream_oom: large blocks freed with events outstanding; the ladder waits for them.
func TestLadder_WaitsForPendingBlocksInsteadOfFailing(t *testing.T) {
	r := newRig(t, 100*mib, "")
	for range 100 {
		b := r.alloc(40*mib, 0)
		require.NoError(t, r.stream(1).Fill(b.Ptr(), 0, b.Size()))
		r.record(b, 1)
		r.free(b)
	}
	require.Zero(t, r.a.Stats().NumOOMs)
	require.EqualValues(t, 49, r.a.Stats().NumAllocRetries, "each second one finds the device full")
}
