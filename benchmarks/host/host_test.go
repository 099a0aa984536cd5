package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

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
	for _, args := range [][]string{{"-runs", "0"}, {"-threads", "0"}, {"-peer", "x"}, {"-only", "("}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
	}
}
