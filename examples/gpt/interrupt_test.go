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

// Ctrl-C does not wait for the end of a long text.
func TestRun_InterruptedAfterTraining_SavesAndTellsWhatItHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.safetensors")
	args := append(small[:len(small):len(small)], "-steps", "0", "-memory-http", "localhost:0", "-save", file, "-sample", "100000")
	text := sessiontest.Interrupt(t, run, args...)
	require.Contains(t, text, "none: interrupted")
	require.FileExists(t, file)
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"save", "json"}, small...)
}
