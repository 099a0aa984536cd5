package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
)

func TestRun_MeasuresEveryProblemOnTheHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gemm.json")
	var out, errs bytes.Buffer
	code := run([]string{"-device", "host", "-sizes", "16,8x24x32", "-python", "", "-types", "float32,bfloat16", "-runs", "3", "-duration", "100us", "-json", file}, &out, &errs)
	require.Zero(t, code, errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Len(t, r.Results, 2*2*len(problems(shape{})))
	require.Equal(t, "left out: no -python", r.PyTorch)
	for _, c := range r.Results {
		require.Positive(t, c.Microseconds)
		require.LessOrEqual(t, c.Fastest, c.Microseconds)
		require.GreaterOrEqual(t, c.Slowest, c.Microseconds)
		require.InEpsilon(t, 2*float64(c.M)*float64(c.N)*float64(c.K)/c.Microseconds/1e6, c.TFLOPS, 1e-9)
		require.Contains(t, out.String(), c.Problem)
	}
}

// A stand-in for Python with PyTorch answers what the script would.
func TestRun_PutsPyTorchBesideTheSameProblem(t *testing.T) {
	dir := t.TempDir()
	answer := `{"version": "PyTorch 9", "results": [
		{"problem": "product", "type": "float32", "m": 16, "n": 16, "k": 16, "tf32": false, "seconds": [3, 1, 2]},
		{"problem": "product", "type": "float32", "m": 16, "n": 16, "k": 16, "tf32": true, "seconds": [1]},
		{"problem": "one row", "type": "float32", "m": 1, "n": 16, "k": 16, "tf32": false, "seconds": []}]}`
	python := filepath.Join(dir, "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n"+answer+"\nEND\n"), 0o755))
	var out, errs bytes.Buffer
	file := filepath.Join(dir, "gemm.json")
	code := run([]string{"-device", "host", "-sizes", "16", "-types", "float32", "-runs", "1", "-duration", "1us", "-python", python, "-json", file}, &out, &errs)
	require.Zero(t, code, errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Equal(t, "PyTorch 9; without one row of float32", r.PyTorch)
	require.Len(t, r.Results, len(problems(shape{}))+2)
	require.Equal(t, product, r.Results[0].Problem)
	require.InEpsilon(t, 2e6/r.Results[0].Microseconds, r.Results[0].OfPyTorch, 1e-9)
	require.Zero(t, r.Results[1].OfPyTorch)
	require.Equal(t, "pytorch tf32", r.Results[5].Subject)
	require.InDelta(t, 1, r.Results[5].OfPyTorch, 1e-9)
}

func TestReport_ComparesAtTheSamePrecision(t *testing.T) {
	cell := func(subject string, us float64) *result {
		return &result{Problem: product, Type: "float32", M: 1, N: 2, K: 3, Subject: subject, Spread: timing.Spread{Microseconds: us}}
	}
	r := report{Results: []*result{cell("own", 20), cell("cublas", 10), cell("cublas tf32", 2), cell("pytorch tf32", 4)}}
	r.Results = append(r.Results, &result{Problem: product, Type: "float16", Subject: "own", Spread: timing.Spread{Microseconds: 1}})
	r.compare()
	require.InDelta(t, 0.5, r.Results[0].OfCUBLAS, 1e-9)
	require.Zero(t, r.Results[0].OfPyTorch)
	require.InDelta(t, 2, r.Results[2].OfPyTorch, 1e-9)
	require.InDelta(t, 0.5, r.Results[3].OfCUBLAS, 1e-9)
	require.Zero(t, r.Results[4].OfCUBLAS)
}

func TestRun_GoesOnAfterACellThatFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gemm.json")
	var out, errs bytes.Buffer
	code := run([]string{"-device", "host:32MiB", "-sizes", "4096,16", "-python", "", "-types", "float32", "-runs", "1", "-duration", "1us", "-json", file}, &out, &errs)
	require.Equal(t, 1, code)
	require.Contains(t, errs.String(), "one cell failed: float32 of 4096x4096x4096")
	require.Contains(t, out.String(), "FAILED float32 of 4096x4096x4096")
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Len(t, r.Failed, 1)
	require.Len(t, r.Results, len(problems(shape{})), "those of the other size")
}

func TestFolders_AreNoPartOfAReport(t *testing.T) {
	require.Equal(t, "cuBLAS 130100, libcublas.so.13, with", folders.ReplaceAllString("cuBLAS 130100, /usr/local/cuda-13/lib64/libcublas.so.13, with", ""))
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-sizes", "0"}, {"-sizes", "x"}, {"-sizes", "2x3"}, {"-sizes", "2x3x0"}, {"-types", "int32"}, {"-types", "float17"}, {"-runs", "0"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
		require.Contains(t, errs.String(), "gemm:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
