package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestBackward_ThroughResultsWithoutElements(t *testing.T) {
	layer := func(f func(x, w, b *autograd.Variable) *autograd.Variable) func(x *autograd.Variable) *autograd.Variable {
		return func(x *autograd.Variable) *autograd.Variable {
			g := x.Graph()
			empty := func(shape ...int) *autograd.Variable {
				return g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float64, shape...) })
			}
			return f(x, empty(0, 4), empty(0))
		}
	}
	for name, f := range map[string]func(x *autograd.Variable) *autograd.Variable{
		"AdaptiveAvgPool1d": func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveAvgPool1d(0) },
		"AdaptiveMaxPool1d": func(x *autograd.Variable) *autograd.Variable { return x.AdaptiveMaxPool1d(0) },
		"LinearReLU":        layer((*autograd.Variable).LinearReLU),
		"LinearGELU":        layer((*autograd.Variable).LinearGELU),
		"LinearGELUTanh":    layer((*autograd.Variable).LinearGELUTanh),
	} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := r.graph()
			defer g.Release()
			x := g.Input(r.random(1, 2, 3, 4), autograd.RequiresGrad())
			out := f(x)
			require.NoError(t, g.Err())
			require.Zero(t, out.Len())
			require.NoError(t, out.Sum(nil, false).Backward())
			require.Equal(t, make([]float64, 24), values(t, x.Grad()))
		})
	}
}

// Cat skips what has the shape [0], whose gradient is of that shape, and takes nothing of the others'.
func TestCat_SkipsVariablesOfNothingInTheGradientToo(t *testing.T) {
	r := onHost(t)
	for _, dim := range []int{0, 1, -1, -2} {
		g := r.graph()
		none := g.Input(r.tensor(nil, 0), autograd.RequiresGrad())
		x := g.Input(r.tensor([]float64{1, 2, 3, 4}, 2, 2), autograd.RequiresGrad())
		joined := autograd.Cat([]variable{none, x, none, x}, dim)
		require.NoError(t, joined.Square().Sum(nil, false).Backward())
		grad, err := x.Grad().Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{4, 8, 12, 16}, grad, dim)
		require.Equal(t, tensor.Shape{0}, none.Grad().Shape())
		g.Release()
	}
}
