package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// figures runs the program and returns its JSON.
func figures(t *testing.T, args ...string) (r report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append([]string{"-json", file}, args...), &stdout, &stderr), "%s", &stderr)
	require.Contains(t, stdout.String(), "| Allocated memory ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.NotZero(t, r.Leaf)
	require.Equal(t, r.Leaf, r.AfterRelease, "only parameters and optimizer state are held")
	require.Zero(t, r.AtEnd)
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
	for _, args := range [][]string{
		{"-updates", "0"}, {"-carts", "-1"}, {"-horizon", "0"}, {"-epochs", "0"}, {"-width", "0"}, {"-lr", "0"}, {"-lr", "NaN"}, {"-gamma", "2"},
		{"-entropy", "-1"}, {"more"}, {"-what"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(args, &stdout, &stderr), "%v", args)
		require.NotEmpty(t, stderr.String())
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "sim:1GiB", "-updates", "1"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "does not compute")
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
