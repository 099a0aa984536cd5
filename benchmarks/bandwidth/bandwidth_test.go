package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor/dtype"
)

// measured runs the program on the host, small and without PyTorch unless args say otherwise.
func measured(t *testing.T, args ...string) (report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bandwidth.json")
	var out, errs bytes.Buffer
	all := append([]string{"-device", "host", "-sizes", "128KiB", "-runs", "3", "-duration", "1us", "-python", "", "-json", file}, args...)
	require.Zero(t, run(all, &out, &errs), errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return r, out.String()
}

func TestRun_MeasuresEveryOperationOnTheHost(t *testing.T) {
	r, table := measured(t, "-types", "float32,bfloat16")
	want := 0
	for _, p := range operations() {
		for _, d := range []dtype.DType{dtype.Float32, dtype.BFloat16} {
			if p.only == 0 || p.only == d {
				want++
			}
		}
		require.Contains(t, table, p.name)
		require.Contains(t, script, fmt.Sprintf("%q", p.name), "the script has no such operation")
	}
	require.Len(t, r.Results, want)
	require.Equal(t, "left out: no -python", r.PyTorch)
	for _, x := range r.Results {
		require.LessOrEqual(t, x.Fastest, x.Microseconds)
		require.GreaterOrEqual(t, x.Slowest, x.Microseconds)
		require.InEpsilon(t, float64(x.Bytes)/x.Microseconds/1e3, x.GBs, 1e-9)
		if x.Operation == memcpy {
			require.Equal(t, 2*x.Size, x.Bytes)
			require.InDelta(t, 1, x.OfCopy, 1e-9)
		}
	}
}

func TestRun_MeasuresTheChosenOperationsBesideTheCopy(t *testing.T) {
	r, _ := measured(t, "-types", "float32", "-only", "^adamw$")
	require.Len(t, r.Results, 2)
	require.Equal(t, memcpy, r.Results[0].Operation)
	require.Equal(t, uint64(7*128<<10), r.Results[1].Bytes)
	require.InEpsilon(t, r.Results[1].GBs/r.Results[0].GBs, r.Results[1].OfCopy, 1e-9)
}

// A stand-in for Python with PyTorch answers what the script would.
func TestRun_PutsPyTorchBesideTheSameOperation(t *testing.T) {
	answer := `{"version": "PyTorch 9", "errors": ["rms norm of float32 (none)"], "results": [
		{"operation": "relu", "type": "float32", "size": 131072, "seconds": [3, 1, 2]},
		{"operation": "relu", "type": "float16", "size": 131072, "seconds": [1]}]}`
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n"+answer+"\nEND\n"), 0o755))
	r, table := measured(t, "-types", "float32", "-only", "^relu$|^rms norm$", "-python", python)
	require.Equal(t, "PyTorch 9; without rms norm of float32 (none)", r.PyTorch)
	for _, x := range r.Results {
		if x.Operation != "relu" {
			require.Nil(t, x.PyTorch)
			continue
		}
		require.InDelta(t, 2e6, x.PyTorch.Microseconds, 1e-9)
		require.InEpsilon(t, x.Microseconds/2e6, x.OfPyTorch, 1e-9)
	}
	require.Contains(t, table, "2000000.0")
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-sizes", "1KiB"}, {"-sizes", "x"}, {"-sizes", "0"}, {"-sizes", "200KiB"}, {"-types", "int32"}, {"-types", "float64"}, {"-runs", "0"}, {"-only", "("}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), strings.Join(args, " "))
		require.Contains(t, errs.String(), "bandwidth:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
