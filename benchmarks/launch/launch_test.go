package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// measured runs the program on the host.
func measured(t *testing.T, python string) (report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "launch.json")
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-device", "host", "-runs", "3", "-duration", "1us", "-python", python, "-json", file}, &out, &errs), errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return r, out.String()
}

func TestRun_MeasuresEveryOperationOnTheHost(t *testing.T) {
	r, table := measured(t, "")
	require.Len(t, r.Results, 9)
	for _, x := range r.Results {
		for _, s := range []spread{x.Call, x.Stream, x.Wait} {
			require.Positive(t, s.Fastest)
			require.LessOrEqual(t, s.Fastest, s.Ns)
			require.LessOrEqual(t, s.Ns, s.Slowest)
		}
		require.Positive(t, x.Allocs, "the result's handle is one")
		require.Nil(t, x.PyTorch)
		require.Contains(t, table, x.Operation)
		require.Contains(t, script, fmt.Sprintf("%q:", x.Operation), "the script has no such operation")
	}
	require.Equal(t, "left out: no -python", r.PyTorch)
}

// A stand-in for Python with PyTorch answers what the script would.
func TestRun_PutsPyTorchBesideTheSameOperation(t *testing.T) {
	answer := `{"version": "PyTorch 9", "results": [{"operation": "relu", "call": [3, 1, 2], "stream": [4], "wait": [5]}, {"operation": "add"}]}`
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n"+answer+"\nEND\n"), 0o755))
	r, table := measured(t, python)
	require.Equal(t, "PyTorch 9", r.PyTorch)
	for _, x := range r.Results {
		if x.Operation == "relu" {
			require.Equal(t, spread{Ns: 2e9, Fastest: 1e9, Slowest: 3e9}, x.PyTorch.Call)
			require.InDelta(t, 4e9, x.PyTorch.Stream.Ns, 1)
			require.InDelta(t, 5e9, x.PyTorch.Wait.Ns, 1)
		} else {
			require.Nil(t, x.PyTorch)
		}
	}
	require.Contains(t, table, "2000000000 (1000000000-3000000000)")
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-runs", "0"}, {"-duration", "0"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
		require.Contains(t, errs.String(), "launch:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
