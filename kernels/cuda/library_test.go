package cuda_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
)

// withLibrary is emulated with the emulated cuBLAS.
func withLibrary(t *testing.T) *cudatest.Rig {
	t.Helper()
	return emulatedtest.Load(t, cudatest.NewCUBLAS(t, 1))
}

// The cases that our own kernels pass, with the library on the machine. Many have layouts that BLAS does not know.
func TestConformance_OfProductsWithTheLibrary(t *testing.T) {
	r := withLibrary(t)
	d := r.Devices[0]
	for _, id := range []op.ID{op.MatMul, op.MatMulAct, op.LinearWeightGrad} {
		t.Run(id.String(), func(t *testing.T) { kerneltest.TestOp(t, d, id, thinned(fulltests.Or(5, 13))) })
	}
	calls := r.Calls()
	least := fulltests.Or(20, 5)
	if testing.Short() {
		least = 0 // of so few cases only some are BLAS's
	}
	for _, f := range []string{"cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasLtMatmul", "cuLaunchKernel"} {
		require.Greater(t, calls[f], least, f)
	}
	b := d.BLAS()
	require.NoError(t, b.Reason)
	require.Positive(t, b.Products)
	require.Less(t, b.Refusals, b.Products, "%v", b)
}

// A library that refuses each call of one function never changes a result: our own kernels compute it.
func TestMatMul_FallsBackToOwnKernelsWhateverTheLibraryRefuses(t *testing.T) {
	const allocFailed = 3
	for i, f := range []string{
		"cublasCreate_v2", "cublasSetMathMode", "cublasSetStream_v2", "cublasSetWorkspace_v2", "cublasGemmEx", "cublasLtCreate", "cublasLtMatmul",
		"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
		"cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
	} {
		if i%fulltests.Or(1, 3) != 0 {
			continue
		}
		t.Run(f, func(t *testing.T) {
			r := withLibrary(t)
			r.Fail(f, 0, allocFailed)
			rng := rand.New(rand.NewPCG(1, 2))
			a, b := newMatrix(rng, 33, 40, 0, false), newMatrix(rng, 40, 24, 0, true)
			multiply(t, r.Devices[0], dtype.Float16, a, b, newMatrix(rng, 33, 24, 0, false), newMatrix(rng, 33, 24, 0, false))
			d := r.Devices[0]
			kerneltest.TestOp(t, d, op.MatMulAct, thinned(fulltests.Or(150, 999)))
			kerneltest.TestOp(t, d, op.MatMul, thinned(fulltests.Or(150, 999)))
			require.Positive(t, r.Calls()[f])
			require.Positive(t, r.Calls()["cuLaunchKernel"])
		})
	}
}
