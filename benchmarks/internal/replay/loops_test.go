package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs whose variables hold the batch, the output and the loss until the next step has others need about as little with a plan as without one, from the second step on. What they had before is
// beside it: it was not known how long those blocks live, and the others found their places taken.
func TestRun_PlannedLoops(t *testing.T) {
	for name, most := range map[string]float64{
		"vgg":         1.02, // 1.09
		"vae":         1.16, // 1.22
		"autoencoder": 1.15, // 1.50
	} {
		t.Run(name, func(t *testing.T) {
			tr := testTrace(t, "loops/"+name)
			c := config(t, "expandable_segments:True,expandable_segments_compaction:1.02")
			without, err := Run(tr, Options{Capacity: capacity, Config: c})
			require.NoError(t, err)
			with, err := Run(tr, Options{Capacity: capacity, Config: c, Planned: true})
			require.NoError(t, err)
			require.Equal(t, without.Steady.PeakActive, with.Steady.PeakActive)
			require.LessOrEqual(t, with.Steady.PeakReserved, without.Steady.PeakReserved+4<<20)
			require.LessOrEqual(t, float64(with.Steady.PeakReserved), most*float64(with.Steady.PeakActive))
		})
	}
}
