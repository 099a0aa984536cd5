package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/trace"
)

// small is a recorded program of 4 allocations on two streams.
const small = "# small\nm begin\na 0 1000 0\na 1 2000 7\ns 1 0\nf 0\nc 0\na 2 3000000 0\nf 1\ne\na 3 512 0\nf 2\n"

func traces(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "small.trace"), []byte(small), 0o600))
	return dir
}

func call(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = run(args, &out, &errOut)
	return code, out.String(), errOut.String()
}

// measured runs the program with tiny settings and returns its table and its JSON.
func measured(t *testing.T, args ...string) (table string, r report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	code, out, errOut := call(append([]string{"-runs", "1", "-least", "0", "-json", file}, args...)...)
	require.Zero(t, code, errOut)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return out, r
}

// byName finds a result.
func byName(t *testing.T, r report, load, allocator string) *Result {
	t.Helper()
	for _, x := range r.Results {
		if x.Workload == load && x.Allocator == allocator {
			return x
		}
	}
	require.FailNow(t, "no result", "%s, %s", load, allocator)
	return nil
}

func TestRun_TrainsAlikeOnEveryAllocator(t *testing.T) {
	table, r := measured(t, "-device", "host:1GiB", "-steps", "2")
	require.Len(t, r.Results, 3)
	direct, caching := byName(t, r, "training", "direct"), byName(t, r, "training", "caching")
	require.Positive(t, direct.LastLoss)
	for _, x := range r.Results {
		require.Equal(t, direct.LastLoss, x.LastLoss, x.Allocator)
		require.Equal(t, direct.AllocsPer, x.AllocsPer, "the same step makes the same requests")
		require.Positive(t, x.NsPerUnit)
		require.Positive(t, x.PeakReserved)
		require.Zero(t, x.AssumedNs)
	}
	require.Greater(t, direct.DriverPer, 2*direct.AllocsPer-3, "each request is a malloc, and later a free")
	require.Zero(t, caching.DriverPer, "a warm cache asks for nothing")
	require.Contains(t, table, "784-512-10")
	require.Contains(t, table, "PyTorch: left out")
	require.NotContains(t, table, "ASSUMED")
}

func TestRun_ReplaysRecordedPrograms(t *testing.T) {
	table, r := measured(t, "-device", "host:64MiB", "-steps", "0", "-traces", traces(t), "-runs", "2")
	require.Len(t, r.Results, 3)
	for _, x := range r.Results {
		require.Equal(t, "small", x.Workload)
		require.Equal(t, 4, x.Units)
		require.Len(t, x.Runs, 2)
		require.EqualValues(t, 1, x.AllocsPer)
		require.Zero(t, x.OOMs)
	}
	require.EqualValues(t, 2, byName(t, r, "small", "direct").DriverPer)
	require.EqualValues(t, 3002000, byName(t, r, "small", "direct").PeakReserved)
	require.Regexp(t, `small +direct +\d+ \(\d+-\d+\) +1.000 +1.00 +2.00`, table)
}

func TestRun_RepeatsAProgramThatIsOverTooSoon(t *testing.T) {
	_, r := measured(t, "-device", "sim", "-steps", "0", "-single", "4KiB,1MiB", "-pairs", "3", "-least", "1ms", "-malloc-cost", "1s", "-free-cost", "2s", "-event-cost", "0")
	for _, name := range []string{"single 4KiB", "single 1MiB"} {
		x := byName(t, r, name, "direct")
		require.Equal(t, 3, x.Units)
		require.InDelta(t, 3*time.Second, x.AssumedNs, 1, "the time of one pair, however many there were")
		require.EqualValues(t, 2, x.DriverPer)
		require.Zero(t, byName(t, r, name, "caching").DriverPer)
	}
}

func TestRun_CountsRequestsWithoutMemory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "big.trace"), []byte("a 0 99999999 0\na 1 5 0\nf 0\n"), 0o600))
	_, r := measured(t, "-device", "host:64MiB", "-steps", "0", "-traces", dir)
	require.Equal(t, 2, byName(t, r, "big", "direct").OOMs, "in both passes")
	require.Equal(t, 2, byName(t, r, "big", "caching").OOMs)
}

// The assumed time is exact arithmetic: 4 mallocs and 4 frees for 4 pairs.
func TestRun_AddsAssumedTimeOnASimulatedDeviceAndSaysSo(t *testing.T) {
	table, r := measured(t, "-device", "sim", "-steps", "0", "-traces", traces(t), "-malloc-cost", "1s", "-free-cost", "2s", "-event-cost", "0")
	require.InDelta(t, 3*time.Second, byName(t, r, "small", "direct").AssumedNs, 1)
	require.Less(t, byName(t, r, "small", "caching").AssumedNs, float64(3*time.Second))
	for _, x := range r.Results {
		require.GreaterOrEqual(t, x.NsPerUnit, x.AssumedNs)
	}
	require.Contains(t, r.Assumed, "malloc 1s, free 2s")
	require.Contains(t, table, "ASSUMED, NOT MEASURED")
	require.Contains(t, table, "assumed part")
}

func TestRun_DrawsWhatItMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bars.svg")
	measured(t, "-device", "sim", "-steps", "1", "-traces", traces(t), "-plot", file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, want := range []string{"direct", "caching", "expandable", "training", "small", "driver times are assumed"} {
		require.Contains(t, string(text), want)
	}
}

func TestRun_ReportsWhatIsWrong(t *testing.T) {
	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "x.trace"), []byte("nonsense\n"), 0o600))
	none := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(none, "x.trace"), []byte("m nothing\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown flag":       {[]string{"-what"}, 2, "-what"},
		"argument":           {[]string{"what"}, 2, "no arguments"},
		"no runs":            {[]string{"-runs", "0"}, 2, "-runs"},
		"no size":            {[]string{"-single", "4what"}, 2, "-single"},
		"negative cost":      {[]string{"-free-cost", "-1s"}, 2, "negative"},
		"nothing to do":      {[]string{"-steps", "0"}, 2, "something to run"},
		"help":               {[]string{"-h"}, 0, "-malloc-cost"},
		"unknown device":     {[]string{"-device", "tpu"}, 1, `"tpu"`},
		"no such GPU":        {[]string{"-device", "cuda:99"}, 1, "cuda:99"},
		"no traces":          {[]string{"-traces", t.TempDir()}, 1, "no traces"},
		"broken trace":       {[]string{"-traces", broken}, 1, "line 1"},
		"trace of nothing":   {[]string{"-traces", none}, 1, "allocates nothing"},
		"device too small":   {[]string{"-least", "0", "-device", "sim:1MiB", "-runs", "1", "-steps", "1"}, 1, "training, direct"},
		"unwritable figures": {[]string{"-device", "sim", "-runs", "1", "-steps", "1", "-json", filepath.Join(none, "no", "file")}, 1, "no such file"},
		"unknown image":      {[]string{"-device", "sim", "-runs", "1", "-steps", "1", "-plot", filepath.Join(none, "x.what")}, 2, ".png or .svg"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := call(c.args...)
			require.Equal(t, c.code, code)
			require.Contains(t, errOut, c.want)
			require.NotContains(t, errOut, "still in use")
		})
	}
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	require.Equal(t, 1, run([]string{"-device", "sim", "-runs", "1", "-steps", "1"}, w, io.Discard))
}

func TestOpen_LeavesTheEnvironmentAsItWas(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "max_split_size_mb:64")
	for _, s := range on(device.Sim) {
		p, err := s.open("sim:1GiB", assumed{})
		require.NoError(t, err)
		require.Contains(t, p.alloc.(interface{ String() string }).String(), map[bool]string{true: "direct", false: "caching"}[s.direct])
		require.NoError(t, p.close())
		require.Equal(t, "max_split_size_mb:64", os.Getenv("CISTERN_ALLOC_CONF"))
		_, set := os.LookupEnv("PYTORCH_NO_CUDA_MEMORY_CACHING")
		require.False(t, set)
	}
	_, err := subjects[1].open("sim", assumed{})
	require.ErrorContains(t, err, "async")
	require.Len(t, on(device.CUDA), 4)
}

func TestCutOff_EndsBeforeTheNextAllocation(t *testing.T) {
	full, err := trace.Read("small", strings.NewReader(small))
	require.NoError(t, err)
	require.Same(t, full, cutOff(full, 0))
	require.Same(t, full, cutOff(full, 4))
	short := cutOff(full, 2)
	require.Equal(t, 2, short.Allocs)
	require.Equal(t, trace.Complete, short.Events[len(short.Events)-1].Kind)
}

// python makes a program that answers as the interpreter would.
func python(t *testing.T, answer string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\ncat >/dev/null\n"+answer+"\n"), 0o700))
	return file
}

func TestAddPyTorch_PutsItsResultsBehindTheOthers(t *testing.T) {
	all, err := programs(traces(t), 0)
	require.NoError(t, err)
	r := report{Results: []*Result{{Workload: "training", Allocator: "direct"}, {Workload: "small", Allocator: "direct"}}}
	o := options{runs: 2, python: python(t, `echo '{"version":"9.9","results":[{"pairs":4,"runs":[5,7],"overhead_ns":2,"records_left_out":1}]}'`)}
	require.NoError(t, r.addPyTorch(o, device.Spec{Kind: device.CUDA}, all))
	require.Len(t, r.Results, 3)
	require.Equal(t, "pytorch", r.Results[2].Allocator)
	require.EqualValues(t, 6, r.Results[2].NsPerUnit)
	require.Contains(t, r.PyTorch, "9.9")
	require.Contains(t, r.PyTorch, "small 2 ns/pair (1 uses")
}

func TestAddPyTorch_TakesWhatWasMeasuredBeforeTheScriptFailed(t *testing.T) {
	all, err := programs(traces(t), 0)
	require.NoError(t, err)
	all = append(all, program{name: "other"})
	r := report{Results: []*Result{{Workload: "small", Allocator: "direct"}, {Workload: "other", Allocator: "direct"}}}
	o := options{runs: 2, python: python(t, `echo '{"version":"9.9","results":[{"pairs":4,"runs":[5,7]}]}'; echo broken >&2; exit 3`)}
	require.NoError(t, r.addPyTorch(o, device.Spec{Kind: device.CUDA}, all))
	require.Len(t, r.Results, 3)
	require.Equal(t, "pytorch", r.Results[1].Allocator)
	require.Contains(t, r.PyTorch, "cut short")
}

func TestAddPyTorch_SaysWhyItWasLeftOut(t *testing.T) {
	all, err := programs(traces(t), 0)
	require.NoError(t, err)
	for _, c := range []struct{ answer, want string }{
		{`echo '{"skipped":"no PyTorch"}'`, "left out: no PyTorch"},
		{"echo what", "wrote no JSON"},
		{"echo broken >&2; exit 3", "exit status 3: broken"},
	} {
		var r report
		require.NoError(t, r.addPyTorch(options{python: python(t, c.answer)}, device.Spec{Kind: device.CUDA}, all))
		require.Contains(t, r.PyTorch, c.want)
	}
	r := report{Results: []*Result{{Workload: "small"}}}
	require.ErrorContains(t, r.addPyTorch(options{python: python(t, `echo '{"results":[]}'`)}, device.Spec{Kind: device.CUDA}, all), "0 programs of 1")
	require.ErrorContains(t, r.addPyTorch(options{python: python(t, `echo '{"results":[{}]}'`)}, device.Spec{Kind: device.CUDA}, all), "did not run small")
}

// A bar reaches half a place to both sides of its middle: the axis must, or the outer ones are cut off; and the legend needs a place beside them.
func TestPlot_HasPlaceForAllBarsAndTheLegend(t *testing.T) {
	r := new(report)
	for _, load := range []string{"training", "single"} {
		for _, s := range on(device.Sim) {
			r.Results = append(r.Results, &Result{Allocator: s.name, Workload: load, NsPerUnit: 1e3})
		}
	}
	p, err := r.plot()
	require.NoError(t, err)
	require.LessOrEqual(t, p.X.Min, -0.5)
	require.Greater(t, p.X.Max, 1.5)
	require.Less(t, p.Y.Min, 1.0)
	require.Greater(t, p.Y.Max, 1.0)
}
