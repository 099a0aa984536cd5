package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// measured runs the program on the host, small and without PyTorch unless args say otherwise.
func measured(t *testing.T, args ...string) (report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "attention.json")
	var out, errs bytes.Buffer
	all := append([]string{"-device", "host", "-shapes", "1x2x5x5x8,1x1x1x7x4,2x6x3x3x8:2", "-types", "float32,bfloat16", "-runs", "2", "-duration", "1us",
		"-python", "", "-json", file}, args...)
	require.Zero(t, run(all, &out, &errs), errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return r, out.String()
}

func TestRun_MeasuresEveryPassOnTheHost(t *testing.T) {
	r, table := measured(t)
	require.Len(t, r.Results, 2*(6+1+6), "three passes, causal or not; one query forward only")
	require.Equal(t, "left out: no -python", r.PyTorch)
	for _, x := range r.Results {
		require.Positive(t, x.Microseconds)
		require.InEpsilon(t, x.Flops/x.Microseconds/1e6, x.TFLOPS, 1e-9)
		require.GreaterOrEqual(t, *x.Peak, int64(512))
		require.Contains(t, table, x.shape.String())
		require.Contains(t, script, `"`+x.Pass+`"`, "the script has no such pass")
	}
}

func TestProblem_CountsOperationsByTheConvention(t *testing.T) {
	list := problems(shape{Batch: 2, Heads: 3, Queries: 4, Keys: 4, Width: 5}, tensor.Float16)
	require.InDelta(t, 4*2*3*4*4*5, list[0].flops(), 0)
	require.InDelta(t, 2.5*list[0].flops(), list[1].flops(), 0)
	require.InDelta(t, 3.5*list[0].flops(), list[2].flops(), 0)
	require.InDelta(t, list[0].flops()/2, list[3].flops(), 0)
	require.Len(t, problems(shape{Queries: 1, Keys: 9}, tensor.Float16), 1)
}

// Heads of keys that several of queries share give what copies of them give.
func TestOperands_GroupedAreAsCopiesOfTheirKeys(t *testing.T) {
	dev, err := device.Open("host")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	s, err := shapeOf("2x6x3x4x8:2")
	require.NoError(t, err)
	require.Equal(t, "2x6x3x4x8:2", s.String())
	o, err := newOperands(e, tensor.Float32, s)
	require.NoError(t, err)
	defer o.release()
	require.Equal(t, []int{2, 2, 4, 8}, []int(o.k.Shape()))
	result := func(o *operands, s shape) (values []float64) {
		call, end := o.call(&problem{shape: s, Pass: forward})
		defer end()
		require.NoError(t, call(func(y ...*tensor.Tensor) (err error) {
			require.Equal(t, []int{2, 6, 3, 8}, []int(y[0].Shape()))
			values, err = peer.Sample(y[0])
			return err
		}))
		return values
	}
	copies := func(x *tensor.Tensor) *tensor.Tensor {
		y, err := x.RepeatInterleave(3, 1)
		require.NoError(t, err)
		return y
	}
	all := &operands{exec: e, q: o.q.Retain(), k: copies(o.k), v: copies(o.v), grad: o.grad.Retain()}
	defer all.release()
	whole := s
	whole.Groups = s.Heads
	require.InDeltaSlice(t, result(all, whole), result(o, s), 1e-6)
}

// A stand-in for Python with PyTorch answers what the script would, and does not come to its end.
func TestRun_PutsPyTorchBesideTheSameProblem(t *testing.T) {
	problem := `"batch": 1, "heads": 1, "queries": 1, "keys": 7, "width": 4, "groups": 1, "type": "float32", "causal": false, "pass": "forward"`
	lines := `{"version": "PyTorch 9"}
{"errors": ["cudnn of float32 forward (no kernel)"]}
{"results": [{` + problem + `, "by": "flash", "seconds": [3, 1, 2], "peak": 2048, "issued": 0.5, "samples": {"result": [0, 0, 0, 1]}}]}
{"results": [{` + problem + `, "by": "math", "seconds": [4], "samples": {"result": [0, 0]}}]}
{"results": [{` + problem + `, "by": "default", "seconds": [1]}]}
{"results": [{"by": "math", "seconds": [4]}]}`
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n"+lines+"\nEND\nexec sleep 60\n"), 0o755))
	r, table := measured(t, "-shapes", "1x1x1x7x4", "-types", "float32", "-python", python, "-torch-limit", "500ms")
	require.Equal(t, "PyTorch 9; cut short: "+python+" took longer than 500ms", r.PyTorch)
	require.Equal(t, []string{"cudnn of float32 forward (no kernel)"}, r.Refused)
	require.Len(t, r.Results, 1)
	x := r.Results[0]
	require.Equal(t, "flash", x.Best)
	require.InEpsilon(t, x.Microseconds/2e6, x.OfPyTorch, 1e-9)
	require.Positive(t, *x.PyTorch["flash"].Difference)
	require.NotContains(t, table, "cudnn us")
	for _, want := range []string{"flash us", "math us", "default us", "PyTorch: without cudnn of float32", "2KiB", "2000000.0", "4000000.0"} {
		require.Contains(t, table, want)
	}
}

// One problem that does not fit, say, costs the numbers of no other.
func TestRun_MeasuresTheOthersIfOneFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "attention.json")
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "host", "-shapes", "1x1x1x70368744177664x1,1x1x1x4x4", "-types", "float32", "-runs", "1", "-duration", "1us",
		"-python", "", "-json", file}, &out, &errs))
	require.Contains(t, errs.String(), "one cell failed: operands of 1x1x1x70368744177664x1")
	require.Contains(t, out.String(), "FAILED operands of 1x1x1x70368744177664x1")
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.NotEmpty(t, r.Results)
	require.Len(t, r.Failed, 1)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-shapes", "1x2x3x4"}, {"-shapes", "1x2x3x4x0"}, {"-shapes", "1x6x3x4x8:4"}, {"-shapes", "1x6x3x4x8:0"}, {"-shapes", "1x6x3x4x8:"}, {"-shapes", "x"}, {"-types", "int32"}, {"-types", "x"}, {"-runs", "0"},
		{"-torch-limit", "0s"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), strings.Join(args, " "))
		require.Contains(t, errs.String(), "attention:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
