package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// mixed are n random numbers of float32, of which some are NaN if there shall be some.
func mixed(n int, rng *rand.Rand, nan bool) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()*2 - 1
		if nan && rng.IntN(8) == 0 {
			v[i] = float32(math.NaN())
		}
	}
	return v
}

func TestReductions_AreTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for n := 1; n < 140; n += 1 + n/20 {
		for _, nan := range []bool{false, true} {
			v := mixed(n+1, rng, nan)[1:]
			acc := mixed(n, rng, nan)
			all := func() (r [7][]float32) {
				more, less := append([]float32{}, acc...), append([]float32{}, acc...)
				mergeMax(more, v)
				mergeMin(less, v)
				repeated := append([]float32{}, v...)
				repeat(repeated)
				return [7][]float32{{float32(foldSum(0, v))}, {maxOf(v[0], v)}, {minOf(v[0], v)}, more, less, repeated,
					{float32(math.Float64frombits(math.Float64bits(foldSum(0, v)) << 29))}} // the last bits of the sum
			}
			fast := all()
			withoutVectors(func() {
				for k, slow := range all() {
					requireSame(t, slow, fast[k], "")
				}
			})
		}
	}
}

func TestFoldProd_IsTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for n := range 3000 {
		if n > 140 && n%97 > 0 {
			continue
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(1-2*rng.IntN(2)) * (1 + (rng.Float32()-0.5)/4)
		}
		fast := foldProd(3, v)
		withoutVectors(func() { require.Equal(t, foldProd(3, v), fast, "%d elements", n) })
		require.InEpsilon(t, prodInOrder(3.0, v), fast, 1e-12, "%d elements", n)
	}
}

// TestFoldProd_StaysInRange: products by place overflow or vanish where the product of all does not; zeros, infinities and NaN are as in order.
func TestFoldProd_StaysInRange(t *testing.T) {
	v := make([]float32, 2048)
	for i := range v {
		v[i] = []float32{0x1p100, 0x1p-100}[i%2]
	}
	require.EqualValues(t, 3, foldProd(3, v))
	for _, x := range []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(-1)), float32(math.NaN())} {
		v[1000] = x
		want, got := prodInOrder(1.0, v), foldProd(1, v)
		require.True(t, math.Float64bits(want) == math.Float64bits(got) || want != want && got != got, "%g: %g, want %g", x, got, want)
	}
	tiny := []float32{0x1p-149, 0x1p-149, 0x1p-149, 0x1p-149, 0x1p-149, 0x1p-149, 0x1p-149}
	require.EqualValues(t, 0x1p-43, foldProd(0x1p1000, tiny))
}

func TestVectorLoops_WriteNothingBesideTheirMemory(t *testing.T) {
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, n := range []int{8, 9, 15, 17, 40} {
		acc, v := watched[float32](n), watched[float32](n)
		mergeMax(acc, v)
		mergeMin(acc, v)
		repeat(v)
		require.Zero(t, g.check(), n)
	}
}

func TestCast_HalvesAreConvertedInOnePassOrThroughScratch(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const rows, columns = 5, 1027
	v := mixed(rows*columns, rng, true)
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16} {
		straight, turned, back := make([]uint16, len(v)), make([]uint16, len(v)), make([]float32, len(v))
		in := viewOf(t, dtype.Float32, v, rows, columns)
		launch(t, &op.Call{Op: op.Cast, Out: []op.View{viewOf(t, d, straight, rows, columns)}, In: []op.View{in}})
		launch(t, &op.Call{Op: op.Cast, Out: []op.View{viewOf(t, d, turned, columns, rows)}, In: []op.View{transposed(in)}})
		launch(t, &op.Call{Op: op.Cast, Out: []op.View{viewOf(t, dtype.Float32, back, rows, columns)}, In: []op.View{viewOf(t, d, straight, rows, columns)}})
		want, wide := make([]uint16, len(v)), make([]float32, len(v))
		narrowTo(want, v, d)
		widen(wide, want, d)
		require.Equal(t, want, straight)
		for i, x := range want {
			require.Equal(t, x, turned[i%columns*rows+i/columns])
		}
		requireSame(t, wide, back, d.String())
	}
}

func TestArithmetic_WithNumbersForRowsIsThatOfElements(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	const rows = 3
	for _, columns := range []int{8, 64, 65, 72, 1024, 1100, 2056} {
		x, column := mixed(rows*columns, rng, false), mixed(rows, rng, true)
		spread := make([]float32, rows*columns)
		for i := range spread {
			spread[i] = column[i/columns]
		}
		v := func(x []float32) op.View { return viewOf(t, dtype.Float32, x, rows, columns) }
		wide := viewOf(t, dtype.Float32, column, rows, 1)
		wide.Shape[1], wide.Strides[1] = columns, 0
		for _, id := range []op.ID{op.Add, op.Sub, op.Mul, op.Div, op.Maximum} {
			for k, in := range [][2]op.View{{v(x), wide}, {wide, v(x)}} {
				same := [2][]op.View{{v(x), v(spread)}, {v(spread), v(x)}}[k]
				got, want := make([]float32, len(x)+8), make([]float32, len(x))
				launch(t, &op.Call{Op: id, Out: []op.View{v(got)}, In: in[:], F: [8]float64{1}})
				launch(t, &op.Call{Op: id, Out: []op.View{v(want)}, In: same, F: [8]float64{1}})
				requireSame(t, append(want, make([]float32, 8)...), got, id.String())
			}
		}
	}
}

func TestReductions_OfRowsAreTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, shape := range [][2]int{{3, 8}, {4, 9}, {67, 31}, {130, 520}, {33, 1500}} {
		for _, id := range []op.ID{op.Sum, op.Mean, op.Max, op.Min} {
			for _, nan := range []bool{false, true} {
				x := mixed(shape[0]*shape[1]+1, rng, nan)[1:]
				reduced := func() []float32 {
					g.parts = nil
					out := watched[float32](shape[1])
					launch(t, &op.Call{Op: id, Out: []op.View{viewOf(t, dtype.Float32, out, 1, shape[1])},
						In: []op.View{viewOf(t, dtype.Float32, x, shape[0], shape[1])}})
					require.Zero(t, g.check())
					return out
				}
				fast := reduced()
				withoutVectors(func() { requireSame(t, reduced(), fast, id.String()) })
			}
		}
	}
}

func TestSum_OfRowsBeyondTheRangeOfFourIsThatOfAll(t *testing.T) {
	const rows, columns = 9, 16
	x := make([]float32, rows*columns)
	for c := range columns { // the first four of a column are beyond the range together
		for r := range 4 {
			x[r*columns+c], x[(r+4)*columns+c] = math.MaxFloat32/2, -math.MaxFloat32/2
		}
		x[8*columns+c] = 1
	}
	out, want := make([]float32, columns), make([]float32, columns)
	for c := range want {
		want[c] = 1
	}
	launch(t, &op.Call{Op: op.Sum, Out: []op.View{viewOf(t, dtype.Float32, out, 1, columns)}, In: []op.View{viewOf(t, dtype.Float32, x, rows, columns)}})
	requireSame(t, want, out, "")
}
