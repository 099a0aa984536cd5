package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test program one that serves, if a test starts it so.
func TestMain(m *testing.M) {
	if os.Getenv("CISTERN_HOST_SERVES") != "" {
		os.Exit(run([]string{"-serve"}, os.Stdout, os.Stderr))
	}
	ourselves = func(int) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(cmd.Environ(), "CISTERN_HOST_SERVES=1")
		return cmd
	}
	os.Exit(m.Run())
}

func TestRun_MeasuresTheMemoryOfSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.json")
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-only", "^(exp|step mlp)$", "-runs", "1", "-json", file}, &out, &errs), errs.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows []row
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Len(t, rows, 2)
	require.Zero(t, rows[0].CisternPeak)
	if runtime.GOOS != "linux" {
		return // not known there
	}
	const parameters = 4 * (784*512 + 512*512 + 512*10)
	require.Greater(t, rows[1].CisternPeak, int64(4*parameters)) // with gradients and AdamW's state
	require.Less(t, rows[1].CisternPeak, int64(1<<30))
	require.Contains(t, out.String(), "Most memory resident")
}

func TestRun_SaysHowStepsDivide(t *testing.T) {
	file := filepath.Join(t.TempDir(), "divided.json")
	var out bytes.Buffer
	divided := func() dividedRow {
		var errs bytes.Buffer
		require.Zero(t, run([]string{"-divided", "-only", "^(exp|step mlp)$", "-runs", "1", "-json", file}, &out, &errs), errs.String())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var rows []dividedRow
		require.NoError(t, json.Unmarshal(text, &rows))
		require.Len(t, rows, 1)
		return rows[0]
	}
	r := divided()
	require.Equal(t, "step mlp", r.Case)
	require.Greater(t, r.Sections, 10)
	require.Less(t, r.Share, 1.0)
	require.Equal(t, 1.0, r.Bounds["1"])
	require.LessOrEqual(t, r.Bounds["2"], 2.0)
	require.Contains(t, out.String(), "at most on 8")
	// Bounds are of runs of their own, and one that others disturb is as good as none: some try shows what they are.
	for range 50 {
		if r.Bounds["2"] > 1.2 && r.Bounds["8"] > r.Bounds["2"] {
			return
		}
		r = divided()
	}
	t.Fatalf("bounds %v", r.Bounds)
}

// Two threads that share one processor take twice as long and have less processor time: that is no run of two threads.
func TestBest_IsOfRunsThatTakeAboutAsLong(t *testing.T) {
	require.Equal(t, times{Processor: 0.25, Wall: 0.13}, best([]times{{0.26, 0.13, nil}, {0.19, 0.19, nil}, {0.25, 0.14, nil}}))
	require.Equal(t, times{Processor: 0.25, Wall: 0.13}, best([]times{{0.19, 0.15, nil}, {0.25, 0.14, nil}, {0.26, 0.13, nil}}))
	require.Zero(t, best(nil))
	require.Equal(t, times{Processor: 0.25, Wall: 0.14}, median([]times{{0.26, 0.13, nil}, {0.19, 0.15, nil}, {0.25, 0.14, nil}}))
	require.Equal(t, times{Processor: 3, Wall: 2}, median([]times{{4, 1, nil}, {2, 3, nil}}))
}

// What this process has resident is no part of what one that it starts has: Linux's getrusage says so.
func TestPeakOf_IsTheProcessAlone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is known on Linux only")
	}
	mine := bytes.Repeat([]byte{1}, 300<<20)
	peak, err := peakOf("step mlp", func() (*process, error) { return launch(ourselves(1)) })
	require.NoError(t, err)
	require.Less(t, peak, int64(len(mine)))
	runtime.KeepAlive(mine)
}

func TestServe_SaysWhatItHasNot(t *testing.T) {
	require.ErrorContains(t, serve(strings.NewReader("\t0\nnothing\t1\n"), io.Discard), `"nothing"`)
	require.Error(t, serve(strings.NewReader("exp\tx\n"), io.Discard))
}

func TestDrawRatios_DrawsThoseThatWereCompared(t *testing.T) {
	dir := t.TempDir()
	rows := []row{{Case: "slow", Ratio: 0.3}, {Case: "alone"}, {Case: "fast", Ratio: 30}}
	for _, name := range []string{"a.svg", "a.png"} {
		require.NoError(t, drawRatios(filepath.Join(dir, name), rows))
	}
	text, err := os.ReadFile(filepath.Join(dir, "a.svg"))
	require.NoError(t, err)
	require.Contains(t, string(text), ">slow<")
	require.Contains(t, string(text), ">fast<")
	require.NotContains(t, string(text), ">alone<")
	require.NoError(t, drawRatios(filepath.Join(dir, "none.svg"), rows[1:2]))
	require.NoFileExists(t, filepath.Join(dir, "none.svg"))
}

// A library that has some cases only is asked for those.
func TestProcess_HasWhatItSays(t *testing.T) {
	require.True(t, (&process{}).has("exp"))
	p := &process{cases: []string{"step mlp"}}
	require.True(t, p.has("step mlp"))
	require.False(t, p.has("exp"))
}

func TestRun_MeasuresTheChosenCases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.json")
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-only", "^(exp|softmax|normal)$", "-runs", "1", "-json", file}, &out, &errs), errs.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Len(t, rows, 3)
	for _, r := range rows {
		require.Contains(t, out.String(), r["case"])
		require.Contains(t, r, "cistern_ns")
		require.InDelta(t, 1, r["threads"], 0)
	}
}

// Of all of PyTorch's libraries: torch.set_num_threads is not for that of products.
func TestStart_LimitsThePeersThreads(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the peer is a shell script here")
	}
	dir := t.TempDir()
	program, said := filepath.Join(dir, "python3"), filepath.Join(dir, "said")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $OMP_WAIT_POLICY > "+said+"\nexit 1\n"), 0o755))
	_, err := startOne(program, 3)
	require.Error(t, err)
	text, err := os.ReadFile(said)
	require.NoError(t, err)
	require.Equal(t, "3 3 PASSIVE\n", string(text))
}

func TestScript_HasEveryCase(t *testing.T) {
	for _, w := range cases() {
		for _, word := range strings.FieldsFunc(w.name, func(r rune) bool { return !unicode.IsLetter(r) }) { // sizes are put in by both sides
			require.Contains(t, script, word, w.name)
		}
	}
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-runs", "0"}, {"-threads", "0"}, {"-peer", "x"}, {"-only", "("}, {"file"}, {"-divided", "-peer", "torch"}, {"-divided", "-threads", "2"}, {"-plot", "a.png"}, {"-peer", "torch", "-plot", "a.gif"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
	}
}
