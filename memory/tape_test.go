package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// A tape has what a trace has, in the same order, whatever history the program records meanwhile.
func TestStartTape_TellsWhatATraceHas(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, 100*mib, conf)
		var told []memmeter.Event
		stop, err := StartTape(training.Key{}, r.a, func(e memmeter.Event) { told = append(told, e) })
		require.NoError(t, err)
		_, err = StartTape(training.Key{}, r.a, func(memmeter.Event) {})
		require.ErrorContains(t, err, "has a tape already")
		require.NoError(t, r.a.RecordHistory(HistoryOptions{SkipActions: []Action{ActionSnapshot}}))
		a, b := r.alloc(3*mib, 0), r.alloc(1000, 1)
		r.record(a, 1)
		r.free(b, a)
		r.complete(1)
		r.free(r.alloc(40*mib, 0))
		r.empty()
		trace := r.a.Snapshot().DeviceTraces[r.dev.ID().Index]
		require.Len(t, told, len(trace))
		for i, e := range trace {
			require.Equal(t, string(e.Action), journal.Action(told[i].Action).String())
			require.Equal(t, uint64(e.Addr), told[i].Addr)
			require.Equal(t, e.Size, told[i].Bytes)
			require.EqualValues(t, e.Stream, told[i].Stream)
			require.Equal(t, e.Action == ActionSegmentAlloc, told[i].Segment)
		}
		r.a.StopHistory()
		r.free(r.alloc(1, 0))
		require.Greater(t, len(told), len(trace), "the program's history is not the tape's")
		stop()
		before := len(told)
		r.free(r.alloc(1, 0))
		require.Len(t, told, before)
		require.False(t, r.a.HistoryEnabled())
	}
}
