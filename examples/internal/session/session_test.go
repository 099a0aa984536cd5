package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRates_LeavesTheFirstHalfOutOfTheSecondFigure(t *testing.T) {
	all, late := Rates([]time.Duration{9 * time.Second, 10 * time.Second, 11 * time.Second, 12 * time.Second, 13 * time.Second})
	require.InDelta(t, 5.0/13, all, 1e-9)
	require.InDelta(t, 1, late, 1e-9)
	all, late = Rates([]time.Duration{2 * time.Second})
	require.InDelta(t, 0.5, all, 1e-9)
	require.InDelta(t, 0.5, late, 1e-9)
	all, late = Rates(nil)
	require.Zero(t, all+late)
}
