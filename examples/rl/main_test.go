package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

func figures(t *testing.T, args ...string) (r report) {
	t.Helper()
	sessiontest.Figures(t, run, &r, &r.Memory, args...)
	require.Equal(t, r.MallocsAfterTwo, r.DriverMallocs, "the driver is not asked after the second update")
	return r
}

func TestRun_LearnsToBalance(t *testing.T) {
	r := figures(t, "-updates", "60")
	require.Equal(t, 60, r.Updates)
	require.Greater(t, r.LastLength, 2*r.FirstLength)
	require.Greater(t, r.FirstLength, 8.0)
	again := figures(t, "-updates", "60")
	require.Equal(t, r.LastLength, again.LastLength, "all random numbers are of the seed")
	require.Equal(t, r.Episodes, again.Episodes)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	sessiontest.Refused(t, run, []string{"-updates", "0"}, []string{"-carts", "-1"}, []string{"-horizon", "0"}, []string{"-epochs", "0"},
		[]string{"-width", "0"}, []string{"-lr", "0"}, []string{"-lr", "NaN"}, []string{"-gamma", "2"}, []string{"-entropy", "-1"},
		[]string{"-carts", "1000000000"}, []string{"-horizon", "9223372036854775807"}, []string{"-carts", "65536", "-horizon", "65"},
		[]string{"-epochs", "10001"}, []string{"-width", "65537"}, []string{"-updates", "1000000001"})
}

func TestRun_Interrupted_TellsWhatItHas(t *testing.T) {
	require.Contains(t, sessiontest.Interrupt(t, run, "-updates", "1000000"), "| Allocated memory ")
}

// A long update does not have to end first.
func TestRun_InterruptedInAnUpdate_TellsWhatItHas(t *testing.T) {
	text := sessiontest.Interrupt(t, run, "-memory-http", "localhost:0", "-horizon", "65536", "-carts", "64")
	require.Regexp(t, `updates +0\n`, text)
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"json"})
}

// Pushed to one side all the time the pole falls after 7 to 11 steps, as it does elsewhere.
func TestCartPole_FallsWhenPushedToOneSide(t *testing.T) {
	c := newCartPole(1, 2)
	for range 50 {
		for {
			over, fell, length := c.step(1)
			if over {
				require.True(t, fell)
				require.InDelta(t, 9, length, 2)
				break
			}
		}
		for _, v := range c.observe(nil) {
			require.LessOrEqual(t, math.Abs(float64(v)), around, "the next episode has begun")
		}
	}
}

func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, "-updates", "2")
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, "-updates", "5", "-horizon", "8")
}
