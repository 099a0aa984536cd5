package torch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// python is a program that ignores its script and does what it is told.
func python(t *testing.T, does string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\ncat >/dev/null\n"+does+"\n"), 0o755))
	return file
}

func TestRun_ReadsWhatTheScriptWrites(t *testing.T) {
	var out struct{ Figure float64 }
	require.NoError(t, Run(python(t, `echo '{"figure": 1.5}'`), "", nil, &out))
	require.InDelta(t, 1.5, out.Figure, 0)
}

func TestRun_SaysWhyThereAreNoFigures(t *testing.T) {
	var out struct{}
	require.ErrorContains(t, Run("", "", nil, &out), "no -python")
	require.ErrorContains(t, Run("/no/such/python", "", nil, &out), "/no/such/python")
	require.ErrorContains(t, Run(python(t, `echo '{"skipped": "no GPU"}'`), "", nil, &out), "no GPU")
	require.ErrorContains(t, Run(python(t, "echo words"), "", nil, &out), "wrote no JSON")
	require.ErrorContains(t, Run(python(t, "echo first >&2; echo last >&2; exit 3"), "", nil, &out), "last")
}

func TestRun_TriesTheNextPythonIfOneHasNoPyTorch(t *testing.T) {
	var out struct{ Figure int }
	none, good := python(t, `echo '{"skipped": "no module", "none": true}'`), python(t, `echo '{"figure": 2}'`)
	list := strings.Join([]string{"/no/such/python", none, good}, string(os.PathListSeparator))
	require.NoError(t, Run(list, "", nil, &out))
	require.Equal(t, 2, out.Figure)
	without := python(t, `echo '{"skipped": "no GPU"}'`)
	require.EqualError(t, Run(without+string(os.PathListSeparator)+good, "", nil, &out), "no GPU")
	require.ErrorContains(t, Run(none, "", nil, &out), "no PyTorch: "+none+": no module")
}

func TestDevice_IsPyTorchsName(t *testing.T) {
	for spec, want := range map[string]string{"cuda:1": "cuda:1", "host": "cpu"} {
		s, err := device.ParseSpec(spec)
		require.NoError(t, err)
		got, err := Device(s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	s, err := device.ParseSpec("sim")
	require.NoError(t, err)
	_, err = Device(s)
	require.ErrorContains(t, err, "sim")
}
