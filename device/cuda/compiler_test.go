//go:build linux

package cuda_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

const compilerNotFound = 221

// besideCompiler opens an emulated driver that has been put into a folder, beside a compiler if there is to be one.
func besideCompiler(t *testing.T, compiler bool) (l *fakecuda.Library, d *cuda.Device, dir string) {
	t.Helper()
	path := fakecuda.Build(t)
	l, dir = fakecuda.Open(t, path), t.TempDir()
	driver := filepath.Join(dir, "libcuda.so.1")
	require.NoError(t, os.Symlink(path, driver))
	if compiler {
		library, err := os.ReadFile(buildKernels(t))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "libnvidia-ptxjitcompiler.so.1"), library, 0o600))
	}
	devices, err := cuda.OpenLibrary(driver)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, devices[0].Close())
		require.Empty(t, l.Leaks())
	})
	return l, devices[0], dir
}

func TestLoadModule_OpensTheCompilerBesideTheDriver(t *testing.T) {
	l, d, dir := besideCompiler(t, true)
	l.Fail("cuModuleLoadDataEx", 1, compilerNotFound)
	m, err := d.LoadModule([]byte(tinyPTX))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.Equal(t, 2, l.Calls()["cuModuleLoadDataEx"])
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.Contains(t, string(maps), filepath.Join(dir, "libnvidia-ptxjitcompiler.so.1"))
}

func TestLoadModule_SaysWhatToDoIfTheCompilerDoesNotHelp(t *testing.T) {
	l, d, dir := besideCompiler(t, true)
	l.Fail("cuModuleLoadDataEx", 0, compilerNotFound)
	_, err := d.LoadModule([]byte(tinyPTX))
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.ErrorContains(t, err, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221)")
	require.ErrorContains(t, err, "LD_LIBRARY_PATH="+dir)
	require.Equal(t, 2, l.Calls()["cuModuleLoadDataEx"], "it is tried once more, not for ever")
}

func TestLoadModule_SaysThatThereIsNoCompiler(t *testing.T) {
	l, d, dir := besideCompiler(t, false)
	l.Fail("cuModuleLoadDataEx", 1, compilerNotFound)
	_, err := d.LoadModule([]byte(tinyPTX))
	require.ErrorIs(t, err, device.ErrUnavailable)
	require.ErrorContains(t, err, "libnvidia-ptxjitcompiler.so.1 in "+dir)
	require.ErrorContains(t, err, "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
	require.Equal(t, 1, l.Calls()["cuModuleLoadDataEx"])
}

// What the second try says is about the image, if the compiler was found.
func TestLoadModule_TellsTheCompilersErrorAfterItWasFound(t *testing.T) {
	l, d, _ := besideCompiler(t, true)
	l.Fail("cuModuleLoadDataEx", 1, compilerNotFound)
	_, err := d.LoadModule([]byte(".version 99.0\n.target sm_80\n"))
	require.ErrorIs(t, err, device.ErrInvalidValue)
	require.NotContains(t, err.Error(), "LD_LIBRARY_PATH")
}
