package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Tiles that lie wholly in the result, of products without factors, are written in a way of their own, and so are sums of slices in
// them, and what adds these up.
func TestMatMul_InWholeTiles(t *testing.T) {
	everyway(t, func(t *testing.T, dev device.Device, r *cudatest.Rig) {
		rng := rand.New(rand.NewPCG(21, 22))
		for i, tile := range cuda.Tiles() {
			for transposes := range 4 {
				d := []dtype.DType{dtype.Float16, dtype.BFloat16}[(i+transposes)%2]
				for _, k := range []int{64, 512} {
					t.Run(fmt.Sprint(tile, transposes, d, k), func(t *testing.T) {
						cuda.PreferTile(t, tile)
						a, b := newMatrix(rng, 128, k, 0, transposes&1 != 0), newMatrix(rng, k, 256, 0, transposes&2 != 0)
						work := multiplyPlain(t, dev, d, a, b, newMatrix(rng, 128, 256, 8*(transposes%2), false))
						require.Equal(t, k == 512, work > 0, "slices")
					})
				}
			}
		}
	})
}

// multiplyPlain computes dst = a*b and compares each element. It returns the workspace that the product took.
func multiplyPlain(t *testing.T, dev device.Device, d dtype.DType, a, b, dst *matrix) (work uint64) {
	s := dev.DefaultStream()
	place := func(m *matrix) op.View {
		p, err := dev.Malloc(uint64(m.bytes(d)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Free(p)) })
		require.NoError(t, s.CopyToDevice(p, m.encode(d)))
		return m.view(d, p)
	}
	call := op.Call{Op: op.MatMul, Stream: s, Out: []op.View{place(dst)}, In: []op.View{place(a), place(b)}, F: [8]float64{1}}
	require.NoError(t, op.Check(&call))
	if work = kernels.Workspace(&call); work > 0 {
		call.Work = memory{t, dev}.put(dtype.Uint8, make([]float64, work), []int{int(work)})
	}
	require.NoError(t, kernels.Launch(&call))
	require.NoError(t, s.Synchronize(context.Background()))
	sums := make([]float64, 0, dst.rows*dst.columns)
	for i := range dst.rows {
		for j := range dst.columns {
			sum := 0.0
			for k := range a.columns {
				sum += a.values[i*a.columns+k] * b.values[k*b.columns+j]
			}
			sums = append(sums, sum)
		}
	}
	requireElements(t, s, d, dst, call.Out[0].Ptr, sums)
	return work
}
