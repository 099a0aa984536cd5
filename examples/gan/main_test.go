package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

var small = []string{"-channels", "8", "-batch", "32"}

func figures(t *testing.T, args ...string) (r report, stdout string) {
	t.Helper()
	stdout = sessiontest.Figures(t, run, &r, &r.Memory, append(small, args...)...)
	require.Equal(t, r.MallocsAfterTwo, r.DriverMallocs, "the driver is not asked after the second step")
	return r, stdout
}

func TestRun_DrawsDigitsThatAreNearerToRealOnes(t *testing.T) {
	dir := t.TempDir()
	picture, weights := filepath.Join(dir, "digits.png"), filepath.Join(dir, "weights.safetensors")
	r, stdout := figures(t, "-steps", "120", "-lr", "2e-3", "-png", picture, "-save", weights)
	require.Equal(t, 120, r.Steps)
	require.Less(t, r.LastDistance, r.FirstDistance/3)
	require.Less(t, r.RealDistance, r.LastDistance)
	require.Contains(t, stdout, "distance from real digits")
	require.FileExists(t, picture)

	f, err := os.Open(weights)
	require.NoError(t, err)
	defer f.Close()
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	gen := newGenerator(32, 8, 28)
	require.NoError(t, gen.To(dev, nn.Unset()))
	defer gen.Release()
	require.NoError(t, nn.Load(f, gen))
}

func TestRun_RandomNumbersAreOfTheSeed(t *testing.T) {
	first, _ := figures(t, "-steps", "1")
	again, _ := figures(t, "-steps", "1")
	require.Equal(t, first.LastDistance, again.LastDistance)
	require.Equal(t, first.DrawnLoss, again.DrawnLoss)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	sessiontest.Refused(t, run, []string{"-steps", "0"}, []string{"-batch", "-1"}, []string{"-channels", "0"}, []string{"-code", "0"},
		[]string{"-lr", "0"}, []string{"-lr", "NaN"},
		[]string{"-batch", "1000000000"}, []string{"-channels", "4611686018427387904"}, []string{"-code", "9223372036854775807"})
}

func TestRun_Interrupted_SavesAndTellsWhatItHas(t *testing.T) {
	weights := filepath.Join(t.TempDir(), "weights.safetensors")
	text := sessiontest.Interrupt(t, run, append(small, "-steps", "1000000", "-save", weights)...)
	require.Contains(t, text, "| Allocated memory ")
	require.FileExists(t, weights)
}

// A judge learns before the networks do: Ctrl-C does not wait for it.
func TestRun_InterruptedBeforeTraining_DrawsAndSaves(t *testing.T) {
	dir := t.TempDir()
	weights, picture := filepath.Join(dir, "weights.safetensors"), filepath.Join(dir, "digits.png")
	text := sessiontest.Interrupt(t, run, append(small, "-memory-http", "localhost:0", "-save", weights, "-png", picture)...)
	require.Contains(t, text, "none at last")
	require.FileExists(t, weights)
	require.FileExists(t, picture)
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"png", "save", "json"}, small...)
}

func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, append(small, "-steps", "2")...)
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, append(small[:len(small):len(small)], "-steps", "5")...)
}
