package ports_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/fulltests"
)

// The programs in testdata/module, built as a user's module would be, log what PyTorch's log; testdata/ports.py wrote that. The programs themselves
// fail if anything but leaves is in memory after a step, or anything at all at their end.
func TestPorts_LogWhatPyTorchLogs(t *testing.T) {
	if !fulltests.Enabled() {
		t.Skip("builds a program: in full tests only")
	}
	raw, err := os.ReadFile("testdata/ports.json")
	require.NoError(t, err)
	var want map[string][]float64
	require.NoError(t, json.Unmarshal(raw, &want))

	program := filepath.Join(t.TempDir(), "ports")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "module")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.Command(program)
	run.Stderr = os.Stderr
	out, err = run.Output()
	require.NoError(t, err)
	var got map[string][]float64
	require.NoError(t, json.Unmarshal(out, &got))

	require.Len(t, got, len(want))
	for name, log := range want {
		t.Run(name, func(t *testing.T) {
			require.Len(t, got[name], len(log))
			for i, x := range log {
				require.InDelta(t, x, got[name][i], 1e-9*max(1, abs(x)), "number %d", i)
			}
		})
	}
}

func abs(x float64) float64 { return max(x, -x) }
