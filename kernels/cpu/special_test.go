package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Polygamma of large negative numbers takes no longer than of others: one by one, the terms of the last ones would be counted for weeks. The values are those of mpmath.
func TestPolygamma_OfLargeNegativeNumbers(t *testing.T) {
	for _, c := range []struct{ n, x, want float64 }{
		{1, -1000.75, 19.7382100507011895}, {2, -100.25, 124.025008206917709}, {3, -1e12 + 0.25, 1558.545456544039}, {20, -50.3, 2.32583156170720574e+29},
		{7, -40.5, 2580880.43637119244}, {1, -1e15 + 0.5, 9.86960440108935762}, {2, -1e15 + 0.25, -124.025106721199281},
	} {
		require.InEpsilon(t, c.want, polygamma64(c.n, c.x), 4e-16*c.n+4e-16, "derivative %g at %g", c.n, c.x)
	}
	require.True(t, math.IsInf(polygamma64(2, -1e18), 0))
	require.Zero(t, polygamma64(1, math.Inf(1)))
	require.NotPanics(t, func() { polygamma64(2, math.Inf(-1)) })
}
