package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

func TestRun_Interrupted_TellsWhatItHas(t *testing.T) {
	dir := t.TempDir()
	figures, picture := filepath.Join(dir, "figures.json"), filepath.Join(dir, "losses.svg")
	text := sessiontest.Interrupt(t, run, append([]string{"-steps", "1000000", "-json", figures, "-plot", picture}, small...)...)
	if _, err := os.Stat(figures); err != nil { // it was interrupted before the first step
		return
	}
	require.Contains(t, text, "float32")
	content, err := os.ReadFile(figures)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(content, &r))
	require.Len(t, r.Trainings, 1)
	require.NotEmpty(t, r.Trainings[0].Losses)
	require.FileExists(t, picture)
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"plot", "json"}, small...)
}
