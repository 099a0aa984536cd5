package session

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/timeline"
)

func TestWatch_WritesATraceOfTheSession(t *testing.T) {
	w := Watch{Trace: filepath.Join(t.TempDir(), "out.json")}
	s, err := w.Open("sim:1GiB", 1, io.Discard)
	require.NoError(t, err)
	require.NoError(t, s.Loop(io.Discard, 3, func() (string, error) { return "", nil }))
	require.NoError(t, s.Close(nil))
	text, err := os.ReadFile(w.Trace)
	require.NoError(t, err)
	var file struct{ TraceEvents []struct{ Name, Ph string } }
	require.NoError(t, json.Unmarshal(text, &file))
	steps := 0
	for _, e := range file.TraceEvents {
		if e.Name == "training step" && e.Ph == "X" {
			steps++
		}
	}
	require.Equal(t, 3, steps)
	again, err := timeline.Start()
	require.NoError(t, err, "the session's recording has ended")
	again.Stop()
}

func TestWatch_RefusesATraceThatCannotBeWritten(t *testing.T) {
	w := Watch{Trace: filepath.Join(t.TempDir(), "absent", "out.json")}
	_, err := w.Open("sim:1GiB", 1, io.Discard)
	require.ErrorContains(t, err, "-trace cannot be written")
}
