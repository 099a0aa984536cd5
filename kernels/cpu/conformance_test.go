package cpu_test

import (
	"flag"
	"testing"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/stretchr/testify/require"
)

// every thins the cases of each operation out: all of them take minutes. Which ones run differs from operation to operation.
var every = flag.Int("every", 3, "run one in so many cases of each operation")

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short only the run on an asynchronous stream")
	}
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	kerneltest.Run(t, dev, kerneltest.Every(*every))
}

func TestConformance_OnAnAsynchronousStream(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	s, err := dev.NewStream()
	require.NoError(t, err)
	kerneltest.Run(t, dev, kerneltest.OnStream(s), kerneltest.Every(3**every))
}
