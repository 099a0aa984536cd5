package cuda_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
)

// every thins the cases out: the emulator runs each thread of each block.
var every = flag.Int("every", 0, "run one in so many cases of each operation on the emulated driver")

// emulated is a device of the emulated driver with all kernels of this package, as emulatedtest.New has it. The device has one multiprocessor, so
// that small matrix products take the kernels that large ones take on larger devices.
func emulated(t *testing.T, settings ...func(*fakecuda.Library)) (device.Device, *cudatest.Rig) {
	t.Helper()
	return emulatedtest.New(t, append(settings, func(l *fakecuda.Library) { l.Set("processors", "1") })...)
}

// everyway runs a test on one that runs the committed PTX, and in full tests on one that runs the sources too.
func everyway(t *testing.T, test func(t *testing.T, d device.Device, r *cudatest.Rig), settings ...func(*fakecuda.Library)) {
	t.Run("source", func(t *testing.T) {
		d, r := onSource(t, settings...)
		test(t, d, r)
	})
	t.Run("PTX", func(t *testing.T) {
		d, r := onPTX(t, settings...)
		test(t, d, r)
	})
}

// onSource is emulated with the sources of kernels.
func onSource(t *testing.T, settings ...func(*fakecuda.Library)) (device.Device, *cudatest.Rig) {
	t.Helper()
	return emulatedtest.NewSource(t, append(settings, func(l *fakecuda.Library) { l.Set("processors", "1") })...)
}

// onPTX is emulated with the PTX interpreter.
func onPTX(t *testing.T, settings ...func(*fakecuda.Library)) (device.Device, *cudatest.Rig) {
	t.Helper()
	return emulatedtest.NewPTX(t, append(settings, func(l *fakecuda.Library) { l.Set("processors", "1") })...)
}

func thinned(n int) kerneltest.Option {
	if *every > 0 {
		n = *every
	}
	return kerneltest.Every(n)
}

// TestConformance runs one case in so many under each schedule.
const (
	everyInOrder = 97
	everyGreedy  = 311
)

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short only the run under the greedy schedule")
	}
	d, _ := onSource(t)
	kerneltest.Run(t, d, thinned(everyInOrder))
}

func TestConformance_WithTheGreedyScheduleOnAnotherStream(t *testing.T) {
	d, r := onSource(t)
	r.Greedy(true)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	kerneltest.Run(t, d, thinned(everyGreedy), kerneltest.WithStream(s), kerneltest.Small())
}
