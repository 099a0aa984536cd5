package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/tensor"
)

// The numbers are PyTorch's.
func TestPadSequence_PutsTheValueBehindShorterSequences(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	a, b := g.Input(r.tensor([]float64{1, 2, 3, 4}, 2, 2)), g.Input(r.tensor([]float64{5, 6}, 1, 2))
	none := g.Input(must(tensor.Zeros(r.exec, tensor.Float64, 0, 2)))
	inf := math.Inf(1)
	for _, c := range []struct {
		first bool
		value float64
		shape tensor.Shape
		want  []float64
	}{
		{false, 0, tensor.Shape{2, 3, 2}, []float64{1, 2, 5, 6, 0, 0, 3, 4, 0, 0, 0, 0}},
		{true, 7, tensor.Shape{3, 2, 2}, []float64{1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7}},
		{true, inf, tensor.Shape{3, 2, 2}, []float64{1, 2, 3, 4, 5, 6, inf, inf, inf, inf, inf, inf}},
	} {
		v := autograd.PadSequence(vars{a, b, none}, c.first, c.value)
		require.Equal(t, c.shape, v.Shape())
		require.Equal(t, c.want, valuesOf(t, v))
		parts := autograd.UnpadSequence(v, []int{2, 1, 0}, c.first)
		for i, part := range (vars{a, b, none}) {
			require.Equal(t, part.Shape(), parts[i].Shape())
			require.Equal(t, valuesOf(t, part), valuesOf(t, parts[i]))
		}
	}
	ids := autograd.PadSequence(vars{autograd.FromSlice(g, []int32{1, 2, 3}), autograd.FromSlice(g, []int64{4})}, true, -1)
	require.Equal(t, tensor.Int32, ids.DType(), "that of the first one, as in PyTorch")
	require.Equal(t, []float64{1, 2, 3, 4, -1, -1}, valuesOf(t, ids))
	require.Equal(t, []float64{1, 2}, valuesOf(t, autograd.PadSequence(vars{autograd.FromSlice(g, []float64{1, 2})}, false, 0)))
	require.NoError(t, g.Err())
}

func TestPadSequence_HasGradients(t *testing.T) {
	r := onHost(t)
	err := gradcheck.Check(r.dev, func(in []variable) variable {
		v := autograd.PadSequence(in, false, 3)
		parts := autograd.UnpadSequence(v.Square(), []int{3, 1, 2}, false)
		return parts[0].Sum(nil, false).Add(parts[1].Exp().Sum(nil, false)).Add(parts[2].Sum(nil, false)).Add(v.Square().Sum(nil, false))
	}, []*tensor.Tensor{r.random(1, 3, 2), r.random(2, 1, 2), r.random(3, 2, 2)})
	require.NoError(t, err)
}

func TestPadSequence_RefusesWhatAreNoSequences(t *testing.T) {
	r := onHost(t)
	for want, f := range map[string]func(g *autograd.Graph) variable{
		"sequence 1 has no dimension": func(g *autograd.Graph) variable {
			return autograd.PadSequence(vars{g.Zeros(tensor.Float32, 2), g.Scalar(1, tensor.Float32)}, false, 0)
		},
		"sequence 1 is [2, 3], and the first [2, 2]": func(g *autograd.Graph) variable {
			return autograd.PadSequence(vars{g.Zeros(tensor.Float32, 2, 2), g.Zeros(tensor.Float32, 2, 3)}, false, 0)
		},
		"the largest number of float16": func(g *autograd.Graph) variable {
			return autograd.PadSequence(vars{g.Zeros(tensor.Float16, 2), g.Zeros(tensor.Float16, 1)}, false, 1e6)
		},
		"input 1: nil variable": func(g *autograd.Graph) variable {
			return autograd.PadSequence(vars{g.Zeros(tensor.Float16, 2), nil}, false, 0)
		},
		"two dimensions or more": func(g *autograd.Graph) variable {
			return autograd.UnpadSequence(g.Zeros(tensor.Float32, 2), []int{1, 1}, true)[0]
		},
		"1 lengths for a batch of 3 sequences": func(g *autograd.Graph) variable {
			return autograd.UnpadSequence(g.Zeros(tensor.Float32, 2, 3), []int{1}, false)[0]
		},
		"the length of sequence 1 is 4; it must be in 0..3": func(g *autograd.Graph) variable {
			return autograd.UnpadSequence(g.Zeros(tensor.Float32, 2, 3), []int{1, 4}, true)[0]
		},
	} {
		g := r.graph()
		v := f(g)
		require.ErrorContains(t, g.Err(), want)
		require.ErrorContains(t, g.Err(), "pad_sequence")
		_, err := v.Item()
		require.ErrorContains(t, err, want)
		g.Release()
	}
	_, err := autograd.PadSequence(nil, false, 0).Item()
	require.ErrorContains(t, err, "pad_sequence: there are no inputs")
}
