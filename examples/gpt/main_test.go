package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

// small is a model that trains in a moment.
var small = []string{"-layers", "2", "-width", "32", "-heads", "2", "-seq", "32", "-batch", "8", "-sample", "5"}

// figures runs the program on a small model and returns its JSON.
func figures(t *testing.T, args ...string) (r report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	args = append(append(args, small...), "-json", file)
	require.Zero(t, run(args, &stdout, &stderr), "%s", &stderr)
	require.Contains(t, stdout.String(), "| Allocated memory ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, r.Leaf, r.AfterRelease, "after the release of the graphs only parameters and optimizer state are held")
	require.NotZero(t, r.Leaf)
	require.Zero(t, r.AtEnd)
	return r
}

func TestRun_LearnsInEveryPrecision(t *testing.T) {
	for _, precision := range []string{"off", "fp16", "bf16"} {
		r := figures(t, "-steps", "60", "-lr", "5e-3", "-dropout", "0.05", "-amp", precision)
		require.InDelta(t, 4.51, r.FirstLoss, 0.15, "log 91 at the start")
		require.Less(t, r.ValLoss, 3.3, "as good as the frequencies of the characters")
		require.Equal(t, 60, r.Steps)
		require.Equal(t, r.MallocsAfterTwo, r.DriverMallocs, "the driver is not asked after the second step")
	}
}

func TestRun_CheckpointingChangesMemoryNotNumbers(t *testing.T) {
	plain := figures(t, "-steps", "3", "-layers", "4", "-dropout", "0.1")
	recomputed := figures(t, "-steps", "3", "-layers", "4", "-dropout", "0.1", "-checkpoint")
	require.Equal(t, plain.ValLoss, recomputed.ValLoss)
	require.Less(t, recomputed.PeakAllocated, plain.PeakAllocated)
}

func TestRun_GoesOnWhereItWasSaved(t *testing.T) {
	for _, precision := range []string{"off", "fp16"} {
		file := filepath.Join(t.TempDir(), "state.safetensors")
		args := []string{"-dropout", "0.1", "-amp", precision}
		whole := figures(t, append(args, "-steps", "6")...)
		figures(t, append(args, "-steps", "6", "-stop", "3", "-save", file)...)
		rest := figures(t, append(args, "-steps", "6", "-resume", file)...)
		require.Equal(t, 3, rest.Steps)
		require.Equal(t, whole.ValLoss, rest.ValLoss, "bit for bit")
	}
}

func TestRun_TakesTheSameMemoryOnASimulatedDevice(t *testing.T) {
	real := figures(t, "-steps", "3")
	simulated := figures(t, "-steps", "3", "-device", "sim:80GiB")
	require.Equal(t, real.PeakAllocated, simulated.PeakAllocated)
	require.Equal(t, real.PeakReserved, simulated.PeakReserved)
	require.Equal(t, real.DriverMallocs, simulated.DriverMallocs)
	require.Equal(t, real.Parameters, simulated.Parameters)
}

func TestRun_PadsTheVocabulary(t *testing.T) {
	plain, padded := figures(t, "-steps", "1"), figures(t, "-steps", "1", "-vocab", "128")
	require.Equal(t, plain.Parameters+2*32*(128-91), padded.Parameters)
}

// Samples are longer than the context, so that the cache is filled again on the way.
func TestRun_WritesInEveryWay(t *testing.T) {
	written := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		args = append(append(append([]string{"-steps", "2"}, small...), "-sample", "80"), args...)
		require.Zero(t, run(args, &stdout, &stderr), "%s", &stderr)
		_, text, ok := strings.Cut(stdout.String(), "--- the model writes ---")
		require.True(t, ok)
		text, _, ok = strings.Cut(text, "\n---\n")
		require.True(t, ok)
		return text
	}
	greedy := written("-greedy")
	require.Len(t, []rune(greedy), len("\nPROP. ")+80)
	require.Equal(t, greedy, written("-top-k", "1"))
	require.Equal(t, greedy, written("-greedy", "-checkpoint"))
	require.Equal(t, greedy, written("-top-p", "1e-9"))
	require.NotEqual(t, greedy, written())
	require.NotEqual(t, written(), written("-temperature", "0.1"))
	require.NotEqual(t, greedy, written("-greedy", "-repetition-penalty", "5"))
	require.Equal(t, written("-greedy", "-sample", "1"), written("-beam", "3", "-sample", "1"), "of one character the likeliest is the best")
	written("-beam", "3", "-amp", "bf16")
	written("-top-k", "5", "-top-p", "0.9", "-amp", "fp16")
}

func TestRun_EndsWithOneClearErrorAndNoLeak(t *testing.T) {
	dir := t.TempDir()
	broken, short := filepath.Join(dir, "broken"), filepath.Join(dir, "short")
	require.NoError(t, os.WriteFile(broken, []byte("no state"), 0o666))
	require.NoError(t, os.WriteFile(short, []byte("a text of a line"), 0o666))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no text":          {[]string{"-text", filepath.Join(dir, "none")}, 1, "none"},
		"short text":       {[]string{"-text", short}, 1, "-seq is 32"},
		"small vocabulary": {[]string{"-vocab", "50"}, 1, "91 characters"},
		"unknown device":   {[]string{"-device", "tpu"}, 2, `"tpu"`},
		"too small":        {[]string{"-device", "sim:21MiB", "-batch", "512"}, 1, "out of memory"},
		"no state":         {[]string{"-resume", filepath.Join(dir, "none")}, 1, "none"},
		"broken state":     {[]string{"-resume", broken}, 1, "broken"},
		"unwritable state": {[]string{"-steps", "0", "-save", filepath.Join(dir, "no", "file")}, 1, "no"},
		"unwritable JSON":  {[]string{"-steps", "0", "-json", filepath.Join(dir, "no", "file")}, 1, "-json cannot be written"},
		"heads":            {[]string{"-heads", "3"}, 2, "3 heads"},
		"precision":        {[]string{"-amp", "fp8"}, 2, `"fp8"`},
		"steps":            {[]string{"-steps", "-1"}, 2, "-steps is -1"},
		"argument":         {[]string{"what"}, 2, `"what"`},
		"temperature":      {[]string{"-temperature", "0"}, 2, "-temperature is 0"},
		"top-k":            {[]string{"-top-k", "-1"}, 2, "-top-k is -1"},
		"top-p":            {[]string{"-top-p", "1.5"}, 2, "-top-p is 1.5"},
		"penalty":          {[]string{"-repetition-penalty", "0"}, 2, "-repetition-penalty is 0"},
		"beam":             {[]string{"-beam", "-1"}, 2, "-beam is -1"},
		"absurd batch":     {[]string{"-device", "sim:1GiB", "-batch", "9223372036854775807"}, 2, "-batch is 9223372036854775807, must be 1 to 65536"},
		"large batch":      {[]string{"-device", "sim:1GiB", "-batch", "20000000"}, 2, "-batch is 20000000, must be"},
		"many tokens":      {[]string{"-batch", "65536", "-seq", "257"}, 2, "-batch is 65536 and -seq 257, their product must be at most 16777216"},
		"absurd layers":    {[]string{"-device", "sim:1GiB", "-layers", "1000000000"}, 2, "-layers is 1000000000, must be 1 to 10000"},
		"absurd width":     {[]string{"-width", "4611686018427387904"}, 2, "-width is 4611686018427387904, must be"},
		"absurd steps":     {[]string{"-steps", "9223372036854775807"}, 2, "-steps is 9223372036854775807, must be 0 to 1000000000"},
		"absurd beam":      {[]string{"-beam", "9223372036854775807"}, 2, "-beam is 9223372036854775807, must be 0 to 256"},
		"large beam":       {[]string{"-beam", "1000000000"}, 2, "-beam is 1000000000, must be"},
		"absurd text":      {[]string{"-sample", "9223372036854775807"}, 2, "-sample is 9223372036854775807, must be 0 to 100000"},
		"infinite rate":    {[]string{"-lr", "+Inf"}, 2, "-lr is +Inf, must be positive and finite"},
		"fraction":         {[]string{"-memory-fraction", "1.5"}, 2, "-memory-fraction is 1.5, must be 0 to 1"},
		"capacity":         {[]string{"-device", "sim:5"}, 2, "no unit"},
		"beam and greedy":  {[]string{"-beam", "2", "-greedy"}, 2, "exclude each other"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(append(append([]string{"-steps", "2"}, small...), c.args...), &stdout, &stderr), "%s", &stderr)
			require.Contains(t, stderr.String(), c.want)
			require.NotContains(t, stderr.String(), "still in use")
		})
	}
	dev, err := device.Open("host")
	require.NoError(t, err)
	_, bytes := dev.(*host.Device).Live()
	require.Zero(t, bytes, "the host device holds nothing any more")
}

// Nothing is computed there, so neither bar nor table may say how well it was.
func TestRun_OnASimulatedDeviceClaimsNothing(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-steps", "2", "-device", "sim:80GB"}, &stdout, &stderr), "%s", &stderr)
	require.NotRegexp(t, `(loss|losses|accuracy) +-?[0-9]|0\.0000`, stdout.String()+stderr.String())
	require.Contains(t, stdout.String(), "a simulated device does not compute")
}

// The state of an optimizer that goes on from a file is known before its next step, also where the program does not come to that.
func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, append(small, "-steps", "2", "-device", "sim:1GiB")...)
	file := filepath.Join(t.TempDir(), "run.state")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append(small[:len(small):len(small)], "-steps", "1", "-save", file), &stdout, &stderr), "%s", &stderr)
	sessiontest.MemoryReport(t, run, 1, append(small[:len(small):len(small)], "-resume", file, "-steps", "2", "-batch", "256", "-device", "sim:10MiB")...)
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	for _, more := range [][]string{nil, {"-checkpoint"}, {"-amp", "fp16"}} {
		sessiontest.Planned(t, run, append(append(small[:len(small):len(small)], "-steps", "8", "-dropout", "0.1"), more...)...)
	}
}
