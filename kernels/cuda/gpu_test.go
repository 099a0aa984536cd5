package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	devicecuda "github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// gpu is cuda:0, with or without cuBLAS until the end of the test.
func gpu(t *testing.T, library bool) *devicecuda.Device {
	t.Helper()
	d := cudatest.GPU(t)
	d.UseBLAS(library)
	t.Cleanup(func() {
		d.UseBLAS(true)
		require.NoError(t, cuda.Unload(d))
	})
	return d
}

// TestGPU_Conformance runs every kernel of ours on a real GPU: all cases, unless -every says otherwise.
func TestGPU_Conformance(t *testing.T) {
	kerneltest.Run(t, gpu(t, false), thinned(1))
}

func TestGPU_ConformanceOnAnotherStream(t *testing.T) {
	d := gpu(t, false)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	kerneltest.Run(t, d, thinned(5), kerneltest.WithStream(s))
}

// gpuWithCUBLAS skips the test where there is no cuBLAS, and says why.
func gpuWithCUBLAS(t *testing.T) *devicecuda.Device {
	t.Helper()
	d := gpu(t, true)
	b := d.BLAS()
	t.Log(b)
	if b.Reason != nil {
		t.Skipf("SKIPPED: %v", b.Reason)
	}
	return d
}

// cuBLAS passes the cases of our own kernels. Its activations in half precision may use the hardware's approximation of tanh.
func TestGPU_ConformanceOfProductsWithTheLibrary(t *testing.T) {
	d := gpuWithCUBLAS(t)
	kerneltest.TestOp(t, d, op.MatMul, thinned(1))
	kerneltest.TestOp(t, d, op.MatMulAct, thinned(1), kerneltest.Slack(1<<11))
	b := d.BLAS()
	t.Log(b)
	require.Positive(t, b.Products)
}

// Sums of these numbers are exact in float32, in whatever order they are added: cuBLAS and our own kernels must give the same
// bits, and those of the reference.
func TestGPU_LibraryAndOwnKernelsGiveTheSameBits(t *testing.T) {
	for _, library := range []bool{true, false} {
		d := gpu(t, library)
		if library && d.BLAS().Reason != nil {
			t.Logf("without cuBLAS: %v", d.BLAS().Reason)
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for i, size := range [][3]int{{512, 384, 1000}, {129, 130, 2048}, {1, 4096, 1024}, {4096, 1, 1024}, {16, 16, 8192}, {300, 20, 70}} {
			for transposes := range 4 {
				kind := []dtype.DType{dtype.Float16, dtype.BFloat16}[(i+transposes)%2]
				t.Run(fmt.Sprint(kind, size, transposes, library), func(t *testing.T) {
					a, b := newMatrix(rng, size[0], size[2], 0, transposes&1 != 0), newMatrix(rng, size[2], size[1], 0, transposes&2 != 0)
					multiply(t, d, kind, a, b, newMatrix(rng, size[0], size[1], 0, false), newMatrix(rng, size[0], size[1], 0, false))
				})
			}
		}
	}
}
