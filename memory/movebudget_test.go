package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of a program that never repeats itself no more pages move than the budget allows, and what it saves in calls it has in memory.
func TestMoveBudget_BoundsWhatMoves(t *testing.T) {
	var moved, reserved []uint64
	for _, budget := range []float64{0, 0.05, 0.01} {
		conf := compacting
		if budget > 0 {
			conf += fmt.Sprintf(",expandable_segments_compaction_budget:%g", budget)
		}
		r := newRig(t, 8192*mib, conf)
		rng := rand.New(rand.NewPCG(3, 9))
		var live []Block
		asked := uint64(0)
		for range 400 {
			if len(live) >= 12 {
				i := rng.IntN(len(live))
				r.free(live[i])
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			}
			size := (1 + rng.Uint64N(40)) * mib
			live = append(live, r.alloc(size, 0))
			asked += r.a.policy.Load().blockSize(size)
		}
		require.Equal(t, asked, r.a.bytesAsked())
		unmapped := r.a.Stats().ReservedBytes.All.Freed
		if budget > 0 {
			require.LessOrEqual(t, float64(unmapped), budget*float64(asked))
		}
		moved, reserved = append(moved, uint64(unmapped)), append(reserved, r.reserved())
		r.free(live...)
	}
	require.Greater(t, moved[0], moved[1])
	require.Greater(t, moved[1], moved[2])
	require.Positive(t, moved[2])
	require.Less(t, reserved[0], reserved[2])
}

// A page moves when the budget has come to one: a program that would move one in each step moves one in so many.
func TestMoveBudget_IsOfWholePages(t *testing.T) {
	r := newRig(t, 1024*mib, "expandable_segments:True,expandable_segments_compaction:1.02,expandable_segments_compaction_budget:0.001")
	for range 400 {
		x, y := r.alloc(15*mib, 0), r.alloc(mib, 0)
		r.free(x)
		z := r.alloc(17*mib, 0)
		r.free(z, y)
	}
	require.LessOrEqual(t, float64(r.a.Stats().ReservedBytes.All.Freed), 0.001*float64(r.a.bytesAsked()))
}

// Where a budget does not suffice a part of the pages moves.
func TestMoveBudget_MovesWhatItCan(t *testing.T) {
	r := newRig(t, 1024*mib, compacting+",expandable_segments_compaction_budget:0.25")
	var keep, gone []Block
	for range 5 {
		gone = append(gone, r.alloc(10*mib, 0))
		keep = append(keep, r.alloc(10*mib, 0))
	}
	r.free(gone...)
	big := r.alloc(40*mib, 0) // of 140 MiB that were asked for 35 may move: 34 in whole pages
	require.EqualValues(t, 106*mib, r.reserved())
	r.free(big)
	r.free(keep...)
	require.LessOrEqual(t, r.a.moves.credit, r.a.allocatedPeak())
}

func TestMoveBudget_IsAPart(t *testing.T) {
	for _, text := range []string{"0", "-1", "1001", "NaN", "True"} {
		_, err := ParseConfig("expandable_segments_compaction_budget:" + text)
		var e *ConfigError
		require.True(t, errors.As(err, &e), text)
		require.Equal(t, keyMoveBudget, e.Key)
		require.Equal(t, wantMoveBudget, e.Want)
	}
	require.Error(t, Config{CompactionBudget: -0.5}.Validate())
}
