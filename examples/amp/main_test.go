package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

var small = []string{"-layers", "2", "-width", "32", "-heads", "2", "-seq", "64", "-batch", "8"}

func figures(t *testing.T, args ...string) (r report, stdout string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var out, stderr bytes.Buffer
	require.Zero(t, run(append(append(append([]string{}, small...), args...), "-json", file), &out, &stderr), "%s", &stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Trainings, 3)
	return r, out.String()
}

func TestRun_ThreePrecisionsLearnTheSame(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "losses.png")
	r, text := figures(t, "-steps", "60", "-lr", "5e-3", "-plot", picture)
	single, half, brain := r.Trainings[0], r.Trainings[1], r.Trainings[2]
	require.Less(t, single.ValLoss, 3.3)
	for _, run := range []*training{half, brain} {
		require.InEpsilon(t, single.ValLoss, run.ValLoss, 0.02, run.Name)
		require.InEpsilon(t, single.Losses[0], run.Losses[0], 0.01)
		require.Less(t, run.PeakAllocated, single.PeakAllocated)
		require.Zero(t, run.AtEnd)
	}
	require.Contains(t, text, "float16 with GradScaler")
	png, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(png, []byte("\x89PNG")))
}

func TestRun_AnOverflowSkipsOneStepAndHalvesTheScale(t *testing.T) {
	r, text := figures(t, "-steps", "6", "-overflow", "3", "-plot", "")
	half := r.Trainings[1]
	require.Equal(t, overflow{Step: 4, ScaleBefore: 65536, ScaleAfter: 32768, Skipped: 1}, *half.Overflow)
	require.Equal(t, 1, half.Skipped)
	require.Nil(t, r.Trainings[0].Overflow)
	require.Zero(t, r.Trainings[0].Skipped+r.Trainings[2].Skipped)
	require.Contains(t, text, "1 step was left out, and the scale went from 65536 to 32768")
}

func TestRun_GivesMemoryFiguresWithoutComputing(t *testing.T) {
	computed, _ := figures(t, "-steps", "2", "-overflow", "0", "-plot", "")
	simulated, _ := figures(t, "-steps", "2", "-overflow", "0", "-device", "sim:80GiB", "-plot", "losses.png")
	for i, run := range computed.Trainings {
		require.Equal(t, run.PeakAllocated, simulated.Trainings[i].PeakAllocated, run.Name)
		require.Equal(t, run.PeakReserved, simulated.Trainings[i].PeakReserved, run.Name)
	}
	require.NoFileExists(t, "losses.png")
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-steps", "0"}, 2, "-steps is 0"},
		{[]string{"-plot", "losses.gif", "-steps", "1"}, 2, ".png or .svg"},
		{[]string{"-device", "tpu"}, 2, `"tpu"`},
		{[]string{"-batch", "9223372036854775807"}, 2, "-batch is 9223372036854775807, must be 1 to 65536"},
		{[]string{"-overflow", "-2"}, 2, "-overflow is -2, must be -1 to 1000000000"},
		{[]string{"what"}, 2, `"what"`},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.code, run(append(append([]string{}, small...), c.args...), &stdout, &stderr), "%v", c.args)
		require.Contains(t, stderr.String(), c.want)
	}
}

// Nothing is computed there, so neither bar nor table may say how well it was.
func TestRun_OnASimulatedDeviceClaimsNothing(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append(small, "-steps", "2", "-device", "sim:80GB", "-plot", ""), &stdout, &stderr), "%s", &stderr)
	require.NotRegexp(t, `(loss|losses|accuracy) +-?[0-9]|0\.0000`, stdout.String()+stderr.String())
	require.Contains(t, stdout.String(), "a simulated device does not compute")
}

func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, append(small, "-steps", "2", "-device", "sim:1GiB", "-plot", "")...)
}

// Each training has its own files: a later one does not write over those before.
func TestRun_KeepsTheFilesOfAllTrainings(t *testing.T) {
	dir := t.TempDir()
	figures(t, "-steps", "1", "-overflow", "0", "-device", "sim:1GiB", "-plot", "", "-memory-report", filepath.Join(dir, "report.txt"),
		"-snapshot", filepath.Join(dir, "run.pickle"), "-trace", filepath.Join(dir, "trace.json"))
	for _, name := range []string{"float32", "float16", "bfloat16"} {
		for _, file := range []string{"report-" + name + ".txt", "run-" + name + ".pickle", "trace-" + name + ".json"} {
			require.FileExists(t, filepath.Join(dir, file))
		}
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 9)
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run([]string{"-json", filepath.Join(dir, "x-float16.json"), "-memory-report", filepath.Join(dir, "x.json")}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "-json and -memory-report name one file")
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, append(small[:len(small):len(small)], "-steps", "8", "-plot", "")...)
}
