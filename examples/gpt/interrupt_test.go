package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

func TestRun_Interrupted_SavesAndTellsWhatItHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.safetensors")
	args := append([]string{"-steps", "1000000", "-save", file}, small...)
	text := sessiontest.Interrupt(t, run, args...)
	require.Contains(t, text, "| Allocated memory ")
	require.Contains(t, text, "none: interrupted")
	r := figures(t, "-steps", "1000000", "-stop", "1", "-resume", file) // the file is whole; there is nothing left to do
	require.NotZero(t, r.ValLoss)
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"save", "json"}, small...)
}
