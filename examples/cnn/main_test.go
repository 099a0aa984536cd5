package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/classify"
	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
)

// folder writes a database of the first shipped digits.
func folder(t *testing.T, train, test int) string {
	t.Helper()
	dir := t.TempDir()
	trained, tested, err := dataset.Load("")
	require.NoError(t, err)
	write := func(name string, content []byte, header ...uint32) {
		var file []byte
		for _, n := range header {
			file = binary.BigEndian.AppendUint32(file, n)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), append(file, content...), 0o666))
	}
	for _, part := range []struct {
		name string
		from dataset.Set
		n    int
	}{{"train", trained, train}, {"t10k", tested, test}} {
		n, rows, cols := uint32(part.n), uint32(part.from.Rows), uint32(part.from.Cols)
		write(part.name+"-images-idx3-ubyte", part.from.Images[:n*rows*cols], 0x803, n, rows, cols)
		write(part.name+"-labels-idx1-ubyte", part.from.Labels[:n], 0x801, n)
	}
	return dir
}

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
	require.Equal(t, r.Leaf, r.AfterRelease, "after the release of the graphs only parameters, buffers and optimizer state are held")
	require.NotZero(t, r.Leaf)
	require.Zero(t, r.AtEnd)
	return r
}

func TestRun_LearnsAndGivesEverythingBack(t *testing.T) {
	r := figures(t, "-data", folder(t, 480, 200), "-epochs", "4", "-width", "4", "-batch", "12", "-lr", "2e-2")
	require.Greater(t, r.Accuracy, 0.6, "after 160 steps; a guess finds a tenth")
	require.Less(t, r.LastLoss, r.FirstLoss/2)
	require.Equal(t, 160, r.Steps)
	require.Equal(t, r.MallocsAfterTwo, r.DriverMallocs, "the driver is not asked after the second step")
}

func TestRun_IsReproducible(t *testing.T) {
	args := []string{"-data", folder(t, 64, 50), "-epochs", "1", "-width", "2", "-batch", "16", "-seed", "7"}
	once, again := figures(t, args...), figures(t, args...)
	require.Equal(t, once.FirstLoss, again.FirstLoss)
	require.Equal(t, once.LastLoss, again.LastLoss)
	require.Equal(t, once.Accuracy, again.Accuracy)
	require.NotEqual(t, once.LastLoss, figures(t, append(args, "-seed", "8")...).LastLoss)
}

// 100 images in batches of 24 also leave a smaller last batch.
func TestRun_TakesTheSameMemoryOnASimulatedDevice(t *testing.T) {
	args := []string{"-data", folder(t, 100, 50), "-epochs", "2", "-width", "4", "-batch", "24"}
	real := figures(t, args...)
	simulated := figures(t, append(args, "-device", "sim:80GiB")...)
	require.Equal(t, real.PeakAllocated, simulated.PeakAllocated)
	require.Equal(t, real.PeakReserved, simulated.PeakReserved)
	require.Equal(t, real.DriverMallocs, simulated.DriverMallocs)
	require.Equal(t, real.Leaf, simulated.Leaf)
}

// A step of the default network: what it holds does not depend on how many digits there are.
func TestRun_HoldsTheSameWhateverTheNumberOfDigits(t *testing.T) {
	few := figures(t, "-device", "sim:80GiB", "-data", folder(t, 128, 64), "-epochs", "1")
	shipped := figures(t, "-device", "sim:80GiB", "-epochs", "1")
	require.Equal(t, 125, shipped.Steps)
	require.Equal(t, few.PeakAllocated, shipped.PeakAllocated)
	require.Equal(t, few.Leaf, shipped.Leaf)
}

func TestRun_EndsWithOneClearErrorAndNoLeak(t *testing.T) {
	empty, digits := t.TempDir(), folder(t, 8, 8)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"missing data":      {[]string{"-data", empty}, 1, "train-images-idx3-ubyte"},
		"unknown device":    {[]string{"-device", "tpu"}, 2, `"tpu"`},
		"no CUDA":           {[]string{"-device", "cuda:99"}, 1, "cuda:99"},
		"device too small":  {[]string{"-device", "sim:30MiB", "-batch", "1000"}, 1, "out of memory"},
		"width too large":   {[]string{"-device", "sim:80GiB", "-width", "1048576"}, 1, "out of memory"},
		"fraction absurd":   {[]string{"-memory-fraction", "2"}, 2, "-memory-fraction is 2, must be 0 to 1"},
		"unwritable result": {[]string{"-device", "sim", "-data", digits, "-json", filepath.Join(empty, "no", "file")}, 1, "-json cannot be written"},
		"no channels":       {[]string{"-width", "0"}, 2, "-width is 0"},
		"absurd width":      {[]string{"-width", "1048577"}, 2, "-width is 1048577"},
		"no images":         {[]string{"-batch", "0"}, 2, "-batch is 0"},
		"no epochs":         {[]string{"-epochs", "0"}, 2, "-epochs is 0"},
		"no rate":           {[]string{"-lr", "0"}, 2, "-lr is 0"},
		"unknown flag":      {[]string{"-what"}, 2, "-what"},
		"argument":          {[]string{"what"}, 2, `"what"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(c.args, &stdout, &stderr), "%s", &stderr)
			require.Contains(t, stderr.String(), c.want)
			require.NotContains(t, stderr.String(), "still in use")
		})
	}
	dev, err := device.Open("host")
	require.NoError(t, err)
	_, live := dev.(*host.Device).Live()
	require.Zero(t, live, "the host device holds nothing any more")
}

func TestRun_ReportsWhereItsMemoryGoes(t *testing.T) {
	sessiontest.MemoryReport(t, run, 0, "-device", "sim:1GiB", "-epochs", "1")
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	sessiontest.Planned(t, run, "-epochs", "2", "-data", folder(t, 150, 50))
}
