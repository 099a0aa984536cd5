// Package emulatedtest gives tests a CUDA device without a GPU that runs kernels: the emulated driver of internal/fakecuda. Where that
// cannot be built, the tests are skipped.
//
//	dev, rig := emulatedtest.New(t)
//	dev, rig := emulatedtest.NewPTX(t)    // looks for races in shared and global memory too
//	dev, rig := emulatedtest.NewSource(t) // the kernels' sources; only in full tests
//
// The driver runs the committed PTX, as a GPU's would, or the kernels' sources, compiled for the processor: that runs thread by thread
// under schedules that show missing barriers, and has to be built first, which takes minutes. So plain "go test" runs the PTX alone;
// CISTERN_FULL_TESTS=1, as .ci/run sets it, runs the sources too.
//
// The emulated driver's state is that of the process, so such tests do not run in parallel.
package emulatedtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	gpu "github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/cuda/internal/keep"
)

// New returns a device and its driver, whose settings are as cudatest.New has them: it runs the sources in full tests, and else the PTX. At
// the end of the test the kernels are unloaded and the device is closed; then the driver must have nothing left and have found
// nothing wrong, unless the device was lost to a sticky error.
func New(t testing.TB, settings ...func(*fakecuda.Library)) (*gpu.Device, *cudatest.Rig) {
	t.Helper()
	r := Load(t, cudatest.New(t, 1, settings...))
	return r.Devices[0], r
}

// Load is New for a driver that was started by other means.
func Load(t testing.TB, r *cudatest.Rig) *cudatest.Rig {
	t.Helper()
	keep.Images.Store(true)
	if fulltests.Enabled() {
		r.LoadKernels(Library(t))
	} else {
		r.Set("ptx", "1")
	}
	return unloaded(t, r)
}

// NewSource is New for tests of what only the sources show: schedules of single threads, stacks. They are skipped unless the tests
// run in full.
func NewSource(t testing.TB, settings ...func(*fakecuda.Library)) (*gpu.Device, *cudatest.Rig) {
	t.Helper()
	if !fulltests.Enabled() {
		t.Skipf("emulatedtest: SKIPPED: %s=1 builds the kernels' sources for the emulated driver, and runs them", fulltests.Variable)
	}
	return New(t, settings...)
}

// NewPTX is New with the PTX in any case. A race in shared or global memory ends the kernel.
func NewPTX(t testing.TB, settings ...func(*fakecuda.Library)) (*gpu.Device, *cudatest.Rig) {
	t.Helper()
	r := cudatest.New(t, 1, append([]func(*fakecuda.Library){func(l *fakecuda.Library) {
		l.Set("ptx", "1")
		l.Set("races", "1")
	}}, settings...)...)
	return r.Devices[0], unloaded(t, r)
}

// unloaded unloads the kernels of a rig's devices at the end of the test.
func unloaded(t testing.TB, r *cudatest.Rig) *cudatest.Rig {
	t.Cleanup(func() {
		r.ClearFaults()
		for _, d := range r.Devices {
			if err := cuda.Unload(d); d.Err() == nil {
				require.NoError(t, err)
			}
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
