package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestIndexAdd_OfStraightSlicesAddsInTheOrderOfTheIndices(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	const rows, count = 7, 40
	for _, columns := range []int{1, 7, 8, 100, 1024, 1025, 3000} {
		for _, gap := range []int{0, 3} { // between slices of the source
			x, index := mixed(count*(columns+gap), rng, false), make([]int64, count)
			for i := range index {
				index[i] = int64(rng.IntN(rows - 1)) // the last slice has none
			}
			g.parts = nil
			sums := watched[float32](rows * columns)
			copy(sums, mixed(len(sums), rng, false))
			want := append([]float32{}, sums...)
			for i, row := range index {
				for k := range columns {
					want[int(row)*columns+k] += x[i*(columns+gap)+k]
				}
			}
			src := viewOf(t, dtype.Float32, x, count, columns+gap)
			src.Shape[1] = columns
			launch(t, &op.Call{Op: op.IndexAdd, Out: []op.View{viewOf(t, dtype.Float32, sums, rows, columns)},
				In: []op.View{src, viewOf(t, dtype.Int64, index, count)}})
			requireSame(t, want, sums, "")
			require.Zero(t, g.check())
		}
	}
}
