package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestGraphsMakeVariables_OfNumbers(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(4)))
	defer g.Release()
	x := autograd.FromSlice(g, []float32{1, 2, 3, 4}, 2, 2)
	for name, c := range map[string]struct {
		v    *autograd.Variable
		dt   tensor.DType
		want []float64
	}{
		"FromSlice": {x, tensor.Float32, []float64{1, 2, 3, 4}}, "Zeros": {g.Zeros(tensor.Int64, 2), tensor.Int64, []float64{0, 0}},
		"FromSliceAs": {autograd.FromSliceAs(g, tensor.BFloat16, []int64{3, -1}, 2, 1), tensor.BFloat16, []float64{3, -1}},
		"Ones":        {g.Ones(tensor.Float64, 1, 2), tensor.Float64, []float64{1, 1}}, "Full": {g.Full(2.5, tensor.Float16, 2), tensor.Float16, []float64{2.5, 2.5}},
		"Scalar": {g.Scalar(3, tensor.Float32), tensor.Float32, []float64{3}}, "Arange": {g.Arange(1, 6, 2, tensor.Int32), tensor.Int32, []float64{1, 3, 5}},
		"Linspace": {g.Linspace(0, 1, 3, tensor.Float64), tensor.Float64, []float64{0, 0.5, 1}}, "Eye": {g.Eye(tensor.Float32, 2), tensor.Float32, []float64{1, 0, 0, 1}},
		"ZerosLike": {x.ZerosLike(), tensor.Float32, []float64{0, 0, 0, 0}}, "OnesLike": {x.OnesLike(), tensor.Float32, []float64{1, 1, 1, 1}},
		"FullLike": {x.FullLike(7), tensor.Float32, []float64{7, 7, 7, 7}}, "RandInt": {g.RandInt(3, 4, tensor.Uint8, 3), tensor.Uint8, []float64{3, 3, 3}},
		"Bucketize":    {x.Bucketize(autograd.FromSlice(g, []float32{2, 4}), true), tensor.Int64, []float64{0, 1, 1, 2}},
		"SearchSorted": {x.SearchSorted(autograd.FromSlice(g, []float32{2, 3}, 2, 1), false), tensor.Int64, []float64{1, 0}},
	} {
		require.NoError(t, g.Err(), name)
		require.Equal(t, c.dt, c.v.DType(), name)
		require.Equal(t, c.want, valuesOf(t, c.v), name)
		require.False(t, c.v.RequiresGrad(), name)
	}
	gen := tensor.NewGenerator(11)
	twin := r.graph(autograd.WithGenerator(gen))
	defer twin.Release()
	like := twin.Zeros(tensor.Float64, 3, 2)
	drawn := []*autograd.Variable{
		twin.Rand(tensor.Float64, 3, 2), twin.RandN(tensor.Float64, 3, 2), twin.RandPerm(6), like.RandLike(), like.RandNLike(), like.OnesLike().Multinomial(2, false),
	}
	again := tensor.NewGenerator(11)
	ones := keep(t)(tensor.Ones(r.exec, tensor.Float64, 3, 2))
	for i, want := range []*tensor.Tensor{
		keep(t)(tensor.Rand(r.exec, again, tensor.Float64, 3, 2)), keep(t)(tensor.RandN(r.exec, again, tensor.Float64, 3, 2)),
		keep(t)(tensor.RandPermOn(r.exec, again, 6)), keep(t)(tensor.Rand(r.exec, again, tensor.Float64, 3, 2)),
		keep(t)(tensor.RandN(r.exec, again, tensor.Float64, 3, 2)), keep(t)(ones.Multinomial(again, 2, false)),
	} {
		require.Equal(t, values(t, want), valuesOf(t, drawn[i]), "%d draws from the graph's generator", i)
		require.Equal(t, want.Shape(), drawn[i].Shape())
	}
	require.NoError(t, twin.Err())
}

func TestGraphsMakeVariables_OrSayWhatIsWrong(t *testing.T) {
	for name, f := range map[string]func(g *autograd.Graph, x *autograd.Variable) *autograd.Variable{
		"zeros":         func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.Zeros(tensor.Float32, -1) },
		"ones":          func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.Ones(tensor.Float32, -1) },
		"full":          func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.Full(2, tensor.Float32, -1) },
		"scalar_tensor": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.Scalar(1e9, tensor.Float16) },
		"from_slice": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return autograd.FromSlice(g, []int64{1}, 2)
		},
		"from_slice_as": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return autograd.FromSliceAs(g, tensor.Uint8, []int64{300})
		},
		"arange": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.Arange(0, 1, 0, tensor.Int64)
		},
		"linspace": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.Linspace(0, 1, -1, tensor.Float32)
		},
		"logspace": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.Logspace(0, 1, -1, 10, tensor.Float32)
		},
		"eye":   func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.Eye(tensor.Float32, -1) },
		"rand":  func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.Rand(tensor.Int64, 2) },
		"randn": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.RandN(tensor.Int64, 2) },
		"randint": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.RandInt(2, 1, tensor.Int64, 2)
		},
		"randperm":     func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.RandPerm(-1) },
		"tril_indices": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.TrilIndices(-1, 2, 0) },
		"triu_indices": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable { return g.TriuIndices(-1, 2, 0) },
		"full_like": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.Ones(tensor.Float16, 2).FullLike(1e9)
		},
		"rand_like": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.Ones(tensor.Int64, 2).RandLike()
		},
		"randn_like": func(g *autograd.Graph, _ *autograd.Variable) *autograd.Variable {
			return g.Ones(tensor.Int64, 2).RandNLike()
		},
		"multinomial": func(_ *autograd.Graph, x *autograd.Variable) *autograd.Variable { return x.Multinomial(3, false) },
		"bucketize":   func(_ *autograd.Graph, x *autograd.Variable) *autograd.Variable { return x.Bucketize(nil, false) },
		"searchsorted": func(g *autograd.Graph, x *autograd.Variable) *autograd.Variable {
			return x.SearchSorted(g.Zeros(tensor.Int64, 2), true)
		},
		"meshgrid": func(g *autograd.Graph, x *autograd.Variable) *autograd.Variable {
			return autograd.MeshGrid([]*autograd.Variable{x, g.Zeros(tensor.Float64, 2, 2)}, false)[1]
		},
	} {
		r := onHost(t)
		g := r.graph()
		out := f(g, g.Input(r.tensor([]float64{0, 1})))
		require.Same(t, out, out.AddScalar(1), "the result of an error goes on being one")
		var op *autograd.OpError
		require.ErrorAs(t, g.Err(), &op, name)
		require.Equal(t, name, op.Op)
		require.True(t, op.Site.Known(), name)
		g.Release()
	}
	var none *autograd.Graph
	require.Nil(t, none.Zeros(tensor.Float32, 2))
	require.Nil(t, autograd.FromSlice(none, []float32{1}))
	require.Nil(t, autograd.FromSliceAs(none, tensor.Float16, []float32{1}))
	require.Nil(t, (*autograd.Variable)(nil).ZerosLike())
	require.Empty(t, autograd.MeshGrid(nil, true))
}

func TestMeshGrid_HasGradients(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2}), autograd.RequiresGrad())
	y := g.Input(r.tensor([]float64{3, 4, 5}), autograd.RequiresGrad())
	for _, xy := range []bool{false, true} {
		grids := autograd.MeshGrid([]*autograd.Variable{x, y}, xy)
		want := tensor.Shape{2, 3}
		if xy {
			want = tensor.Shape{3, 2}
		}
		require.Equal(t, want, grids[1].Shape())
	}
	grids := autograd.MeshGrid([]*autograd.Variable{x, y}, true)
	require.Equal(t, []float64{1, 2, 1, 2, 1, 2}, valuesOf(t, grids[0]))
	require.Equal(t, []float64{3, 3, 4, 4, 5, 5}, valuesOf(t, grids[1]))
	require.NoError(t, grids[0].Mul(grids[1]).Sum(nil, false).Backward())
	require.Equal(t, []float64{12, 12}, values(t, x.Grad()))
	require.Equal(t, []float64{3, 3, 3}, values(t, y.Grad()))
}
