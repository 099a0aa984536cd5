package torch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestRun_PutsLinesTogether(t *testing.T) {
	var out struct {
		Version string
		Results []int
		Errors  []string
	}
	lines := `echo '{"version": "PyTorch 8", "results": [1]}'; echo '{"version": "PyTorch 9", "results": [2, 3]}'; echo '{"errors": ["one"], "results": []}'`
	require.NoError(t, Run(python(t, lines), "", nil, &out))
	require.Equal(t, "PyTorch 9", out.Version)
	require.Equal(t, []int{1, 2, 3}, out.Results)
	require.Equal(t, []string{"one"}, out.Errors)
}

// What a script wrote before it was stopped, failed or wrote something else is not lost, half a line is.
func TestRun_KeepsWhatCameBeforeTheEnd(t *testing.T) {
	before := `echo '{"version": "PyTorch 9"}'; echo '{"results": [1]}'; printf '{"results": [2'; `
	for end, want := range map[string]string{
		"exec sleep 60":            "took longer than 500ms",
		"echo broken >&2; exit 3":  "broken",
		"echo; echo 'a': ; exit 0": "invalid character",
	} {
		var out struct {
			Version string
			Results []int
		}
		err := Script{Python: python(t, before+end), Limit: 500 * time.Millisecond}.Run(&out)
		var cut *Cut
		require.ErrorAs(t, err, &cut, end)
		require.ErrorContains(t, err, want)
		require.Equal(t, []int{1}, out.Results)
		text, some := Says(out.Version, err)
		require.True(t, some)
		require.Contains(t, text, "PyTorch 9; cut short: ")
	}
}

func TestRun_IsNoCutIfThereIsNoFigure(t *testing.T) {
	var out struct{ Version string }
	err := Script{Python: python(t, `echo '{"version": "PyTorch 9", "results": []}'; exec sleep 60`), Limit: 500 * time.Millisecond}.Run(&out)
	text, some := Says(out.Version, err)
	require.False(t, some)
	require.Contains(t, text, "left out: ")
	require.Contains(t, text, "took longer than 500ms")
	text, some = Says("PyTorch 9", nil)
	require.True(t, some)
	require.Equal(t, "PyTorch 9", text)
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
