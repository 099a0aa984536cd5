package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestReductions_AlongRowsAreTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, columns := range []int{1, 15, 16, 31, 32, 33, 65, 200, 1024, 4096, 4100, 9000} {
		const rows, gap = 5, 3
		for _, id := range []op.ID{op.Sum, op.Mean, op.Max, op.Min} {
			for _, nan := range []bool{false, true} {
				in := viewOf(t, dtype.Float32, mixed(rows*(columns+gap)+1, rng, nan)[1:], rows, columns+gap)
				in.Shape[1] = columns
				reduced := func() []float32 {
					g.parts = nil
					out := watched[float32](rows)
					launch(t, &op.Call{Op: id, Out: []op.View{viewOf(t, dtype.Float32, out, rows, 1)}, In: []op.View{in}})
					require.Zero(t, g.check())
					return out
				}
				fast := reduced()
				withoutVectors(func() { requireSame(t, reduced(), fast, id.String()) })
			}
		}
	}
}

func TestSum_AlongRowsBeyondTheRangeOfFourIsThatOfAll(t *testing.T) {
	const rows, columns = 3, 83
	x := make([]float32, rows*columns)
	for r := range rows { // four that are added first are beyond the range together
		for k := range 4 {
			x[r*columns+16*k] = math.MaxFloat32 / 2
			x[r*columns+16*k+1] = -math.MaxFloat32 / 2
		}
		x[(r+1)*columns-1] = 1
	}
	out := make([]float32, rows)
	launch(t, &op.Call{Op: op.Sum, Out: []op.View{viewOf(t, dtype.Float32, out, rows, 1)}, In: []op.View{viewOf(t, dtype.Float32, x, rows, columns)}})
	requireSame(t, []float32{1, 1, 1}, out, "")
}

func TestReductions_ByColumnsTakeAllRowsAtEachDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, pitch := range []int{27, 64, 128, 1024, 2048, 1040} { // of which fours go in together by two and up to sixteen
		const rows, columns = 141, 27
		x := mixed(rows*pitch, rng, false)
		in := viewOf(t, dtype.Float32, x, rows, pitch)
		in.Shape[1] = columns
		for _, id := range []op.ID{op.Sum, op.Max, op.Min, op.Prod} {
			if id == op.Prod { // near 1, so that the products are numbers
				for i, v := range x {
					x[i] = 1 + v/8
				}
			}
			reduced := func() []float32 {
				out := make([]float32, columns)
				launch(t, &op.Call{Op: id, Out: []op.View{viewOf(t, dtype.Float32, out, 1, columns)}, In: []op.View{in}})
				return out
			}
			fast := reduced()
			withoutVectors(func() { requireSame(t, reduced(), fast, id.String()) })
		}
	}
}

// TestExtremes_OfFloat64ByColumns: as without vectors, of columns with NaN and without, at each distance.
func TestExtremes_OfFloat64ByColumns(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, columns := range []int{8, 11, 12, 24, 27} {
		for _, pitch := range []int{27, 64, 512, 1040} {
			const rows = 141
			x := onHeap[float64](rows * pitch)
			for i := range x {
				if x[i] = rng.NormFloat64(); rng.IntN(2000) == 0 {
					x[i] = math.NaN()
				}
			}
			for _, id := range []op.ID{op.Max, op.Min} {
				reduced := func() []float64 {
					dst := onHeap[float64](columns)
					in, out := straight(dtype.Float64, x), straight(dtype.Float64, dst)
					in.NDim, in.Shape, in.Strides = 2, [op.MaxDims]int{rows, columns}, [op.MaxDims]int{pitch, 1}
					out.NDim, out.Shape, out.Strides = 2, [op.MaxDims]int{1, columns}, [op.MaxDims]int{columns, 1}
					launch(t, &op.Call{Op: id, Out: []op.View{out}, In: []op.View{in}})
					return dst
				}
				fast := reduced()
				withoutVectors(func() { requireBits(t, reduced(), fast, id.String()) })
			}
		}
	}
}
