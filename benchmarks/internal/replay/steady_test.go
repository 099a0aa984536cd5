package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repeated is the trace of a program that repeats one step, in which blocks of three sizes follow one another.
func repeated(steps int) string {
	var s strings.Builder
	for i := range steps {
		id := 3 * i
		fmt.Fprintf(&s, "m step %d\na %d 31457280 0\na %d 52428800 0\nf %d\na %d 73400320 0\nf %d\nf %d\n", i, id, id+1, id, id+2, id+1, id+2)
	}
	return s.String()
}

// From the third mark on a plan holds what is alive, calls no driver, and every request is as expected.
func TestRun_SteadyState(t *testing.T) {
	for _, c := range []struct {
		o        Options
		reserved uint64
	}{
		{Options{Capacity: capacity}, 150 << 20}, {Options{Capacity: capacity, Planned: true}, 120 << 20},
	} {
		r, err := Run(parse(t, repeated(6)), c.o)
		require.NoError(t, err)
		require.Equal(t, &Steady{FromMark: 3, PeakActive: 120 << 20, PeakReserved: c.reserved}, r.Steady)
	}
	r, err := Run(parse(t, repeated(2)), Options{Capacity: capacity})
	require.NoError(t, err)
	require.Nil(t, r.Steady)
}

// Of a small program whose gradients are kept in every other step, a plan has at most a page more than what is in use, in each step.
func TestRun_PlannedGradientsThatAreKept(t *testing.T) {
	c := config(t, "expandable_segments:True,expandable_segments_compaction:1.02")
	r, err := Run(testTrace(t, "mlp_adam"), Options{Capacity: capacity, Config: c, Planned: true})
	require.NoError(t, err)
	require.Zero(t, r.Steady.Deviations)
	require.LessOrEqual(t, r.Steady.PeakReserved, r.Steady.PeakActive+(2<<20))
	require.Less(t, r.Steady.DriverCallsPerStep, 1.0)
	require.Zero(t, r.Steady.LateCallsPerStep)
}

// A program that repeats itself comes to need no driver call where pages have moved, if the bound leaves room for what does not fit: here a block of each size outlives the others, and
// lies between them and the next. At 1.02 pages move in each step.
func TestRun_CompactionComesToRest(t *testing.T) {
	var text strings.Builder
	id := 0
	for step := range 12 {
		fmt.Fprintf(&text, "m step %d\n", step)
		kept := -1
		for _, mib := range []int{30, 50, 70} {
			for range 4 {
				fmt.Fprintf(&text, "a %d %d 0\n", id, mib<<20)
				id++
			}
			if kept >= 0 {
				fmt.Fprintf(&text, "f %d\n", kept)
			}
			kept = id - 2
			fmt.Fprintf(&text, "f %d\nf %d\nf %d\n", id-4, id-3, id-1)
		}
		fmt.Fprintf(&text, "f %d\n", kept)
	}
	r, err := Run(parse(t, text.String()), Options{Capacity: capacity, Config: config(t, "expandable_segments:True,expandable_segments_compaction:1.04")})
	require.NoError(t, err)
	require.NotZero(t, r.Driver.PageUnmap)
	require.Zero(t, r.Steady.LateCallsPerStep)
}

// Gradients that another stream used stay pending over the steps, whose sequences get longer: what is around them does not become holes, with a plan or without it,
// and where streams share memory.
func TestRun_PendingBlocksAmongLongerSequences(t *testing.T) {
	c := config(t, "expandable_segments:True,expandable_segments_compaction:1.02")
	shared := c
	shared.WaitOnDevice, shared.CrossStreamReclaim, shared.SearchAfterSync = true, true, true
	for name, o := range map[string]Options{"compact": {Config: c}, "planned": {Config: c, Planned: true}, "shared": {Config: shared}} {
		o.Capacity = capacity
		r, err := Run(testTrace(t, "gpt_prefetch"), o)
		require.NoError(t, err, name)
		require.Less(t, float64(r.Steady.PeakReserved), 1.05*float64(r.Steady.PeakActive), name)
		require.Less(t, r.Steady.DriverCallsPerStep, 10.0, name)
	}
}
