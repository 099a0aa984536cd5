package memory

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func drawingOf(t *testing.T, s Snapshot, most int) (d drawing) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.WriteDrawing(&b, most))
	require.NoError(t, json.Unmarshal(b.Bytes(), &d))
	return d
}

// sums adds up the pieces: bytes, blocks, and bytes allocated, pending, unmapped and requested.
func (d *drawing) sums() (sum [6]int64) {
	for _, seg := range d.Segments {
		for i, n := range seg.Pieces {
			if i%8 < len(sum) {
				sum[i%8] += n
			}
		}
	}
	return sum
}

// However few pieces are wanted, they add up to the same.
func TestWriteDrawing_AddsUpWhatIsTooSmall(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		r := newRig(t, gib, conf)
		held := scatter(t, r.a, r.stream(0), 3000)
		r.alloc(50*mib, 0)
		require.NoError(t, r.a.RecordStream(held[0], r.stream(1)))
		require.NoError(t, r.a.Free(held[0]))
		s := r.a.Snapshot()
		all := drawingOf(t, s, 0)
		require.Zero(t, all.AddedUp)
		for _, most := range []int{2, 50, 1000} {
			d := drawingOf(t, s, most)
			require.Equal(t, all.sums(), d.sums(), "%d", most)
			require.Positive(t, d.AddedUp)
			pieces := 0
			for _, seg := range d.Segments {
				pieces += len(seg.Pieces) / 8
			}
			require.LessOrEqual(t, pieces, 2*most+2*len(d.Segments)+2)
		}
		stats := r.a.Stats()
		require.Equal(t, stats.AllocatedBytes.All.Current, all.sums()[2])
		require.EqualValues(t, stats.AllocatedBytes.All.Current, all.Allocated)
		require.Equal(t, conf != "", all.sums()[4] > 0, "unmapped")
	}
}

// A snapshot that was read from a file is drawn like the allocator's own, but for the addresses without memory.
func TestWriteDrawing_OfASnapshotFromAFile(t *testing.T) {
	r := newRig(t, gib, "")
	require.NoError(t, r.a.RecordHistory(HistoryOptions{}))
	held := scatter(t, r.a, r.stream(0), 100)
	r.free(held[1])
	s := r.a.Snapshot()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var read Snapshot
	require.NoError(t, json.Unmarshal(text, &read))
	want, got := drawingOf(t, s, 0), drawingOf(t, read, 0)
	require.Equal(t, want.sums(), got.sums())
	require.Equal(t, want.Trace.Addr, got.Trace.Addr)
	require.Equal(t, want.Allocated, got.Allocated)
	require.NotEmpty(t, got.Sites)
	require.Equal(t, len(want.Trace.Action), len(s.DeviceTraces[s.device.Index]))
	for i, e := range s.DeviceTraces[s.device.Index] {
		require.Equal(t, e.Action, want.Trace.Actions[want.Trace.Action[i]])
		require.Equal(t, e.TimeUS, want.Trace.StartUS+want.Trace.Time[i])
		require.Equal(t, len(e.Frames), len(want.Stacks[want.Trace.Stack[i]]))
	}
	require.Nil(t, drawingOf(t, Snapshot{}, 0).Trace)
}
