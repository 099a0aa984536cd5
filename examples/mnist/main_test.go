package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/classify"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

// figures runs the program and returns its JSON.
func figures(t *testing.T, args ...string) (r classify.Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append(args, "-json", file), &stdout, &stderr), "%s", &stderr)
	require.Contains(t, stdout.String(), "| Allocated memory ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r
}

func TestRun_LearnsAndGivesEverythingBack(t *testing.T) {
	r := figures(t, "-epochs", "2", "-hidden", "64")
	require.Greater(t, r.Accuracy, 0.9)
	require.Less(t, r.LastLoss, r.FirstLoss/2)
	require.Equal(t, 250, r.Steps)
	require.Equal(t, r.Leaf, r.AfterRelease, "after the release of the graphs only parameters and optimizer state are held")
	require.NotZero(t, r.Leaf)
	require.Zero(t, r.AtEnd)
	require.Equal(t, r.MallocsAfterTwo, r.DriverMallocs, "the driver is not asked after the second step")
}

func TestRun_IsReproducible(t *testing.T) {
	args := []string{"-epochs", "1", "-hidden", "16", "-seed", "7"}
	first, second := figures(t, args...), figures(t, args...)
	require.Equal(t, first.FirstLoss, second.FirstLoss)
	require.Equal(t, first.LastLoss, second.LastLoss)
	require.Equal(t, first.Accuracy, second.Accuracy)
	require.NotEqual(t, first.LastLoss, figures(t, "-epochs", "1", "-hidden", "16", "-seed", "8").LastLoss)
}

// 8,000 images in batches of 96 also leave a smaller last batch.
func TestRun_TakesTheSameMemoryOnASimulatedDevice(t *testing.T) {
	args := []string{"-epochs", "1", "-hidden", "48", "-batch", "96"}
	real := figures(t, args...)
	simulated := figures(t, append(args, "-device", "sim:80GiB")...)
	require.Equal(t, real.PeakAllocated, simulated.PeakAllocated)
	require.Equal(t, real.PeakReserved, simulated.PeakReserved)
	require.Equal(t, real.DriverMallocs, simulated.DriverMallocs)
	require.Equal(t, real.Leaf, simulated.Leaf)
	require.Equal(t, simulated.Leaf, simulated.AfterRelease)
	require.Zero(t, simulated.AtEnd)
}

func TestRun_EndsWithOneClearErrorAndNoLeak(t *testing.T) {
	empty, broken := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "train-labels-idx1-ubyte"), []byte("no image"), 0o666))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"missing data":      {[]string{"-data", empty}, 1, "train-images-idx3-ubyte"},
		"corrupt data":      {[]string{"-data", broken}, 1, "train-images-idx3-ubyte"},
		"unknown device":    {[]string{"-device", "tpu"}, 2, `"tpu"`},
		"no CUDA":           {[]string{"-device", "cuda:99"}, 1, "cuda:99"},
		"device too small":  {[]string{"-device", "sim:23MiB", "-batch", "4000"}, 1, "out of memory"},
		"fraction too low":  {[]string{"-device", "sim:80GiB", "-memory-fraction", "0.0003", "-batch", "4000"}, 1, "allowed"},
		"fraction absurd":   {[]string{"-memory-fraction", "2"}, 2, "-memory-fraction is 2, must be 0 to 1"},
		"unwritable result": {[]string{"-device", "sim", "-epochs", "1", "-json", filepath.Join(empty, "no", "file")}, 1, "-json cannot be written"},
		"no epochs":         {[]string{"-epochs", "0"}, 2, "-epochs is 0"},
		"absurd batch":      {[]string{"-batch", "9223372036854775807"}, 2, "-batch is 9223372036854775807, must be 1 to 65536"},
		"absurd layer":      {[]string{"-hidden", "1048577"}, 2, "-hidden is 1048577, must be 1 to 1048576"},
		"absurd epochs":     {[]string{"-epochs", "1000001"}, 2, "-epochs is 1000001, must be 1 to 1000000"},
		"no address":        {[]string{"-memory-http", "6060"}, 2, "-memory-http is \"6060\""},
		"unknown report":    {[]string{"-memory-report", "x.png"}, 2, "-memory-report is \"x.png\""},
		"unknown snapshot":  {[]string{"-snapshot", "x.txt"}, 2, "-snapshot is \"x.txt\""},
		"unknown flag":      {[]string{"-what"}, 2, "-what"},
		"argument":          {[]string{"what"}, 2, `"what"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(c.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), c.want)
			require.NotContains(t, stderr.String(), "still in use")
		})
	}
	require.Zero(t, liveBytes(t), "the host device holds nothing any more")
}

func liveBytes(t *testing.T) uint64 {
	t.Helper()
	dev, err := device.Open("host")
	require.NoError(t, err)
	h, ok := dev.(*host.Device)
	require.True(t, ok)
	_, bytes := h.Live()
	return bytes
}

// Nothing is computed there, so neither bar nor table may say how well it was.
func TestRun_OnASimulatedDeviceClaimsNothing(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-epochs", "1", "-device", "sim:80GB"}, &stdout, &stderr), "%s", &stderr)
	require.NotRegexp(t, `(loss|losses|accuracy) +-?[0-9]|0\.0000`, stdout.String()+stderr.String())
	require.Contains(t, stdout.String(), "a simulated device does not compute")
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, "-epochs", "1", "-hidden", "64")
}
