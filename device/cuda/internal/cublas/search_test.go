package cublas

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the library has these names on Linux")
	}
	for _, name := range []string{LibraryVariable, "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME"} {
		t.Setenv(name, "")
	}
}

func touch(t *testing.T, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	return name
}

func TestCandidates_AreTheVersionsThatTheDriverCanRun(t *testing.T) {
	onLinux(t)
	for version, want := range map[int][]string{
		13000: {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, 12080: {"libcublas.so.12", "libcublas.so.11"},
		11040: {"libcublas.so.11"}, 0: {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, 10020: nil,
	} {
		require.Equal(t, want, fileNames(version), version)
		names, _, off := candidates(version)
		require.False(t, off)
		require.GreaterOrEqual(t, len(names), len(want))
		require.Equal(t, want, append([]string(nil), names[:len(want)]...), "plain names first: the system's loader knows best")
	}
}

func TestCandidates_IncludeToolkitsAndWheels(t *testing.T) {
	onLinux(t)
	root := t.TempDir()
	t.Setenv("CUDA_HOME", filepath.Join(root, "toolkit"))
	t.Setenv("VIRTUAL_ENV", filepath.Join(root, "venv"))
	old := touch(t, root, "toolkit", "lib64", "libcublas.so.11")
	wheel := touch(t, root, "venv", "lib", "python3.12", "site-packages", "nvidia", "cublas", "lib", "libcublas.so.12")
	wheel13 := touch(t, root, "venv", "lib", "python3.12", "site-packages", "nvidia", "cu13", "lib", "libcublas.so.13")
	t.Setenv("HOME", filepath.Join(root, "home"))
	user := touch(t, root, "home", ".local", "lib", "python3.11", "site-packages", "nvidia", "cublas", "lib", "libcublas.so.12")
	names, _, _ := candidates(13000)
	require.Subset(t, names, []string{old, wheel, wheel13, user})
	place := func(name string) int {
		for i, n := range names {
			if n == name {
				return i
			}
		}
		return -1
	}
	require.Less(t, place(wheel13), place(wheel), "newer versions first")
	require.Less(t, place(wheel), place(old))
	names, _, _ = candidates(12000)
	require.NotContains(t, names, wheel13)
}

func TestCandidates_AreThoseOfTheVariableAlone(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	t.Setenv(LibraryVariable, "/some/file.so"+string(filepath.ListSeparator)+dir)
	names, _, off := candidates(12000)
	require.False(t, off)
	require.Equal(t, []string{"/some/file.so", filepath.Join(dir, "libcublas.so.12"), filepath.Join(dir, "libcublas.so.11")}, names)
	_, err := Load(12000)
	require.ErrorContains(t, err, "no cuBLAS library found; tried: ")
	require.ErrorContains(t, err, "/some/file.so")
	require.ErrorContains(t, err, "libcublas.so.11")
	t.Setenv(LibraryVariable, "off")
	_, err = Load(12000)
	require.EqualError(t, err, "cuBLAS is turned off by CISTERN_CUBLAS_LIBRARY")
}

// A relative folder is another one in each folder in which the process is started.
func TestCandidates_PassOverRelativeFolders(t *testing.T) {
	onLinux(t)
	root := t.TempDir()
	t.Chdir(root)
	for variable, file := range map[string]string{
		"CUDA_HOME": "toolkit/lib64/libcublas.so.12", "VIRTUAL_ENV": "venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublas.so.12",
		"CONDA_PREFIX": "conda/lib/libcublas.so.12", "HOME": "home/.local/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12",
	} {
		touch(t, root, file)
		t.Setenv(variable, strings.Split(file, "/")[0])
	}
	names, _, _ := candidates(12000)
	for _, name := range names {
		require.True(t, filepath.IsAbs(name) || filepath.Base(name) == name, name)
		require.False(t, strings.HasPrefix(name, root), name)
	}
}

func TestLtName_IsTheNeighbour(t *testing.T) {
	require.Equal(t, "libcublasLt.so.12", ltName("libcublas.so.12"))
	require.Equal(t, filepath.Join("/opt/cublas/lib", "libcublasLt.so.12"), ltName("/opt/cublas/lib/libcublas.so.12"))
	require.Equal(t, "cublasLt64_13.dll", ltName("cublas64_13.dll"))
}

func TestStatus_HasANameAndSaysWhetherWorkWasBegun(t *testing.T) {
	require.Equal(t, "CUBLAS_STATUS_NOT_SUPPORTED (15)", NotSupported.String())
	require.Equal(t, "CUBLAS_STATUS (99)", Status(99).String())
	for s := range statusNames {
		require.Equal(t, s != Success && s != MappingError && s != ExecutionFailed && s != InternalError, s.Refused(), s)
	}
	require.Equal(t, "cublasGemmEx", GemmEx.String())
	require.Equal(t, "Func(200)", Func(200).String())
	for f := range numFuncs {
		require.NotEmpty(t, symbols[f])
	}
}
