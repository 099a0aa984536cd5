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
