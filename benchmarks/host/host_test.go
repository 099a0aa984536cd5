package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
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
