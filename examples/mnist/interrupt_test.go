package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session/sessiontest"
)

func TestRun_Interrupted_TellsWhatItHas(t *testing.T) {
	text := sessiontest.Interrupt(t, run, "-epochs", "1000000")
	require.Contains(t, text, "| Allocated memory ")
	require.Contains(t, text, "interrupted")
}

func TestRun_OutputsThatCannotBeWritten_AreRefusedFirst(t *testing.T) {
	sessiontest.Outputs(t, run, []string{"json"})
}
