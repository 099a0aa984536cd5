package lint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new folder and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func TestLoad_ReadsWhatBelongsToTheModule(t *testing.T) {
	dir := tree(t, map[string]string{
		"go.mod":                   "module example.org/m\n\ngo 1.25\n",
		".ci/run":                  "script",
		"a/a.go":                   "package a\n",
		"a/a_windows.go":           "package a\n",
		"a/a_test.go":              "package a\n",
		"a/tagged.go":              "//go:build never\n\npackage a\n",
		"a/kernel.cu":              "cuda",
		"a/picture.png":            "not text",
		"a/testdata/bad.go":        "not Go",
		"a/_old/bad.go":            "not Go",
		".hidden/bad.go":           "not Go",
		"other/go.mod":             "module example.org/other\n",
		"other/other.go":           "not Go",
		"helpers/thingtest/doc.go": "package thingtest\n",
	})
	m, err := Load(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, "example.org/m", m.Path)
	require.Equal(t, []string{"a", "helpers"}, m.Folders)
	tests := map[string]bool{}
	for _, f := range m.Files {
		tests[f.Path] = f.Test
	}
	require.Equal(t, map[string]bool{
		"a/a.go": false, "a/a_windows.go": false, "a/a_test.go": true, "a/tagged.go": false, "helpers/thingtest/doc.go": true,
	}, tests)
	require.Equal(t, "cuda", m.Texts["a/kernel.cu"])
	require.Equal(t, "script", m.Texts[".ci/run"])
	require.NotContains(t, m.Texts, "a/picture.png")
}

func TestLoad_NamesAFileThatIsNotGo(t *testing.T) {
	_, err := Load(tree(t, map[string]string{"go.mod": "module m\n", "a/broken.go": "package\n"}))
	require.ErrorContains(t, err, "a/broken.go:1")
}
