package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/replay"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
)

func TestCurve_KeepsPeaksBetweenItsPoints(t *testing.T) {
	tr, err := trace.Open(tracePath("gpt_prefetch"))
	require.NoError(t, err)
	c := newCurve(tr)
	require.Equal(t, 5, c.every) // 9,438 lines in at most 2,000 points
	r, err := replay.Run(tr, replay.Options{Capacity: 80 * device.GiB, After: c.after})
	require.NoError(t, err)
	require.Len(t, c.allocated, (r.Events+4)/5)
	require.Len(t, c.reserved, len(c.allocated))
	allocated, reserved, x := 0.0, 0.0, 0.0
	for i := range c.allocated {
		allocated, reserved = max(allocated, c.allocated[i].Y), max(reserved, c.reserved[i].Y)
		require.Equal(t, x+5, c.allocated[i].X)
		x = c.allocated[i].X
	}
	require.EqualValues(t, r.Stats.AllocatedBytes.All.Peak, allocated)
	require.EqualValues(t, r.Stats.ReservedBytes.All.Peak, reserved)
}
