package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// copyOfLibrary copies the library that has a function to a file.
func copyOfLibrary(t *testing.T, l *Library, f Func, to string) {
	t.Helper()
	bytes, err := os.ReadFile(fileAt(l.funcs[f]))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, bytes, 0o600))
}

func TestFileAt_IsTheLibrarysFile(t *testing.T) {
	l := libc(t, map[Func]string{Init: "getpid"})
	file := fileAt(l.funcs[Init])
	require.True(t, filepath.IsAbs(file), file)
	require.Contains(t, filepath.Base(file), "libc")
	require.Empty(t, fileAt(1))
}

func TestOpenCompiler_OpensTheOneBesideTheDriver(t *testing.T) {
	l := libc(t, map[Func]string{Init: "getpid"})
	l.path = "libcuda.so.1"
	beside := filepath.Dir(fileAt(l.funcs[Init]))
	require.Equal(t, []string{beside}, l.folders(), "of a plain name, as the system resolved it")
	_, err := l.OpenCompiler()
	require.ErrorContains(t, err, "no libnvidia-ptxjitcompiler.so.1 in "+beside)

	dir := t.TempDir()
	l.path = filepath.Join(dir, "libcuda.so.1")
	require.Equal(t, []string{dir, beside}, l.folders())
	_, err = l.OpenCompiler()
	require.ErrorContains(t, err, dir+" or "+beside)

	other := filepath.Join(dir, "libnvidia-gpucomp.so.580.1")
	file := filepath.Join(dir, "libnvidia-ptxjitcompiler.so.1")
	copyOfLibrary(t, l, Init, other)
	copyOfLibrary(t, l, Init, file)
	opened, err := l.OpenCompiler()
	require.NoError(t, err)
	require.Equal(t, file, opened)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.Contains(t, string(maps), file)
	require.Contains(t, string(maps), other)

	l.path = filepath.Join(t.TempDir(), "libcuda.so.1")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(l.path), "libnvidia-ptxjitcompiler.so.1"), []byte("no library"), 0o600))
	_, err = l.OpenCompiler()
	require.ErrorContains(t, err, filepath.Dir(l.path))
}

func TestCompilerHint_SaysWhatToDo(t *testing.T) {
	require.Contains(t, CompilerHint("/driver/"+compiler, nil), "LD_LIBRARY_PATH=/driver")
	hint := CompilerHint("", os.ErrNotExist)
	for _, text := range []string{compiler, "LD_LIBRARY_PATH", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", os.ErrNotExist.Error()} {
		require.Contains(t, hint, text)
	}
}
