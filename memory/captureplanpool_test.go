package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a pool lends to a capture is no part of what it has lent to another one: a block that stayed kept that lent, and the gap beside it was lent again, and never given back.
func TestCaptureGraph_PlannedIntoAPoolWithAGap(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True", compacting102} {
		a, s, take := onRecordingStream(t, conf)
		plan, err := a.NewPlan(PlanWait(longWait))
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, plan.Step())
			x, y := take(28*mib), take(16*mib)
			require.NoError(t, a.Free(x))
			require.NoError(t, a.Free(y))
		}
		var stays Block
		first, err := a.CaptureGraph(s, func() error {
			stays = take(28 * mib)
			return a.Free(take(16 * mib))
		}, CapturePlan())
		require.NoError(t, err)
		require.NoError(t, plan.Step())
		require.NoError(t, a.Free(take(9*mib)))
		second, err := a.CaptureGraph(s, func() error { return a.Free(take(9 * mib)) }, CapturePlan(), CapturePool(first.Pool()))
		require.NoError(t, err)
		require.NoError(t, a.check())
		require.EqualValues(t, 28*mib, a.Stats().ActiveBytes.All.Current)
		active := uint64(0)
		for _, seg := range a.Snapshot().Segments {
			active += seg.ActiveSize
		}
		require.EqualValues(t, 28*mib, active, conf)
		require.NoError(t, a.Free(stays))
		for _, closes := range []func() error{first.Close, second.Close, plan.Close, a.EmptyCache} {
			require.NoError(t, closes())
		}
		require.Zero(t, a.Stats().ReservedBytes.All.Current, conf)
		require.NoError(t, a.Close())
	}
}
