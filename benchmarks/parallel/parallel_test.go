package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_MeasuresRanks(t *testing.T) {
	if _, err := exec.LookPath("mpirun"); err != nil {
		if os.Getenv("CISTERN_TEST_MPI") == "require" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: no MPI: %v", err)
	}
	file := filepath.Join(t.TempDir(), "out.json")
	var out, errs bytes.Buffer
	args := []string{"-ranks", "2", "-runs", "2", "-steps", "2", "-layers", "1", "-width", "8", "-heads", "2", "-seq", "8", "-vocab", "100", "-batch", "4", "-python", "", "-json", file}
	require.Zero(t, run(args, &out, &errs), errs.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var rows []row
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Len(t, rows, 1)
	require.Equal(t, 2, rows[0].Ranks)
	require.Positive(t, rows[0].Seconds)
	require.Positive(t, rows[0].Loss)
	require.Contains(t, out.String(), rows[0].Side)
}

func TestRun_MeasuresOverlap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	var out, errs bytes.Buffer
	args := []string{"-links", "1e7", "-ranks", "2", "-steps", "2", "-layers", "3", "-width", "64", "-seq", "4", "-batch", "4", "-json", file}
	require.Zero(t, run(args, &out, &errs), errs.String())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []overlapped
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, 3)
	for _, f := range all {
		require.Positive(t, f.Backward)
		require.Positive(t, f.Communication)
		require.GreaterOrEqual(t, f.Together, f.Communication*0.9, "links sleep")
		require.GreaterOrEqual(t, f.Apart, f.Communication*0.9)
	}
	require.Greater(t, all[0].Communication, all[1].Communication, "an all-reduce sends twice as much")
	require.Contains(t, out.String(), "hidden")
}

func TestBest_KeepsTheFastestRunAndTheMostMemory(t *testing.T) {
	rows := best(nil, row{Side: "a", Seconds: 2, Memory: 5, Loss: 1})
	rows = best(rows, row{Side: "b", Seconds: 1, Memory: 1})
	rows = best(rows, row{Side: "a", Seconds: 1, Memory: 3, Loss: 7})
	rows = best(rows, row{Side: "b", Seconds: 4, Memory: 9})
	require.Equal(t, []row{{Side: "a", Seconds: 1, Memory: 5, Loss: 7}, {Side: "b", Seconds: 1, Memory: 9}}, rows)
}

func TestRun_RefusesWhatNobodyCanRun(t *testing.T) {
	var out, errs bytes.Buffer
	for _, args := range [][]string{{"-ranks", "0"}, {"-ranks", "3", "-batch", "16"}, {"-runs", "0"}, {"-links", "-1"}, {"x"}} {
		require.Equal(t, 2, run(args, &out, &errs), args)
	}
	errs.Reset()
	require.Equal(t, 1, run([]string{"-mpirun", "no-such-program", "-runs", "1"}, &out, &errs))
	require.Contains(t, errs.String(), "no-such-program")
}
