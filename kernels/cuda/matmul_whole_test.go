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

// Tiles that lie wholly in the result, of products without factors, are written in a way of their own, also with a bias of rows or of columns, and
// so are sums of slices in them, and what adds these up.
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
						work := multiplyPlain(t, dev, d, a, b, newMatrix(rng, 128, 256, 8*(transposes%2), false), nil)
						require.Equal(t, k == 512, work > 0, "slices")
						if k == 512 {
							return // what adds up slices has no ways of its own for biases
						}
						for _, added := range [...]*bias{{rows: true}, {columns: true}, {}, {rows: true, columns: true}, {columns: true, pitch: 3}} {
							multiplyPlain(t, dev, d, a, b, newMatrix(rng, 128, 256, 0, false), added)
						}
					})
				}
			}
		}
	})
}

// bias is what is added to a product: an element for each row, for each column, for both, or one for all. A pitch is that of columns.
type bias struct {
	rows, columns bool
	pitch         int
}

// lie are the elements in memory, and their distances along rows and columns of a result.
func (b *bias) lie(rows, columns int) (values []float64, steps [2]int) {
	if b.columns {
		steps[1] = max(1, b.pitch)
	}
	if b.rows {
		steps[0] = max(1, columns*steps[1])
	}
	values = make([]float64, (rows-1)*steps[0]+(columns-1)*steps[1]+1)
	for i := range values {
		values[i] = float64(i%37-18) / 4
	}
	return values, steps
}

// multiplyPlain computes dst = a*b, or that and a bias, and compares each element. It returns the workspace that the product took.
func multiplyPlain(t *testing.T, dev device.Device, d dtype.DType, a, b, dst *matrix, added *bias) (work uint64) {
	s := dev.DefaultStream()
	place := func(m *matrix) op.View {
		p, err := dev.Malloc(uint64(m.bytes(d)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Free(p)) })
		require.NoError(t, s.CopyToDevice(p, m.encode(d)))
		return m.view(d, p)
	}
	call := op.Call{Op: op.MatMul, Stream: s, Out: []op.View{place(dst)}, In: []op.View{place(a), place(b)}, F: [8]float64{1}}
	values, steps := []float64{0}, [2]int{}
	if added != nil {
		values, steps = added.lie(dst.rows, dst.columns)
		call.In = append(call.In, memory{t, dev}.put(d, values, []int{dst.rows, dst.columns}, steps[:]...))
		call.F[1] = 1
	}
	require.NoError(t, op.Check(&call))
	if work = kernels.Workspace(&call); work > 0 {
		call.Work = memory{t, dev}.put(dtype.Uint8, make([]float64, work), []int{int(work)})
	}
	require.NoError(t, kernels.Launch(&call))
	require.NoError(t, s.Synchronize(context.Background()))
	sums := make([]float64, 0, dst.rows*dst.columns)
	for i := range dst.rows {
		for j := range dst.columns {
			sum := values[i*steps[0]+j*steps[1]]
			for k := range a.columns {
				sum += a.values[i*a.columns+k] * b.values[k*b.columns+j]
			}
			sums = append(sums, sum)
		}
	}
	requireElements(t, s, d, dst, call.Out[0].Ptr, sums)
	return work
}
