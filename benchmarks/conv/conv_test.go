package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// measured runs the program on the host, small and without PyTorch unless args say otherwise.
func measured(t *testing.T, args ...string) (report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "conv.json")
	var out, errs bytes.Buffer
	all := append([]string{"-device", "host", "-shapes", "2x4x6x6:8x3x3:1:1,1x4x5x4:4x3x2:2:1:4", "-types", "float32,bfloat16", "-runs", "2",
		"-duration", "1us", "-python", "", "-json", file}, args...)
	require.Zero(t, run(all, &out, &errs), errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return r, out.String()
}

func TestRun_MeasuresEveryPassOnTheHost(t *testing.T) {
	r, table := measured(t)
	require.Len(t, r.Results, 2*2*len(passes()))
	require.Equal(t, "left out: no -python", r.PyTorch)
	for _, x := range r.Results {
		require.Positive(t, x.Microseconds)
		require.Positive(t, x.Strided.Microseconds)
		require.InEpsilon(t, x.Flops/x.Microseconds/1e6, x.TFLOPS, 1e-9)
		require.GreaterOrEqual(t, *x.Peak, int64(512))
		require.Contains(t, table, x.shape.String())
		require.Contains(t, script, `"`+x.Pass+`"`, "the script has no such pass")
	}
	r, _ = measured(t, "-strided=false")
	require.Nil(t, r.Results[0].Strided)
}

func TestShape_CountsOperationsOfTheResult(t *testing.T) {
	s, err := shapeOf("2x4x9x7:8x3x3:2:1:4")
	require.NoError(t, err)
	h, w := s.result()
	require.Equal(t, [2]int{5, 4}, [2]int{h, w})
	require.InDelta(t, 2*2*8*5*4*1*3*3, s.flops(), 0)
	s, err = shapeOf("1x3x4x5:6x1x1")
	require.NoError(t, err)
	require.Equal(t, "1x3x4x5:6x1x1:1:0:1", s.String())
}

// Operands with their channels last give the same results, which lie so as well.
func TestOperands_StridedAreTheSame(t *testing.T) {
	dev, err := device.Open("host")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	s, err := shapeOf("2x4x6x6:8x3x3:1:1")
	require.NoError(t, err)
	o, err := newOperands(e, tensor.Float32, s)
	require.NoError(t, err)
	defer o.release()
	turned, err := o.strided()
	require.NoError(t, err)
	defer turned.release()
	for _, p := range passes() {
		var values [2][]float64
		for i, in := range []*operands{o, turned} {
			y, err := p.run(in, s)
			require.NoError(t, err)
			require.True(t, y.IsContiguousIn([]tensor.MemoryFormat{tensor.ContiguousFormat, tensor.ChannelsLast}[i]), p.name)
			values[i], err = peer.Sample(y)
			y.Release()
			require.NoError(t, err)
		}
		require.InDeltaSlice(t, values[0], values[1], 1e-4, p.name)
	}
}

// On an emulated GPU all passes are measured in half precision, gradients of kernels as the tensor cores compute them, in groups too; and what
// is compared with PyTorch's is what the host computes but for the last bit.
func TestMeasureShape_OfHalfPrecisionOnAGPU(t *testing.T) {
	dev, _ := emulatedtest.New(t)
	cpu := host.New()
	defer func() {
		require.NoError(t, memory.Drop(cpu))
		require.NoError(t, cpu.Close())
	}()
	profile, err := dev.StartProfile()
	require.NoError(t, err)
	for _, text := range []string{"2x32x6x6:32x3x3:1:1", "2x64x6x6:64x3x3:2:1:2"} {
		s, err := shapeOf(text)
		require.NoError(t, err)
		for d, last := range map[tensor.DType]float64{tensor.Float16: 0x1p-10, tensor.BFloat16: 0x1p-7} {
			e, err := tensor.On(dev)
			require.NoError(t, err)
			o, r := &options{Flags: harness.Flags{Runs: 1, Duration: time.Microsecond}, strided: true}, &report{}
			o.measureShape(r, e, d, s)
			require.Empty(t, r.Failed)
			require.Len(t, r.Results, len(passes()))
			for _, x := range r.Results {
				require.Positive(t, x.Microseconds)
				require.Positive(t, x.Strided.Microseconds)
			}
			got, want := sampled(t, dev, d, s), sampled(t, cpu, d, s)
			for i, p := range passes() {
				require.InDeltaSlice(t, want[i], got[i], last*slices.Max(want[i]), "%s %s %s", text, d, p.name)
			}
		}
	}
	require.NoError(t, memory.Drop(dev), "nothing is in use any more")
	profile.Stop()
	var totals bytes.Buffer
	require.NoError(t, profile.WriteTotals(&totals))
	for _, kernel := range []string{"conv_weight_last_64_f16 ", "conv_weight_last_64_bf16"} {
		require.Regexp(t, kernel+` +2 shapes\n`, totals.String(), "of both shapes")
	}
}

// sampled are samples of the results of all passes.
func sampled(t *testing.T, dev device.Device, d tensor.DType, s shape) (all [][]float64) {
	t.Helper()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	o, err := newOperands(e, d, s)
	require.NoError(t, err)
	defer o.release()
	for _, p := range passes() {
		y, err := p.run(o, s)
		require.NoError(t, err)
		values, err := peer.Sample(y)
		y.Release()
		require.NoError(t, err)
		all = append(all, values)
	}
	return all
}

// A stand-in for Python with PyTorch answers what the script would.
func TestRun_PutsPyTorchBesideTheSameProblem(t *testing.T) {
	problem := `"n": 1, "c": 2, "h": 3, "w": 3, "o": 2, "kh": 1, "kw": 1, "stride": 1, "padding": 0, "groups": 1, "type": "float32", "pass": "weight"`
	lines := `{"version": "PyTorch 9"}
{"results": [{` + problem + `, "by": "nchw", "seconds": [3, 1, 2], "peak": 2048, "samples": {"result": [0, 0, 0, 1]}}]}
{"results": [{` + problem + `, "by": "channels last", "seconds": [4]}, {` + problem + `, "by": "nchw tf32", "seconds": [1]}]}`
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n"+lines+"\nEND\n"), 0o755))
	r, table := measured(t, "-shapes", "1x2x3x3:2x1x1", "-types", "float32", "-python", python)
	require.Equal(t, "PyTorch 9", r.PyTorch)
	require.Len(t, r.Results, 3)
	require.Nil(t, r.Results[0].PyTorch)
	x := r.Results[2]
	require.Equal(t, "nchw", x.Best, "what is rounded is not the same")
	require.InEpsilon(t, x.Microseconds/2e6, x.OfPyTorch, 1e-9)
	require.Positive(t, *x.PyTorch["nchw"].Difference)
	for _, want := range []string{"nchw us", "channels last us", "nchw tf32 us", "2KiB", "2000000.0"} {
		require.Contains(t, table, want)
	}
	require.NotContains(t, table, "channels last tf32")
}

// One problem that does not fit, say, costs the numbers of no other.
func TestRun_MeasuresTheOthersIfOneFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "conv.json")
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "host", "-shapes", "70368744177664x1x1x1:1x1x1:1:0:1,1x1x2x2:1x1x1", "-types", "float32", "-runs", "1", "-duration", "1us",
		"-python", "", "-json", file}, &out, &errs))
	require.Contains(t, errs.String(), "one cell failed: operands of 70368744177664x1x1x1:1x1x1:1:0:1")
	require.Contains(t, out.String(), "FAILED operands of 70368744177664x1x1x1:1x1x1:1:0:1")
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.NotEmpty(t, r.Results)
	require.Len(t, r.Failed, 1)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-shapes", "1x2x3x4"}, {"-shapes", "1x2x3x4:2x2"}, {"-shapes", "1x2x3x4:2x9x1"}, {"-shapes", "1x3x3x4:2x1x1:1:0:2"},
		{"-shapes", "1x2x3x4:2x1x1:0"}, {"-shapes", "1x2x3x4:2x1x1:1:-1"}, {"-shapes", "1x2x3x4:2x1x1:1:0:1:1"}, {"-types", "int32"}, {"-types", "x"},
		{"-runs", "0"}, {"-torch-limit", "0s"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), strings.Join(args, " "))
		require.Contains(t, errs.String(), "conv:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
