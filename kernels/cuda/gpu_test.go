package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
)

// TestGPU_Conformance runs every kernel on a real GPU: all cases, unless -every says otherwise.
func TestGPU_Conformance(t *testing.T) {
	d := cudatest.GPU(t)
	t.Cleanup(func() { require.NoError(t, cuda.Unload(d)) })
	kerneltest.Run(t, d, thinned(1))
}

func TestGPU_ConformanceOnAnotherStream(t *testing.T) {
	d := cudatest.GPU(t)
	t.Cleanup(func() { require.NoError(t, cuda.Unload(d)) })
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	kerneltest.Run(t, d, thinned(5), kerneltest.OnStream(s))
}
