//go:build !race

package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

func TestMatMul_MakesNoHeapAllocation(t *testing.T) {
	r := cudatest.NewCUBLAS(t, 1)
	q, err := newSquare(r.Devices[0], 8)
	require.NoError(t, err)
	for name, p := range map[string]*blas.Product{"product": q.product(), "with a bias": q.biased()} {
		allocs := testing.AllocsPerRun(50, func() {
			bytes, ok := q.d.MatMulWorkspace(p)
			if done, err := q.d.MatMul(q.s, p, q.work, bytes); err != nil || !done || !ok {
				t.Error("not done", err)
			}
		})
		require.Zero(t, allocs, name)
	}
}
