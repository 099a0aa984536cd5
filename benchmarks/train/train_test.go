package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
)

// inProcess trains our side in the test's own process.
func inProcess(_ context.Context, t *task) trained {
	var b bytes.Buffer
	err := t.train(&b)
	return trained{lines: parse(&b), err: err}
}

// measured runs the program with tiny models, on the host and without PyTorch unless args say otherwise.
func measured(t *testing.T, args ...string) (r report, table string) {
	t.Helper()
	return measuredBy(t, inProcess, args...)
}

// measuredBy is measured with our side trained by own.
func measuredBy(t *testing.T, own starter, args ...string) (r report, table string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "train.json")
	var out, errs bytes.Buffer
	require.Zero(t, run(append([]string{"-device", "host", "-quick", "-python", "", "-json", file}, args...), &out, &errs, own), errs.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r, out.String()
}

func TestRun_TrainsEveryModelOnTheHost(t *testing.T) {
	r, table := measured(t)
	require.Len(t, r.Results, len(programs))
	require.Equal(t, "left out: no PyTorch: no -python", r.PyTorch)
	for i, x := range r.Results {
		require.Equal(t, programs[i].Model, x.Model)
		require.Equal(t, programs[i].AMP, x.AMP)
		require.Len(t, x.Subjects, 1, "the host has no graphs")
		s := x.Subjects[0]
		require.Equal(t, "cistern", s.Name)
		require.Empty(t, s.Remark)
		require.Equal(t, x.Runs, s.Runs)
		require.Positive(t, s.First)
		require.LessOrEqual(t, s.Fastest, s.Microseconds)
		require.LessOrEqual(t, s.Microseconds, s.Slowest)
		require.InEpsilon(t, float64(x.Items)/s.Microseconds*1e6, s.Rate, 1e-9)
		require.Greater(t, s.Reserved, s.Allocated)
		require.Positive(t, s.Allocated)
		require.Len(t, s.Losses, 1+x.Runs)
		require.Less(t, s.Losses[x.Runs], s.Losses[0], "it learns")
		require.Contains(t, table, fmt.Sprintf("%.4f", s.Losses[x.Runs]))
	}
	gpt := r.Results[0]
	require.InDelta(t, math.Log(96), gpt.Subjects[0].Losses[0], 0.02, "at first all tokens are as likely")
	require.Positive(t, gpt.Subjects[0].TFLOPS)
	require.Equal(t, 2*16, gpt.Items)
}

func TestRun_PlanChangesMemoryNotNumbers(t *testing.T) {
	without, _ := measured(t, "-model", "gpt,mlp")
	with, table := measured(t, "-model", "gpt,mlp", "-plan")
	require.Regexp(t, `cistern: plan: [1-9]\d* requests served in 6 steps, 0 deviations`, table)
	for i, x := range with.Results {
		s, plain := x.Subjects[0], without.Results[i].Subjects[0]
		require.Equal(t, plain.Losses, s.Losses)
		require.LessOrEqual(t, s.Reserved, plain.Reserved, x.Model)
	}
}

func TestRun_ASimulatedDeviceTakesTheMemoryOfTheHost(t *testing.T) {
	for _, precision := range []string{"off", "fp16", "bf16"} {
		simulated, table := measured(t, "-device", "sim:1GiB", "-amp", precision)
		computed, _ := measured(t, "-amp", precision)
		for i, x := range simulated.Results {
			s, h := x.Subjects[0], computed.Results[i].Subjects[0]
			require.Equal(t, precision, x.AMP)
			require.Equal(t, h.Allocated, s.Allocated, x.Model)
			require.Equal(t, h.Reserved, s.Reserved, x.Model)
			require.Equal(t, h.Parameters, s.Parameters)
			require.Zero(t, s.Rate, "nothing is computed")
			require.Empty(t, s.Losses)
		}
		require.Contains(t, simulated.PyTorch, "no device like sim")
		require.NotContains(t, table, "NaN")
	}
}

func TestFlops_CountsParametersAndAttention(t *testing.T) {
	gpt := task{Kind: "gpt", Batch: 2, Layers: 3, Width: 4, Seq: 5}
	require.InDelta(t, 2*5*(6*(100-5*4)+12*3*4*5), gpt.flops(100), 1e-9)
	mlp := task{Kind: "mlp", Batch: 7}
	require.InDelta(t, 7*6*100, mlp.flops(100), 1e-9)
	require.Zero(t, (&task{Kind: "resnet", Batch: 7}).flops(100))
}

// python is a program that does what it is told for each mode, instead of PyTorch.
func python(t *testing.T, does map[string]string) string {
	t.Helper()
	text := "#!/bin/sh\ncase \"$2\" in\n"
	for mode, commands := range does {
		text += fmt.Sprintf("*'\"mode\":%q'*) %s ;;\n", mode, commands)
	}
	file := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(file, []byte(text+"esac\n"), 0o755))
	return file
}

// says is a command that writes lines.
func says(lines ...string) string { return "printf '%s\\n' '" + strings.Join(lines, "' '") + "'" }

const version = `{"version": "PyTorch 9"}`

func TestRun_PutsPyTorchBesideOurs(t *testing.T) {
	own, _ := measured(t, "-model", "resnet50")
	n := own.Results[0].Subjects[0].Parameters
	count := fmt.Sprintf(`{"parameters": %d}`, n)
	peer := python(t, map[string]string{
		eager: says(version, count, `{"first_step_s": 7, "loss": 2}`, "W1122 a warning of a library", `{"seconds": 4, "loss": 1, "peak_allocated_bytes": 1000}`,
			`{"seconds": 8, "loss": 0.5, "peak_allocated_bytes": 2000, "peak_reserved_bytes": 3000}`),
		contiguous: says(version, `{"parameters": 5}`, `{"seconds": 4}`),
		compiled:   says(version, count, `{"error": "no compiler"}`) + "; echo much >&2",
	})
	r, table := measured(t, "-model", "resnet50", "-python", peer)
	require.Equal(t, "PyTorch 9", r.PyTorch)
	x := r.Results[0]
	require.Len(t, x.Subjects, 4)
	ours, s := x.Subjects[0], x.find("pytorch eager")
	require.Nil(t, ours.Ratios)
	require.InDelta(t, 3e6, s.Microseconds, 1e-6, "2 steps a run")
	require.InDelta(t, 2e6, s.Fastest, 1e-6)
	require.InDelta(t, 2/3., s.Rate, 1e-9)
	require.InDelta(t, 7, s.First, 0)
	require.Equal(t, []float64{2, 1, 0.5}, s.Losses)
	require.InEpsilon(t, ours.Rate/s.Rate, s.Ratios.Rate, 1e-9)
	require.InEpsilon(t, float64(ours.Allocated)/2000, s.Ratios.Allocated, 1e-9)
	require.InEpsilon(t, float64(ours.Reserved)/3000, s.Ratios.Reserved, 1e-9)
	other := x.find("pytorch contiguous")
	require.Nil(t, other.Ratios)
	require.Equal(t, fmt.Sprintf("not compared: 5 parameters, ours have %d", n), other.Remark)
	require.Equal(t, "no compiler", x.find("pytorch compile").Remark)
	require.Contains(t, table, "resnet50 fp16, pytorch compile: no compiler")
}

func TestRun_WhatWasMeasuredBeforeALimitCounts(t *testing.T) {
	peer := python(t, map[string]string{
		eager:    says(version, `{"seconds": 4}`) + "; printf '{\"seconds\": 4'; exec sleep 600",
		compiled: "echo first >&2; echo last >&2; exit 3",
	})
	r, _ := measured(t, "-model", "mlp", "-modes", "eager,compile", "-python", peer, "-limit", "1s")
	x := r.Results[0]
	require.Equal(t, 1, x.find("pytorch eager").Runs)
	require.Equal(t, "stopped after 1s", x.find("pytorch eager").Remark)
	require.Equal(t, "exit status 3: last", x.find("pytorch compile").Remark)
}

func TestRun_NothingBeginsAfterTheBudget(t *testing.T) {
	peer := python(t, map[string]string{eager: "exec sleep 600"})
	r, _ := measured(t, "-model", "gpt,mlp", "-modes", "eager", "-python", peer, "-budget", "1s")
	require.Equal(t, "the time of -budget is over", r.Results[0].find("pytorch eager").Remark)
	for _, s := range r.Results[1].Subjects {
		require.Equal(t, "not run: the time of -budget is over", s.Remark)
	}
}

func TestRun_AsksTheNextPythonIfOneHasNoPyTorchAndThenNoMore(t *testing.T) {
	none := python(t, map[string]string{eager: says(`{"error": "no CUDA", "none": true}`), compiled: "echo asked; exit 1"})
	good := python(t, map[string]string{eager: says(version)})
	list := "/no/such/python" + string(os.PathListSeparator) + none
	r, _ := measured(t, "-model", "mlp", "-python", list)
	require.Contains(t, r.PyTorch, "left out: no PyTorch; exec: ")
	require.Contains(t, r.PyTorch, none+": no CUDA")
	require.Len(t, r.Results[0].Subjects, 1)
	r, _ = measured(t, "-model", "mlp", "-modes", "eager", "-python", list+string(os.PathListSeparator)+good)
	require.Equal(t, "PyTorch 9", r.PyTorch)
}

func TestRun_OurErrorsAreRemarksToo(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"-quick", "-python", "", "-model", "mlp,gpt", "-device", "sim:1MiB"}
	require.Equal(t, 1, run(args, &out, &errs, inProcess))
	require.Contains(t, errs.String(), "nothing was trained")
	require.Contains(t, out.String(), "mlp off, cistern: ")
	require.Contains(t, out.String(), "out of memory")
	dev, err := device.Open("host")
	require.NoError(t, err)
	_, live := dev.(*host.Device).Live()
	require.Zero(t, live, "the host device holds nothing any more")
}

func TestRun_AChildTrainsItsTask(t *testing.T) {
	q := programs[3].quick
	q.Warm, q.Runs, q.Steps, q.Mode, q.Device = 1, 1, 1, eager, "host"
	text, err := json.Marshal(&q)
	require.NoError(t, err)
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-child", string(text)}, &out, &errs, nil), errs.String())
	lines := parse(&out)
	require.Equal(t, 276, lines[0].Parameters)
	require.Positive(t, lines[2].Seconds)
	require.Equal(t, 1, run([]string{"-child", "{"}, &out, &errs, nil))
	q.Device = "cuda:99"
	text, err = json.Marshal(&q)
	require.NoError(t, err)
	require.Equal(t, 1, run([]string{"-child", string(text)}, &out, &errs, nil))
}

// Here PyTorch itself says whether both sides train the same: from the same weights on the same batch, in float32 with sums in
// another order.
func TestRun_PyTorchLearnsTheSame(t *testing.T) {
	if !fulltests.Enabled() {
		t.Skipf("PyTorch trains with %s=1", fulltests.Variable)
	}
	var found string
	for _, p := range filepath.SplitList(torch.Python) {
		if exec.Command(p, "-c", "import torch").Run() == nil {
			found = p
			break
		}
	}
	if found == "" {
		t.Skip("no Python of " + torch.Python + " has PyTorch")
	}
	t.Setenv("OMP_NUM_THREADS", "1")
	t.Setenv("OMP_WAIT_POLICY", "PASSIVE")
	r, _ := measured(t, "-amp", "off", "-modes", "eager,contiguous", "-python", found)
	for _, x := range r.Results {
		for _, s := range x.Subjects[1:] {
			require.Empty(t, s.Remark)
			require.Equal(t, x.Subjects[0].Parameters, s.Parameters)
			require.InDeltaSlice(t, x.Subjects[0].Losses, s.Losses, 1e-3, "%s, %s", x.Model, s.Name)
			require.Positive(t, s.Ratios.Rate)
		}
	}
	require.Len(t, r.Results[1].Subjects, 3)
}

// emulated trains our side on an emulated GPU, which must have nothing in use afterwards.
func emulated(t *testing.T) (own starter, rig *cudatest.Rig) {
	t.Helper()
	dev, rig := emulatedtest.New(t)
	return func(_ context.Context, q *task) trained {
		var b bytes.Buffer
		err := q.trainOn(dev, &b)
		require.NoError(t, memory.Drop(dev), "nothing is in use any more")
		return trained{lines: parse(&b), err: err}
	}, rig
}

// On the emulated driver, whole steps as graphs learn what the steps themselves do, bit for bit, and are measured beside them and PyTorch's.
func TestRun_MeasuresCapturedStepsBesideEagerOnes(t *testing.T) {
	own, rig := emulated(t)
	peer := python(t, map[string]string{
		eager: says(version, `{"seconds": 4}`),
		graph: says(version, `{"seconds": 2}`),
	})
	r, table := measuredBy(t, own, "-device", "cuda:0", "-model", "gpt2,mlp", "-modes", "eager,graph", "-python", peer)
	require.Equal(t, 2*(1+2*2), rig.Calls()["cuGraphLaunch"], "of each model's last step that does not count, and of two runs of two")
	require.Len(t, r.Results, 2)
	for _, x := range r.Results {
		plain, captured := x.find("cistern"), x.find("cistern graph")
		require.Empty(t, captured.Remark)
		require.Len(t, plain.Losses, 3)
		require.Less(t, plain.Losses[2], plain.Losses[0])
		require.Equal(t, plain.Losses, captured.Losses, x.Model)
		require.Positive(t, captured.Allocated)
		require.Zero(t, plain.OfEager)
		require.InEpsilon(t, captured.Rate/plain.Rate, captured.OfEager, 1e-9)
		require.InDelta(t, 2, x.find("pytorch graph").OfEager, 1e-9)
		require.Contains(t, table, fmt.Sprintf("%.2f", captured.OfEager))
	}
}

// The scaler of float16, and the one eager step that there must be before a capture.
func TestRun_CapturesStepsInFloat16(t *testing.T) {
	own, _ := emulated(t)
	r, _ := measuredBy(t, own, "-device", "cuda:0", "-model", "gpt", "-amp", "fp16", "-modes", "eager,graph", "-warm", "1")
	plain, captured := r.Results[0].find("cistern"), r.Results[0].find("cistern graph")
	require.Empty(t, captured.Remark)
	require.Equal(t, plain.Losses[0], captured.Losses[0])
	require.Len(t, captured.Losses, 3)
}

// Elsewhere nothing is captured, and nothing is called a graph.
func TestTrain_RefusesToCaptureOnTheHost(t *testing.T) {
	q := programs[3].quick
	q.Warm, q.Runs, q.Steps, q.Mode, q.Device = leastWarm, 1, 1, graph, "host"
	require.ErrorContains(t, q.train(io.Discard), "captured on a GPU")
}

func TestProcess_IsStoppedByASignal(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := &options{limit: time.Minute, stderr: &bytes.Buffer{}}
	r := o.process(ctx, nil, "/bin/sh", "-c", "exec sleep 600")
	require.EqualError(t, r.err, "interrupted")
}

func TestTelling_IsThePanicOrTheLastLine(t *testing.T) {
	require.Equal(t, "last", telling("first\nlast\n"))
	require.Equal(t, "panic: index out of range", telling("first\npanic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n"))
	require.Equal(t, "fatal error: unexpected signal", telling("fatal error: unexpected signal\n[signal SIGSEGV]\n"))
	require.Empty(t, telling(""))
}

func TestEnd_BeginsWithALine(t *testing.T) {
	require.Equal(t, "short\n", end("short\n"))
	long := strings.Repeat("0123456789\n", most)
	require.True(t, strings.HasPrefix(end(long), "0123456789\n"))
	require.LessOrEqual(t, len(end(long)), most)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-model", "bert"}, {"-modes", "fast"}, {"-amp", "fp8"}, {"-limit", "0s"}, {"-budget", "-1s"}, {"-steps", "-1"},
		{"-batch", "-1"}, {"-seq", "-1"}, {"-image", "-3"}, {"-heads", "5"}, {"-what"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs, nil), strings.Join(args, " "))
		require.Contains(t, errs.String(), "train:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "tpu"}, &out, &errs, nil))
	require.Equal(t, 1, run([]string{"-device", "host", "-quick", "-model", "mlp", "-python", "", "-json", filepath.Join(t.TempDir(), "no", "file")},
		&out, &errs, inProcess))
	require.Zero(t, run([]string{"-h"}, &out, &errs, nil))
}
