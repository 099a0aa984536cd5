package cuda_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
)

// every thins the cases out: the emulator runs each thread of each block.
var every = flag.Int("every", 0, "run one in so many cases of each operation on the emulated driver")

// emulated is a device of the emulated driver with all kernels of this package, compiled for the processor.
func emulated(t *testing.T, settings ...func(*fakecuda.Library)) (device.Device, *cudatest.Rig) {
	t.Helper()
	kernels := emulatedKernels(t)
	r := cudatest.New(t, 1, settings...)
	r.LoadKernels(kernels)
	d := r.Devices[0]
	t.Cleanup(func() { require.NoError(t, cuda.Unload(d)) })
	return d, r
}

// emulatedKernels are all kernels of this package, compiled for the processor.
func emulatedKernels(t *testing.T) string {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join("src", "*.cu"))
	require.NoError(t, err)
	return fakecuda.BuildKernels(t, "emu", sources)
}

func thinned(n int) kerneltest.Option {
	if *every > 0 {
		n = *every
	}
	return kerneltest.Every(n)
}

func TestConformance(t *testing.T) {
	d, _ := emulated(t)
	kerneltest.Run(t, d, thinned(7))
}

func TestConformance_WithTheGreedyScheduleOnAnotherStream(t *testing.T) {
	d, r := emulated(t)
	r.Greedy(true)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	kerneltest.Run(t, d, thinned(23), kerneltest.OnStream(s))
}
