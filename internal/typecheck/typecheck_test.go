package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// module makes a module with files for single systems, and with more of them if there are.
func module(t *testing.T, windows string, more map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":            "module example.com/m\n\ngo 1.25\n",
		"m.go":              "package m\n\nvar Name = name() + `s`\n",
		"name_windows.go":   windows,
		"name_linux.go":     "package m\n\nfunc name() string { return \"linux\" }\n",
		"sub/notwindows.go": "//go:build !windows\n\npackage sub\n",
	}
	maps.Copy(files, more)
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

func TestTypecheck_TakesAModuleWithItsTests(t *testing.T) {
	dir := module(t, "package m\n\nfunc name() string { return \"windows\" }\n", map[string]string{
		"m_test.go":      "package m_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m\"\n)\n\nfunc TestName(t *testing.T) { t.Log(m.Name, m.Hidden()) }\n",
		"export_test.go": "package m\n\nfunc Hidden() string { return name() }\n",
	})
	require.NoError(t, run(dir, []string{"linux/riscv64", "windows/arm64"}))
}

func TestTypecheck_SaysWhatOneSystemLacks(t *testing.T) {
	for what, c := range map[string]struct{ windows, want string }{
		"a type":      {"package m\n\nfunc name() int { return 1 }\n", "mismatched types int and untyped string"},
		"a name":      {"package m\n", "undefined: name"},
		"a body":      {"package m\n\nfunc name() string\n", "name_windows.go:3:1: function name has no body"},
		"a parameter": {"package m\n\nfunc name(int) string { return \"\" }\n", "not enough arguments in call to name"},
		"an import":   {"package m\n\nimport \"unsafe\"\n\nfunc name() string { return \"\" }\n", "\"unsafe\" imported and not used"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := module(t, c.windows, nil)
			err := run(dir, []string{"linux/amd64", "windows/amd64"})
			require.ErrorContains(t, err, "typecheck: windows/amd64:")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestTypecheck_WantsSystems(t *testing.T) {
	require.ErrorContains(t, run(t.TempDir(), []string{"windows"}), `"windows" is no SYSTEM/PROCESSOR`)
}
