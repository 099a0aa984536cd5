package cpu_test

import (
	"flag"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// every thins the cases of each operation out: all of them take minutes. Which ones run differs from operation to operation.
var every = flag.Int("every", fulltests.Or(31, 71), "run one in so many cases of each operation")

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short only the run on an asynchronous stream")
	}
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	opts := []kerneltest.Option{kerneltest.Every(*every)}
	if !fulltests.Enabled() {
		opts = append(opts, kerneltest.Small(dtype.Float32))
	}
	kerneltest.Run(t, dev, opts...)
}

func TestConformance_OnAnAsynchronousStream(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	s, err := dev.NewStream()
	require.NoError(t, err)
	opts := []kerneltest.Option{kerneltest.WithStream(s), kerneltest.Every(4 * *every), kerneltest.Small(dtype.Float32)}
	if !testing.Short() && !fulltests.Enabled() {
		opts = append(opts, kerneltest.OneType(0)) // TestConformance has them all
	}
	kerneltest.Run(t, dev, opts...)
}

// Slices that lie gibibytes apart, of which hardly any has memory.
func TestConformance_OfSlicesFarApart(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	for id := op.Invalid + 1; id.Valid(); id++ {
		types := id.Types()
		if !fulltests.Enabled() {
			types = []dtype.DType{kerneltest.TypeOf(id, 1)}
		}
		for _, d := range types {
			require.NoError(t, kerneltest.Each(dev, id, d, func(_ int, run func() error) error { return run() },
				kerneltest.Every(8**every), kerneltest.Apart(9<<30), kerneltest.Small()), "%s of %s", id, d)
		}
	}
}
