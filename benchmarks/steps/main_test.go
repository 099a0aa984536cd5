package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
)

// figures runs the program and returns its JSON and what it prints.
func figures(t *testing.T, args ...string) (r report, stdout string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var out, stderr bytes.Buffer
	require.Zero(t, run(append(args, "-json", file), &out, &stderr), "%s", &stderr)
	require.Empty(t, stderr.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r, out.String()
}

// one is the result of a run of one model.
func one(t *testing.T, args ...string) Result {
	t.Helper()
	r, _ := figures(t, args...)
	require.Len(t, r.Results, 1)
	return *r.Results[0]
}

func TestRun_MeasuresEveryModel(t *testing.T) {
	r, text := figures(t, "-steps", "5")
	require.Equal(t, "sim:80GiB", r.Device)
	require.NotEmpty(t, r.Machine.CPU)
	require.Nil(t, r.Curve)
	var models []string
	for _, x := range r.Results {
		models = append(models, x.Model)
		require.Contains(t, text, x.Model)
		require.Positive(t, x.PeakAllocated)
		require.GreaterOrEqual(t, x.PeakReserved, x.PeakAllocated)
		require.Positive(t, x.DriverMallocs)
		require.Zero(t, x.StepsPerSecond, "a simulated device does not compute")
		require.Zero(t, x.PyTorchAllocated, "nothing to compare with was given")
	}
	require.Equal(t, names()[:len(models)], models, "all but those that must be named")
	gpt := slices.IndexFunc(r.Results, func(x *Result) bool { return x.Model == "gpt" })
	require.Less(t, r.Results[gpt+1].PeakAllocated, r.Results[gpt].PeakAllocated, "checkpointing saves memory")
}

// The recording is of PyTorch 2.6's allocator under the same model, batch and optimizer.
func TestRun_TakesNoMoreThanPyTorch(t *testing.T) {
	const traces = "../internal/replay/testdata"
	r, text := figures(t, "-model", "mlp", "-traces", traces)
	x := r.Results[0]
	require.Positive(t, x.PyTorchAllocated)
	require.LessOrEqual(t, x.PeakAllocated, x.PyTorchAllocated)
	require.LessOrEqual(t, x.PeakReserved, x.PyTorchReserved)
	require.Contains(t, text, ratio(x.PeakAllocated, x.PyTorchAllocated))
	require.Zero(t, one(t, "-model", "mlp", "-traces", traces, "-batch", "8").PyTorchAllocated, "another batch has no recording")
}

func TestRun_LargerBatchesTakeMoreAndHalfPrecisionLess(t *testing.T) {
	args := []string{"-model", "gpt", "-steps", "2", "-seq", "64"}
	small := one(t, append(args, "-batch", "2")...)
	require.Equal(t, Result{Model: "gpt", Batch: 2, Seq: 64, AMP: "off", Steps: 2,
		PeakAllocated: small.PeakAllocated, PeakReserved: small.PeakReserved, DriverMallocs: small.DriverMallocs}, small)
	large := one(t, append(args, "-batch", "32")...)
	require.Greater(t, large.PeakAllocated, small.PeakAllocated)
	for _, precision := range []string{"fp16", "bf16"} {
		require.Less(t, one(t, append(args, "-batch", "32", "-amp", precision)...).PeakAllocated, large.PeakAllocated)
	}
}

func TestRun_HostAndSimulatedDeviceTakeTheSame(t *testing.T) {
	for _, args := range [][]string{
		{"-model", "mlp", "-batch", "5", "-steps", "3"},
		{"-model", "resnet", "-batch", "1", "-steps", "2"},
		{"-model", "gpt", "-batch", "1", "-seq", "7", "-steps", "2"},
	} {
		simulated := one(t, args...)
		computed := one(t, append(args, "-device", "host")...)
		require.Positive(t, computed.StepsPerSecond)
		computed.StepsPerSecond = 0
		require.Equal(t, simulated, computed)
	}
}

func TestRun_TheCurveOverVaryingShapesIsFlat(t *testing.T) {
	r, text := figures(t, "-varying", "24")
	require.Empty(t, r.Results)
	c := r.Curve
	require.Equal(t, 24, c.Steps)
	require.Positive(t, c.AllocatedFirst)
	require.Equal(t, c.AllocatedFirst, c.AllocatedLast)
	require.Equal(t, c.AllocatedFirst, c.AllocatedLowest)
	require.Equal(t, c.AllocatedFirst, c.AllocatedHighest, "after each step parameters and the optimizer's state are left, nothing else")
	require.Greater(t, c.PeakAllocated, c.AllocatedHighest)
	require.GreaterOrEqual(t, c.ReservedLast, c.ReservedHalf)
	require.GreaterOrEqual(t, c.ReservedLast, c.PeakAllocated)
	require.Contains(t, text, "24 steps of varying shapes")
}

func TestRun_ACurveMayBeShorterThanTheStepsOfAModel(t *testing.T) {
	r, _ := figures(t, "-varying", "2", "-steps", "6")
	require.Equal(t, 2, r.Curve.Steps)
	require.Equal(t, r.Curve.AllocatedFirst, r.Curve.AllocatedLast)
}

func TestVarying_LengthsAreTheSameEachTimeAndCoverTheirRange(t *testing.T) {
	lengths := varying(1000)
	require.Equal(t, lengths[:10], varying(10))
	require.Equal(t, 32, slices.Min(lengths))
	require.Equal(t, 256, slices.Max(lengths))
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown device":  {[]string{"-device", "tpu"}, 1, `"tpu"`},
		"no recordings":   {[]string{"-traces", dir}, 1, "mlp: open " + filepath.Join(dir, "expected", "mlp_adam.default.json.gz")},
		"too small":       {[]string{"-device", "sim:100MiB", "-model", "resnet"}, 1, "out of memory"},
		"unwritable JSON": {[]string{"-json", filepath.Join(dir, "no", "file")}, 1, "-json cannot be written"},
		"model":           {[]string{"-model", "bert"}, 2, `"bert"`},
		"precision":       {[]string{"-amp", "fp8"}, 2, `"fp8"`},
		"steps":           {[]string{"-steps", "0"}, 2, "-steps 0"},
		"batch":           {[]string{"-batch", "-1"}, 2, "-batch -1"},
		"length":          {[]string{"-seq", "-1"}, 2, "-seq -1"},
		"curve":           {[]string{"-varying", "-1"}, 2, "-varying -1"},
		"curve of a step": {[]string{"-varying", "1"}, 2, "-varying is 1"},
		"flag":            {[]string{"-what"}, 2, "-what"},
		"argument":        {[]string{"what"}, 2, `"what"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(append([]string{"-model", "mlp", "-steps", "1"}, c.args...), &stdout, &stderr), "%s", &stderr)
			require.Contains(t, stderr.String(), c.want)
			require.NotContains(t, stderr.String(), "still in use")
		})
	}
	dev, err := device.Open("host")
	require.NoError(t, err)
	_, live := dev.(*host.Device).Live()
	require.Zero(t, live, "the host device holds nothing any more")
}

func TestRun_TellsOfThePlan(t *testing.T) {
	args := []string{"-model", "resnet", "-steps", "6"}
	require.Nil(t, one(t, args...).Plan)
	r, text := figures(t, append(args, "-plan")...)
	require.Contains(t, text, "resnet: plan, ")
	plan := r.Results[0].Plan
	require.Equal(t, 7, plan.Steps, "the evaluation is one too")
	require.Greater(t, plan.Served, 100*plan.Deviations)
	require.Less(t, r.Results[0].PeakReserved, one(t, args...).PeakReserved)

	r, text = figures(t, "-varying", "3", "-plan")
	require.Contains(t, text, "\nplan ")
	require.Equal(t, 3, r.Curve.Plan.Steps)
}
