package optim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A point nearer to an end of the bracket than a tenth of its length is taken once; the next one is moved away.
func TestInside_KeepsPointsFromTheEndsOfTheBracket(t *testing.T) {
	for _, c := range []struct {
		t, lo, hi float64
		stuck     bool
		want      float64
		near      bool
	}{
		{15, 10, 20, false, 15, false},
		{15, 10, 20, true, 15, false},
		{11.25, 10, 20, false, 11.25, false},
		{18.75, 10, 20, true, 18.75, false},
		{10.25, 10, 20, false, 10.25, true},
		{19.75, 10, 20, false, 19.75, true},
		{10.25, 10, 20, true, 11, false},
		{19.75, 10, 20, true, 19, false},
		{10, 10, 20, false, 11, false},
		{20, 10, 20, false, 19, false},
		{30, 10, 20, false, 19, false},
	} {
		got, near := inside(c.t, c.lo, c.hi, c.stuck)
		require.InDelta(t, c.want, got, 1e-12, fmt.Sprint(c))
		require.Equal(t, c.near, near, fmt.Sprint(c))
	}
}
