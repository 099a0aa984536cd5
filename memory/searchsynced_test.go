package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// A device of 100 MiB: 40 in use, 30 pending, and 20 cached for another stream.
func TestSearchAfterSync_TheCacheStays(t *testing.T) {
	for conf, want := range map[string][]string{
		"":                             {"X 31457280", "wait", "F 1", "F 2", "M 3 31457280"},
		"search_after_event_sync:True": {"X 31457280", "wait"},
	} {
		r := newRig(t, 100*mib, conf)
		r.alloc(40*mib, 0)
		b := r.pend(30*mib, 0, 1)
		r.free(r.alloc(20*mib, 2))
		r.calls = nil
		got := r.alloc(30*mib, 0)
		require.Equal(t, want, r.takeLadder(), conf)
		require.Equal(t, conf != "", b.Ptr() == got.Ptr())
		s := r.a.Stats()
		require.EqualValues(t, 1, s.NumSyncAllStreams)
		require.EqualValues(t, len(want)/5, s.NumAllocRetries)
	}
}

// If nothing fits after the wait either, the ladder goes on as ever, with one wait.
func TestSearchAfterSync_ThenTheLadderGoesOn(t *testing.T) {
	var before []string
	for _, conf := range []string{"", "search_after_event_sync:True"} {
		r := newRig(t, 100*mib, conf)
		r.alloc(40*mib, 0)
		r.pend(30*mib, 0, 1)
		r.free(r.alloc(20*mib, 2))
		r.calls = nil
		r.alloc(50*mib, 0)
		log := r.takeLadder()
		require.EqualValues(t, 1, r.a.Stats().NumSyncAllStreams)
		require.EqualValues(t, 1, r.a.Stats().NumAllocRetries)
		if conf != "" {
			require.Equal(t, before, log)
		}
		before = log
		_, err := r.tryAlloc(50*mib, 0)
		requireOOM(t, err, ErrDeviceFull)
	}
}

// The error of the work that was waited for is told, once, and the cache stays.
func TestSearchAfterSync_AWaitThatFailsLosesNothing(t *testing.T) {
	r := newRig(t, 100*mib, "search_after_event_sync:True")
	r.alloc(40*mib, 0)
	b := r.alloc(30*mib, 0)
	r.free(r.alloc(20*mib, 2))
	r.stream(1)
	r.dev.FailWork(1, "matmul", errInjected)
	r.record(b, 1)
	r.free(b)
	_, err := r.tryAlloc(30*mib, 0)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.EqualValues(t, 90*mib, r.reserved(), fmt.Sprint("nothing went back: ", r.a))
	require.Equal(t, b.Ptr(), r.alloc(30*mib, 0).Ptr())
}
