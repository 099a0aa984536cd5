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

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device/dtype"
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

// What was compiled stands beside what was not; a script that is stopped loses nothing that it wrote.
func TestRun_PutsCompiledOperationsBesideTheOthers(t *testing.T) {
	cell := `"operation": "relu", "type": "float32", "size": 131072`
	lines := `{"version": "PyTorch 9"}
{"results": [{` + cell + `, "seconds": [2]}]}
{"results": [{` + cell + `, "seconds": [4, 4, 8], "compiled": true}]}
{"errors": ["2 operations that were not compiled (no time left)"]}`
	python := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\ncat <<'END'\n"+lines+"\nEND\nexec sleep 60\n"), 0o755))
	r, table := measured(t, "-types", "float32", "-only", "^relu$", "-python", python, "-torch-limit", "300ms", "-compile", "200ms")
	require.Equal(t, "PyTorch 9; cut short: "+python+" took longer than 500ms; without 2 operations that were not compiled (no time left)", r.PyTorch)
	x := r.Results[1]
	require.InDelta(t, 4e6, x.Compiled.Microseconds, 1e-9)
	require.InEpsilon(t, x.Microseconds/4e6, x.OfCompiled, 1e-9)
	require.InEpsilon(t, x.Microseconds/2e6, x.OfPyTorch, 1e-9)
	require.Contains(t, table, "4000000.0")
}

// torch.compile is asked for on a GPU only, unless a flag says otherwise.
func TestRun_CompilesOnTheHostOnlyIfAsked(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	for flag, want := range map[string]string{"": "--compile 0 ", "-compile=3s": "--compile 3 "} {
		says := `printf '{"version": "%s"}' "$(echo $* | grep -o -e '--compile [0-9]* ')"`
		require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\ncat >/dev/null\n"+says+"\n"), 0o755))
		args := []string{"-types", "float32", "-only", "^relu$", "-python", python}
		if flag != "" {
			args = append(args, flag)
		}
		r, _ := measured(t, args...)
		require.Equal(t, want, r.PyTorch)
	}
}

// The script compiles what may become faster, in the order of what it promises, and comes to its end whatever the compiler does: here a
// stand-in for it takes too long the second time and fails the third, if there is a PyTorch to ask.
func TestScript_CompilesWithinLimits(t *testing.T) {
	const compiler = `
import types
compilations = []


def compile(f, fullgraph, dynamic):
    compilations.append(f)
    if len(compilations) == 3:
        time.sleep(60)
    if len(compilations) == 4:
        raise RuntimeError("no C compiler")
    return f


torch.compile, torch.compiler = compile, types.SimpleNamespace(reset=lambda: None)
`
	const opened = "torch = open_torch(o.device)\n"
	require.Contains(t, script, opened)
	var cells []string
	for _, name := range []string{"memcpy", "relu", "softmax", "layer norm", "softmax, forward and backward"} {
		cells = append(cells, fmt.Sprintf(`{"operation": %q, "type": "float32", "size": 131072}`, name))
	}
	cells = append(cells, `{"operation": "relu", "type": "float32", "size": 262144}`)
	args := []string{"--device", "cpu", "--runs", "1", "--seconds", "0.0001", "--cells", "[" + strings.Join(cells, ",") + "]", "--compile", "30",
		"--compile-each", "0.5"}
	var out torchOutput
	if err := torch.Run(torch.Python, strings.Replace(script, opened, opened+compiler, 1), args, &out); err != nil {
		t.Skip(err)
	}
	var order []string
	for _, x := range out.Results {
		if x.Compiled {
			order = append(order, x.Operation)
		}
	}
	require.Len(t, out.Results, len(cells)+len(order))
	require.Equal(t, []string{"softmax, forward and backward", "relu"}, order)
	require.Equal(t, []string{"compiled layer norm of float32 (took too long)", "compiled softmax of float32 (no C compiler)"}, out.Errors)
}

func TestReport_SaysWhatFailed(t *testing.T) {
	r := report{Head: harness.Head{Failed: harness.Failures{"add of float32: no"}}, Results: []*result{}}
	var out bytes.Buffer
	require.NoError(t, r.write(&out, ""))
	require.Contains(t, out.String(), "FAILED add of float32: no")
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-sizes", "1KiB"}, {"-sizes", "x"}, {"-sizes", "0"}, {"-sizes", "200KiB"}, {"-types", "int32"}, {"-types", "float64"},
		{"-runs", "0"}, {"-only", "("}, {"-torch-limit", "0s"}, {"-compile-each", "0s"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), strings.Join(args, " "))
		require.Contains(t, errs.String(), "bandwidth:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
