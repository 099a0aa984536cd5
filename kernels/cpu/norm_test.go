package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// normCalls are calls of the normalisations, and of operations with an index for each element, on tensors of n samples.
func normCalls(t testing.TB, n int) map[string]*op.Call {
	const c = 48
	x, h, idx := make([]float32, 3*n*c), make([]uint16, 2*n*c), make([]int64, n*c)
	apart := 3*n + c // vectors are of at most so many elements
	vectors := make([]float32, 4*apart)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for i := range vectors {
		vectors[i] = float32(1 + math.Cos(float64(i)))
	}
	for i := range idx {
		idx[i] = int64(i * 7 % n)
	}
	full := func(k, c, l int) op.View { return viewOf(t, dtype.Float32, x[k*n*48:], n, c, l) }
	half := func(k int) op.View { return viewOf(t, dtype.Float16, h[k*n*c:], n, c, 1) }
	vector := func(k, size int) op.View { return viewOf(t, dtype.Float32, vectors[k*apart:], size) }
	matrix := func(k int) op.View { return viewOf(t, dtype.Float32, x[k*n*c:], n, c) }
	indices := viewOf(t, dtype.Int64, idx, n, c)
	affine := int64(op.NormWeight | op.NormBias)
	return map[string]*op.Call{
		"layer norm": {Op: op.RowNorm, Out: []op.View{full(0, c, 1), vector(0, n), vector(1, n)},
			In: []op.View{full(1, c, 1), vector(2, c), vector(3, c)}, F: [8]float64{1e-5}, I: [8]int64{1, affine}},
		"layer norm half": {Op: op.RowNorm, Out: []op.View{half(0), vector(0, n), vector(1, n)},
			In: []op.View{half(1), vector(2, c), vector(3, c)}, F: [8]float64{1e-5}, I: [8]int64{1, affine}},
		"group norm gradient": {Op: op.RowNormGrad, Out: []op.View{full(0, 6, 8)},
			In: []op.View{full(1, 6, 8), full(2, 6, 8), vector(0, 3*n), vector(1, 3*n), vector(2, 6)}, I: [8]int64{3, op.NormWeight}},
		"sums": {Op: op.NormSums, Out: []op.View{vector(2, c), vector(3, c)},
			In: []op.View{full(1, c, 1), full(2, c, 1), vector(0, n), vector(1, n)}, I: [8]int64{1}},
		"stats": {Op: op.ChannelStats, Out: []op.View{vector(0, c), vector(1, c)}, In: []op.View{full(1, c, 1)}, F: [8]float64{1e-5}},
		"stats of runs": {Op: op.ChannelStats, Out: []op.View{vector(0, 6), vector(1, 6)},
			In: []op.View{full(1, 6, 8)}, F: [8]float64{1e-5}},
		"channels": {Op: op.ChannelNorm, Out: []op.View{full(0, c, 1)},
			In: []op.View{full(1, c, 1), vector(0, c), vector(1, c), vector(2, c), vector(3, c)}, I: [8]int64{0, affine}},
		"channels gradient": {Op: op.ChannelNormGrad, Out: []op.View{full(0, 6, 8)},
			In: []op.View{full(1, 6, 8), full(2, 6, 8), vector(0, 6), vector(1, 6), vector(2, 6), vector(3, 6)}, I: [8]int64{0, op.NormTraining}},
		"gather":      {Op: op.Gather, Out: []op.View{matrix(0)}, In: []op.View{matrix(1), indices}},
		"scatter":     {Op: op.Scatter, Out: []op.View{matrix(0)}, In: []op.View{matrix(1), indices}},
		"scatter add": {Op: op.ScatterAdd, Out: []op.View{matrix(0)}, In: []op.View{matrix(1), indices}},
		"scatter add half": {Op: op.ScatterAdd, Out: []op.View{viewOf(t, dtype.Float16, h, n, c)},
			In: []op.View{viewOf(t, dtype.Float16, h[n*c:], n, c), indices}},
	}
}

func TestNorms_DoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector changes what is allocated")
	}
	table := map[op.ID]op.Row{}
	for _, r := range Rows() {
		table[r.Op] = r
	}
	for name, c := range normCalls(t, 16) {
		require.NoError(t, op.Check(withStream(c)), name)
		f := table[c.Op].Funcs[c.Key()]
		require.Zero(t, testing.AllocsPerRun(50, func() {
			if err := f(c); err != nil {
				t.Fatal(err)
			}
		}), name)
	}
}

// withStream makes a call that op.Check takes: it only asks whether there is a stream.
func withStream(c *op.Call) *op.Call {
	d := c.Clone()
	d.Stream = noStream{}
	return d
}

func TestNorms_DoNotDependOnTheNumberOfProcessors(t *testing.T) {
	for _, name := range []string{"layer norm", "group norm gradient", "sums", "stats", "stats of runs", "channels", "scatter"} {
		run := func(n int) []float32 {
			c := normCalls(t, 3000)[name]
			workers(n, func() { launch(t, c) })
			var all []float32
			for i := range c.Out {
				all = append(all, slice[float32](c.Out[i].Ptr, c.Out[i].Len())...)
			}
			return slices.Clone(all)
		}
		requireSame(t, run(1), run(4), name)
	}
}

// A single pass that sums squares would lose all digits of this variance.
func TestRowNorm_KeepsItsDigitsFarFromZero(t *testing.T) {
	x := []float32{1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3}
	y, stats := make([]float32, 4), make([]float32, 2)
	launch(t, &op.Call{Op: op.RowNorm, In: []op.View{viewOf(t, dtype.Float32, x, 1, 4, 1)}, I: [8]int64{1},
		Out: []op.View{viewOf(t, dtype.Float32, y, 1, 4, 1), viewOf(t, dtype.Float32, stats, 1), viewOf(t, dtype.Float32, stats[1:], 1)}})
	require.InDeltaSlice(t, []float32{-1.3416407, -0.4472136, 0.4472136, 1.3416407}, y, 1e-6)
	require.Equal(t, float32(1e6+1.5), stats[0])
}

func TestSliceMath_IsTheSameWithAndWithoutVectorInstructions(t *testing.T) {
	a, b := make([]float32, 37), make([]float32, 37)
	for i := range a {
		a[i], b[i] = float32(i)-20.3, 1/float32(i+1)
	}
	all := func() (r [5][]float32) {
		for k := range r {
			r[k] = make([]float32, len(a))
		}
		mulSlices(r[0], a, b)
		addSlices(r[1], a, b)
		subSlices(r[2], a, b)
		shiftSlice(r[3], a, 0.7)
		scaleSlice(r[4], a, 0.7)
		return r
	}
	fast := all()
	saved := vector
	defer func() { vector = saved }()
	vector = vectorLoops{}
	slow := all()
	require.Equal(t, slow, fast)
	for i := range a {
		require.Equal(t, [5]float32{a[i] * b[i], a[i] + b[i], a[i] - b[i], a[i] + 0.7, a[i] * 0.7},
			[5]float32{fast[0][i], fast[1][i], fast[2][i], fast[3][i], fast[4][i]})
	}
}

func BenchmarkNorms(b *testing.B) {
	for name, c := range normCalls(b, 20_000) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				launch(b, c)
			}
			b.ReportMetric(20_000*48*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
		})
	}
}
