package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestLayerNormGradients_AreTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, shape := range [][2]int{{1, 7}, {3, 8}, {9, 16}, {8, 33}, {130, 40}, {5, 1100}, {260, 17}} {
		n, width := shape[0], shape[1]
		grad, x, w := mixed(n*width+1, rng, false)[1:], mixed(n*width+1, rng, false)[1:], mixed(width, rng, false)
		mean, rstd := mixed(n, rng, false), mixed(n, rng, false)
		full := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, n, width, 1) }
		line := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, len(v)) }
		all := func() (r [3][]float32) {
			g.parts = nil
			r = [3][]float32{watched[float32](n * width), watched[float32](width), watched[float32](width)}
			launch(t, &op.Call{Op: op.RowNormGrad, Out: []op.View{full(r[0])}, In: []op.View{full(grad), full(x), line(mean), line(rstd), line(w)},
				I: [8]int64{1, op.NormWeight}})
			launch(t, &op.Call{Op: op.NormSums, Out: []op.View{line(r[1]), line(r[2])}, In: []op.View{full(grad), full(x), line(mean), line(rstd)},
				I: [8]int64{1}})
			require.Zero(t, g.check())
			return r
		}
		fast := all()
		withoutVectors(func() {
			for k, slow := range all() {
				requireSame(t, slow, fast[k], "")
			}
		})
	}
}

func TestLayerNorm_IsTheSameWithoutVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, width := range []int{1, 7, 8, 15, 16, 33, 64, 79, 80, 129, 1024, 1100} {
		for _, far := range []float32{0, 1000, 1e30} { // squares beyond the range of float32
			const n = 5
			x, w, b := mixed(n*width+1, rng, false)[1:], mixed(width, rng, false), mixed(width, rng, false)
			for i := range x {
				x[i] *= 1 + far
			}
			line := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, len(v)) }
			all := func() (r [3][]float32) {
				g.parts = nil
				r = [3][]float32{watched[float32](n * width), watched[float32](n), watched[float32](n)}
				launch(t, &op.Call{Op: op.RowNorm, Out: []op.View{viewOf(t, dtype.Float32, r[0], n, width, 1), line(r[1]), line(r[2])},
					In: []op.View{viewOf(t, dtype.Float32, x, n, width, 1), line(w), line(b)}, I: [8]int64{1, op.NormWeight | op.NormBias}, F: [8]float64{1e-5}})
				require.Zero(t, g.check())
				return r
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

// Sums of which four numbers are beyond the range of float32, and all are not, are those of float64.
func TestLayerNormGradients_TakeNumbersWhoseSumsOverflow(t *testing.T) {
	const n, width = 8, 64
	grad, x, w := make([]float32, n*width), make([]float32, n*width), make([]float32, width)
	mean, rstd := make([]float32, n), make([]float32, n)
	for i := range grad {
		grad[i], x[i] = 3e38, 0.5
		if r := i / width; r%4 >= 2 != (i%width >= width/2) { // two rows, and halves of a row, cancel
			grad[i] = -3e38
		}
	}
	for i := range w {
		w[i] = 1
	}
	for r := range rstd {
		rstd[r] = 1
	}
	grad[0] = 1e38
	full := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, n, width, 1) }
	line := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, len(v)) }
	check := func() {
		dx, products, sums := make([]float32, n*width), make([]float32, width), make([]float32, width)
		launch(t, &op.Call{Op: op.NormSums, Out: []op.View{line(products), line(sums)}, In: []op.View{full(grad), full(x), line(mean), line(rstd)}, I: [8]int64{1}})
		launch(t, &op.Call{Op: op.RowNormGrad, Out: []op.View{full(dx)}, In: []op.View{full(grad), full(x), line(mean), line(rstd), line(w)}, I: [8]int64{1, op.NormWeight}})
		for i := range width {
			product, sum := 0.0, 0.0
			if i == 0 {
				product, sum = -1e38, -2e38
			}
			require.InDelta(t, product, products[i], 1e33, "column %d", i)
			require.InDelta(t, sum, sums[i], 1e33, "column %d", i)
		}
		for i := width; i < len(dx); i++ {
			require.Equal(t, grad[i], dx[i], "element %d", i)
		}
		require.InEpsilon(t, 1e38+2e38/width*1.25, dx[0], 1e-5)
	}
	check()
	withoutVectors(check)
}
