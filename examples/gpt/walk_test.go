package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The walk in docs/memory.md, from an error to the line and the cure, says what the program says, line numbers of the model and the trainer included.
func TestWalk_OfTheDocumentsIsTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("a GPT-2 of full size, if only on paper")
	}
	page, err := os.ReadFile("../../docs/memory.md")
	require.NoError(t, err)
	told := strings.Join(strings.Fields(string(page)), " ")
	snapshot := filepath.Join(t.TempDir(), "oom.pickle")
	for device, from := range map[string]string{"sim:16GB": "With expandable_segments:True", "sim:6GB": "The most is held by"} {
		var stdout, stderr bytes.Buffer
		args := strings.Fields("-layers 12 -width 768 -heads 12 -seq 1024 -vocab 50304 -batch 16 -steps 2 -device " + device)
		require.Equal(t, 1, run(append(args, "-snapshot", snapshot), &stdout, &stderr))
		_, says, found := strings.Cut(stderr.String(), from)
		require.True(t, found, "%s", &stderr)
		want := strings.Join(strings.Fields(from+says), " ")
		require.True(t, strings.Contains(told, want), "docs/memory.md has not: %s", want)
	}
}
