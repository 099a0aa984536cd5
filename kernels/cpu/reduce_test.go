package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

func TestSum_OfTenMillionFloat32IsAccurate(t *testing.T) {
	const n = 10_000_000
	v, out := make([]float32, n), make([]float32, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	var want float64
	for i := range v {
		v[i] = 1 + rng.Float32()/8
		want += float64(v[i])
	}
	launch(t, &op.Call{Op: op.Sum, Out: []op.View{viewOf(t, dtype.Float32, out, 1)}, In: []op.View{viewOf(t, dtype.Float32, v, n)}})
	require.InEpsilon(t, want, out[0], 1e-7)
	launch(t, &op.Call{Op: op.Mean, Out: []op.View{viewOf(t, dtype.Float32, out, 1)}, In: []op.View{viewOf(t, dtype.Float32, v, n)}})
	require.InEpsilon(t, want/n, out[0], 1e-7)
}

// TestKernels_DoNotDependOnTheNumberOfWorkers runs operations that divide their work, on enough of it, with 1, 2, 3 and 8
// workers. Float64 shows any change in the order of additions.
func TestKernels_DoNotDependOnTheNumberOfWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const rows, columns = 700, 300
	a, b, out := make([]float64, rows*columns), make([]float64, rows*columns), make([]float64, rows*columns)
	for i := range a {
		a[i], b[i] = rng.NormFloat64(), rng.NormFloat64()
	}
	av, bv := viewOf(t, dtype.Float64, a, rows, columns), viewOf(t, dtype.Float64, b, rows, columns)
	moments := make([]float64, rows*columns)
	mv := viewOf(t, dtype.Float64, moments, rows, columns)
	index := make([]int64, rows)
	for i := range index {
		index[i] = int64(rng.IntN(50))
	}
	iv := viewOf(t, dtype.Int64, index, rows)
	dst := func(shape ...int) []op.View { return []op.View{viewOf(t, dtype.Float64, out, shape...)} }
	calls := map[string]*op.Call{
		"add":             {Op: op.Add, Out: dst(rows, columns), In: []op.View{av, bv}, F: [8]float64{1}},
		"add transposed":  {Op: op.Add, Out: []op.View{transposed(dst(columns, rows)[0])}, In: []op.View{av, bv}, F: [8]float64{0.3}},
		"exp":             {Op: op.Exp, Out: dst(rows, columns), In: []op.View{av}},
		"sum of all":      {Op: op.Sum, Out: dst(1, 1), In: []op.View{av}},
		"sum of rows":     {Op: op.Sum, Out: dst(rows, 1), In: []op.View{av}},
		"sum of columns":  {Op: op.Sum, Out: dst(1, columns), In: []op.View{av}},
		"mean transposed": {Op: op.Mean, Out: dst(1, rows), In: []op.View{transposed(av)}},
		"prod":            {Op: op.Prod, Out: dst(1, columns), In: []op.View{av}},
		"softmax":         {Op: op.Softmax, Out: dst(rows, columns), In: []op.View{av}},
		"log_softmax":     {Op: op.LogSoftmax, Out: dst(rows, columns), In: []op.View{av}},
		"softmax_grad":    {Op: op.SoftmaxGrad, Out: dst(rows, columns), In: []op.View{av, bv}},
		"index_select":    {Op: op.IndexSelect, Out: dst(rows, columns), In: []op.View{av, iv}},
		"index_add":       {Op: op.IndexAdd, Out: dst(50, columns), In: []op.View{av, iv}},
		"normal":          {Op: op.Normal, Out: dst(rows, columns), F: [8]float64{0, 1, 0.5}, I: [8]int64{9, 4}},
		"uniform":         {Op: op.Uniform, Out: dst(rows, columns), F: [8]float64{0, 1, 0.5}, I: [8]int64{9, 4}},
		"adam":            {Op: op.AdamStep, Out: []op.View{dst(rows, columns)[0], mv, mv}, In: []op.View{av}, F: [8]float64{.1, .9, .99, 1e-8, .1, 1}, I: [8]int64{1}},
	}
	for name, c := range calls {
		var first []float64
		for _, n := range []int{1, 2, 3, 8} {
			clear(out)
			clear(moments)
			workers(n, func() { launch(t, c) })
			if first == nil {
				first = append([]float64(nil), out...)
				require.NotZero(t, out[0], name)
			}
			requireSame(t, first, out, fmt.Sprintf("%s with %d workers", name, n))
		}
	}
}

func TestSum_WhatIsBeyondTheRangeInBetweenIsNot(t *testing.T) {
	for _, n := range []int{64, 70, 5000} {
		v := make([]float32, n)
		for i := range v {
			if v[i] = math.MaxFloat32; i%2 == 1 {
				v[i] = -math.MaxFloat32
			}
		}
		if n%2 == 1 {
			v[n-1] = 0
		}
		check := func() {
			out := []float32{1}
			launch(t, &op.Call{Op: op.Sum, Out: []op.View{viewOf(t, dtype.Float32, out, 1)}, In: []op.View{viewOf(t, dtype.Float32, v, n)}})
			require.Zero(t, out[0], n)
		}
		check()
		withoutVectors(check)
	}
}
