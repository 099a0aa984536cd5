// Package emulatedtest gives tests a CUDA device without a GPU that runs kernels: the emulated driver of internal/fakecuda with
// all kernels of kernels/cuda, compiled for the processor. Where that cannot be built, the tests are skipped.
//
//	dev, rig := emulatedtest.New(t)
//	dev, rig := emulatedtest.NewPTX(t) // runs the committed PTX itself, and looks for races in shared memory
//
// The emulated driver's state is that of the process, so such tests do not run in parallel. The first test to want the kernels
// builds them, which takes minutes; later ones, of any package, find them in the user's cache folder.
package emulatedtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	gpu "github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels/cuda"
)

// New returns a device and its driver, whose settings are as cudatest.New has them. At the end of the test the kernels are
// unloaded and the device is closed; then the driver must have nothing left and have found nothing wrong, unless the device
// was lost to a sticky error.
func New(t testing.TB, settings ...func(*fakecuda.Library)) (*gpu.Device, *cudatest.Rig) {
	t.Helper()
	library := Library(t)
	r := cudatest.New(t, 1, settings...)
	r.LoadKernels(library)
	return r.Devices[0], unloaded(t, r)
}

// NewPTX is New with the machine that runs PTX: what a GPU's driver would get, instead of the sources it was compiled from. It
// needs no kernels to be built. A race in shared memory ends the kernel.
func NewPTX(t testing.TB, settings ...func(*fakecuda.Library)) (*gpu.Device, *cudatest.Rig) {
	t.Helper()
	r := cudatest.New(t, 1, append([]func(*fakecuda.Library){func(l *fakecuda.Library) {
		l.Set("ptx", "1")
		l.Set("races", "1")
	}}, settings...)...)
	return r.Devices[0], unloaded(t, r)
}

// unloaded unloads the kernels of a rig's device at the end of the test.
func unloaded(t testing.TB, r *cudatest.Rig) *cudatest.Rig {
	d := r.Devices[0]
	t.Cleanup(func() {
		r.ClearFaults()
		if err := cuda.Unload(d); d.Err() == nil {
			require.NoError(t, err)
		}
	})
	return r
}

// Library builds the kernels, or finds them built, and returns the file for fakecuda.Library.LoadKernels.
func Library(t testing.TB) string {
	t.Helper()
	folder := filepath.Join(root(t), "kernels", "cuda")
	sources, err := filepath.Glob(filepath.Join(folder, "src", "*.cu"))
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	return fakecuda.BuildKernels(t, filepath.Join(folder, "emu"), sources)
}

// root is the folder of the module, above the test's.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		require.NotEqual(t, up, dir, "there is no go.mod above the test")
		dir = up
	}
}
