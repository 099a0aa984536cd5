package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Whatever shape, view or type: a result or an error, never a panic, and nothing is left. Values of views are those of copies.
func TestCommonFunctions_OfOddInputs(t *testing.T) {
	r := onHost(t)
	makers := map[string]func(g *autograd.Graph) variable{
		"empty":      func(g *autograd.Graph) variable { return g.Zeros(tensor.Float64, 0) },
		"empty rows": func(g *autograd.Graph) variable { return g.Zeros(tensor.Float64, 0, 3) },
		"no columns": func(g *autograd.Graph) variable { return g.Zeros(tensor.Float64, 3, 0) },
		"no dims":    func(g *autograd.Graph) variable { return g.Full(-2, tensor.Float64) },
		"one":        func(g *autograd.Graph) variable { return g.Full(-2, tensor.Float32, 1, 1, 1) },
		"expanded":   func(g *autograd.Graph) variable { return g.Arange(0, 3, 1, tensor.Float64).Expand(4, 3) },
		"transposed": func(g *autograd.Graph) variable { return g.Arange(0, 12, 1, tensor.Float64).Reshape(3, 4).T() },
		"strided": func(g *autograd.Graph) variable {
			return g.Arange(0, 72, 1, tensor.Float64).Reshape(2, 3, 12).Slice(2, 1, 12, 3)
		},
		"integers": func(g *autograd.Graph) variable { return g.Arange(-3, 3, 1, tensor.Int32).Reshape(2, 3) },
		"bytes":    func(g *autograd.Graph) variable { return g.Arange(0, 6, 1, tensor.Uint8).Reshape(2, 3) },
		"bools":    func(g *autograd.Graph) variable { return g.Arange(0, 6, 1, tensor.Int64).Reshape(2, 3).GtScalar(2) },
		"halves":   func(g *autograd.Graph) variable { return g.Arange(-3, 3, 1, tensor.Float16).Reshape(1, 2, 3) },
		"bfloat16": func(g *autograd.Graph) variable { return g.Arange(-3, 3, 1, tensor.BFloat16).Reshape(2, 3) },
		"NaN": func(g *autograd.Graph) variable {
			return autograd.FromSlice(g, []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0}, 2, 2)
		},
	}
	for name, f := range commonFunctions() {
		for what, make := range makers {
			for _, count := range []int{3, 4} {
				g := r.graph()
				in := make(g)
				v := vars{in, in, in, in}[:count] // some look at how many there are
				out := f(v)
				if g.Err() != nil {
					var op *autograd.OpError
					require.ErrorAs(t, g.Err(), &op, "%s of %s", name, what)
					g.Release()
					continue
				}
				got := valuesOf(t, out)
				plain := in.Contiguous()
				want := valuesOf(t, f(vars{plain, plain, plain, plain}[:len(v)]))
				near(t, name+" of "+what, want, got, 1e-12)
				g.Release()
			}
		}
		require.Nil(t, f(vars{nil, nil, nil, nil}), name)
	}
}

// Shapes are PyTorch's where there is one variable, or no dimension.
func TestCommonFunctions_ShapesOfOne(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	one, none := g.Ones(tensor.Float64, 1, 5), g.Full(-2, tensor.Float64)
	for name, v := range map[string]variable{
		"cov": one.Cov(1), "corrcoef": one.CorrCoef(), "cov of a vector": one.Reshape(5).Cov(1), "copysign": none.Copysign(none),
	} {
		require.Equal(t, tensor.Shape{}, v.Shape(), name)
	}
	require.Equal(t, tensor.Shape{2, 2}, g.Ones(tensor.Float64, 2, 5).Cov(1).Shape())
	require.NoError(t, g.Err())
	g.Release()
}

// Powers of integers are int64, whatever the integers: those of small types would wrap around.
func TestVander_OfIntegersIsInt64(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	for _, dt := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Uint8} {
		v := g.Full(7, dt, 1).Vander(4, false)
		require.Equal(t, tensor.Int64, v.DType(), dt)
		require.Equal(t, []float64{343, 49, 7, 1}, valuesOf(t, v), dt)
	}
	require.Equal(t, []float64{1, 1, 0, 1}, valuesOf(t, autograd.FromSlice(g, []bool{true, false}, 2).Vander(2, false)))
	g.Release()
}

// The distance of what has no elements is 0 in every norm.
func TestDistances_OfNothing(t *testing.T) {
	r := onHost(t)
	for _, p := range []float64{0, 1, 2, math.Inf(1)} {
		g := r.graph()
		x := g.Zeros(tensor.Float64, 1, 0)
		require.Equal(t, []float64{0}, valuesOf(t, x.Dist(x, p)), p)
		require.Equal(t, []float64{0, 0, 0}, valuesOf(t, g.Zeros(tensor.Float64, 3, 0).PDist(p)), p)
		require.Equal(t, []float64{0}, valuesOf(t, x.PairwiseDistance(x, p, 1e-6, false)), p)
		g.Release()
	}
}

// A difference that is NaN cannot be counted: the distance is NaN in the norm of 0 as in others.
func TestDistances_OfNaN(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	a, b := autograd.FromSlice(g, []float64{0, math.NaN()}, 1, 2), autograd.FromSlice(g, []float64{1, 2}, 1, 2)
	for _, p := range []float64{0, 1, 2, 3} {
		require.True(t, math.IsNaN(valuesOf(t, a.CDist(b, p))[0]), p)
		require.True(t, math.IsNaN(valuesOf(t, autograd.Cat(vars{a, b}, 0).PDist(p))[0]), p)
	}
	far := autograd.FromSlice(g, []float64{math.Inf(1), 0.25}, 1, 2)
	require.Equal(t, []float64{2}, valuesOf(t, far.CDist(b, 0)))
	g.Release()
}
