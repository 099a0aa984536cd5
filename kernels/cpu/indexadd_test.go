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

// Indices of dimensions that are too long for entries are sorted in another way, to the same groups.
func TestIndexAdd_SortsIndicesOfLongDimensionsAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, count := range []int{0, 1, 2, 199, 200, 1500} {
		index := make([]int64, count)
		for i := range index {
			index[i] = int64(rng.IntN(300))
		}
		short, long := sortedFor(t, 300, index), sortedFor(t, 1<<33, index)
		require.Equal(t, short.places, long.places)
		require.Equal(t, short.groups, long.groups)
		for k := range short.groups {
			row, places := short.group(k)
			require.IsIncreasing(t, append([]int{-1}, places...))
			for _, i := range places {
				require.EqualValues(t, row, index[i])
			}
		}
		require.Len(t, short.places, count)
	}
	large := sortedFor(t, 1<<34, []int64{1 << 33, 5, 1 << 33})
	require.Equal(t, []int{1, 0, 2}, large.places)
	require.Equal(t, []indexGroup{{5, 0}, {1 << 33, 1}}, large.groups)
}

// sortedFor has the groups of indices of a dimension.
func sortedFor(t *testing.T, dimension int, index []int64) *accumulation[float32] {
	out := op.View{}
	out.Shape[0] = dimension
	a := &accumulation[float32]{call: &op.Call{Out: []op.View{out}}}
	view := viewOf(t, dtype.Int64, index, len(index))
	a.sortIndices(&view)
	return a
}
