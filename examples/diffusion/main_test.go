package main

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

var small = []string{"-channels", "4", "-batch", "16", "-times", "10", "-compared", "60"}

func figures(t *testing.T, args ...string) (r report, stdout string) {
	t.Helper()
	stdout = sessiontest.Figures(t, run, &r, &r.Memory, append(small, args...)...)
	require.Equal(t, r.MallocsAfterTwo, r.DriverMallocs, "the driver is not asked after the second step")
	return r, stdout
}

func TestRun_FindsTheNoise(t *testing.T) {
	r, _ := figures(t, "-steps", "60", "-lr", "5e-3", "-compared", "10")
	require.Equal(t, 60, r.Steps)
	require.Less(t, r.LastLoss, r.FirstLoss/2)
}

func TestRun_DrawsDigitsThatAreNearerToRealOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for some seconds")
	}
	picture := filepath.Join(t.TempDir(), "digits.png")
	r, stdout := figures(t, "-channels", "8", "-steps", "200", "-lr", "5e-3", "-decay", "0.95", "-compared", "100", "-png", picture)
	require.Less(t, r.LastDistance, 0.8*r.FirstDistance)
	require.Less(t, r.RealDistance, r.LastDistance)
	require.Contains(t, stdout, "distance from real digits")
	require.FileExists(t, picture)
}

func TestRun_RandomNumbersAreOfTheSeed(t *testing.T) {
	first, _ := figures(t, "-steps", "1", "-compared", "10")
	again, _ := figures(t, "-steps", "1", "-compared", "10")
	require.Equal(t, first.LastDistance, again.LastDistance)
	require.Equal(t, first.LastLoss, again.LastLoss)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	sessiontest.Refused(t, run, []string{"-steps", "0"}, []string{"-batch", "-1"}, []string{"-channels", "6"}, []string{"-times", "0"},
		[]string{"-lr", "0"}, []string{"-decay", "2"}, []string{"-compared", "0"},
		[]string{"-compared", "9223372036854775807"}, []string{"-times", "9223372036854775807"}, []string{"-channels", "4611686018427387904"},
		[]string{"-batch", "65537"}, []string{"-steps", "1000000001"})
}

func TestRun_Interrupted_SavesAndTellsWhatItHas(t *testing.T) {
	weights := filepath.Join(t.TempDir(), "weights.safetensors")
	text := sessiontest.Interrupt(t, run, append(small, "-steps", "1000000", "-save", weights)...)
	require.Contains(t, text, "| Allocated memory ")
	require.FileExists(t, weights)
}

// Drawing and comparing takes long before training, too: Ctrl-C does not wait for it.
func TestRun_InterruptedBeforeTraining_DrawsAndSaves(t *testing.T) {
	dir := t.TempDir()
	weights, picture := filepath.Join(dir, "weights.safetensors"), filepath.Join(dir, "digits.png")
	args := append(small, "-compared", "100000", "-memory-http", "localhost:0", "-save", weights, "-png", picture)
	text := sessiontest.Interrupt(t, run, args...)
	require.Contains(t, text, "none at first, none at last")
	require.FileExists(t, weights)
	require.FileExists(t, picture)
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"png", "save", "json"}, small...)
}

// From pure noise, a network that finds all of the noise leads back to the image.
func TestSchedule_TheWayBackIsTheWayThere(t *testing.T) {
	s := newSchedule(50)
	require.Len(t, s.beta, 50)
	require.Less(t, s.kept[49], 1e-3)
	image, clean, deviation := s.back(0)
	require.InDelta(t, 0, image, 1e-12)
	require.InDelta(t, 1, clean, 1e-12)
	require.Zero(t, deviation)
	for at := 1; at < 50; at++ {
		image, clean, deviation := s.back(at)
		require.InDelta(t, math.Sqrt(s.kept[at-1]), image*math.Sqrt(s.kept[at])+clean, 1e-9, "the mean of what was before")
		require.InDelta(t, 1-s.kept[at-1], image*image*(1-s.kept[at])+deviation*deviation, 1e-9, "and its variance")
	}
}

func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, append(small, "-steps", "2")...)
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, append(small[:len(small):len(small)], "-steps", "5")...)
}
