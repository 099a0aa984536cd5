//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSurroundings_FindThePyTorchThatIsThere(t *testing.T) {
	root := t.TempDir()
	wheel := filepath.Join(root, "site-packages", "nvidia")
	require.NoError(t, os.MkdirAll(filepath.Join(wheel, "cu13", "lib"), 0o777))
	without := filepath.Join(root, "without")
	with := filepath.Join(root, "with")
	require.NoError(t, os.WriteFile(without, []byte("#!/bin/sh\nexit 1\n"), 0o777))
	require.NoError(t, os.WriteFile(with, []byte("#!/bin/sh\necho "+wheel+"\n"), 0o777))
	was := pythons
	pythons = []string{"/no/python", filepath.Join(root, "wit*")} // a pattern: both match, and one has PyTorch
	t.Cleanup(func() { pythons = was })
	t.Setenv("PYTHON", "")
	t.Setenv("CISTERN_CUBLAS_LIBRARY", "")
	t.Setenv("PATH", os.Getenv("PATH"))
	e := surroundings(context.Background())
	require.Equal(t, with, e.python)
	require.Equal(t, filepath.Join(wheel, "cu13", "lib"), e.vars["CISTERN_CUBLAS_LIBRARY"])
	t.Setenv("CISTERN_CUBLAS_LIBRARY", "off")
	require.NotContains(t, surroundings(context.Background()).vars, "CISTERN_CUBLAS_LIBRARY", "what the user says counts")
}

func TestSurroundings_PutTheDriversCompilerWhereTheDriverFindsIt(t *testing.T) {
	folder := t.TempDir()
	driver := filepath.Join(folder, driverName)
	require.NoError(t, os.WriteFile(driver, nil, 0o666))
	t.Setenv("CISTERN_CUDA_LIBRARY", driver)
	require.NotContains(t, compilerFolder(nil), folder, "there is no compiler")
	require.NoError(t, os.WriteFile(filepath.Join(folder, compilerName), nil, 0o666))
	require.Equal(t, []string{folder}, compilerFolder(nil))
	t.Setenv("LD_LIBRARY_PATH", "/mine")
	t.Setenv("PATH", os.Getenv("PATH"))
	t.Setenv("PYTHON", "/no/python")
	e := surroundings(context.Background())
	require.Equal(t, "/mine:"+folder, e.vars["LD_LIBRARY_PATH"])
	list := strings.Join(e.environ(), "\n")
	require.Contains(t, list, "LD_LIBRARY_PATH=/mine:"+folder)
	require.Contains(t, list, "CISTERN_GPU_TESTS=1")
}
