package sessiontest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/examples/internal/session"
)

// Figures runs a program that trains, reads its JSON into report, of which m is a part, and checks what is true of all such programs: after training
// only parameters and optimizer state are held, and nothing at the end. It returns what the program printed.
func Figures(t *testing.T, run Run, report any, m *session.Memory, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(append([]string{"-json", file}, args...), &stdout, &stderr), "%s", &stderr)
	require.Contains(t, stdout.String(), "| Allocated memory ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, report))
	require.NotZero(t, m.Leaf)
	require.Equal(t, m.Leaf, m.AfterRelease, "only parameters and optimizer state are held")
	require.Zero(t, m.AtEnd)
	return stdout.String()
}

// Refused checks that each list of arguments is refused as wrong flags, with a line that says why, and that a program which computes does not run
// on a device that only keeps the books.
func Refused(t *testing.T, run Run, lists ...[]string) {
	t.Helper()
	for _, args := range append(lists, []string{"more"}, []string{"-what"}, []string{"-device", "nope"}, []string{"-memory-report", "x.png"}) {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(args, &stdout, &stderr), "%v", args)
		require.NotEmpty(t, stderr.String())
		require.Empty(t, stdout.String())
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "sim:1GiB"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "does not compute")
}
