package autograd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

func TestNil_GraphsAreWatchedByNobody(t *testing.T) {
	require.Empty(t, autograd.PassWatchers(training.Key{}, nil))
	require.False(t, autograd.WatchesPasses(training.Key{}, nil, nil))
	autograd.WatchPasses(training.Key{}, nil, nil)
}

func TestPieces_OfAFailedVariableKeepTheFirstError(t *testing.T) {
	r := onHost(t)
	for name, cut := range map[string]func(v *autograd.Variable) []*autograd.Variable{
		"Split":      func(v *autograd.Variable) []*autograd.Variable { return v.Split(1, 0) },
		"SplitSizes": func(v *autograd.Variable) []*autograd.Variable { return v.SplitSizes([]int{1, 1}, 0) },
		"Chunk":      func(v *autograd.Variable) []*autograd.Variable { return v.Chunk(2, 0) },
		"Unbind":     func(v *autograd.Variable) []*autograd.Variable { return v.Unbind(0) },
	} {
		t.Run(name, func(t *testing.T) {
			g := r.graph()
			defer g.Release()
			x := g.Input(r.random(1, 2, 3))
			var bad *tensor.ShapeError
			for _, v := range []*autograd.Variable{x.MatMul(x), x} { // the result of the error, and what was there before it
				p := cut(v)
				require.False(t, p[1].Alive())
				require.ErrorAs(t, p[0].Add(p[1]).Sum(nil, false).Backward(), &bad)
				require.Equal(t, "MatMul", bad.Op)
			}
			require.Len(t, cut(x.SplitSizes([]int{2}, 0)[0])[:2], 2)
			require.NotPanics(t, func() { require.Nil(t, cut(nil)[1]) })
		})
	}
}

func TestPieces_WithWrongArgumentsAreFailedPieces(t *testing.T) {
	r := onHost(t)
	for name, cut := range map[string]func(v *autograd.Variable) []*autograd.Variable{
		"Split of size 0":       func(v *autograd.Variable) []*autograd.Variable { return v.Split(0, 0) },
		"Split of no dimension": func(v *autograd.Variable) []*autograd.Variable { return v.Split(1, 7) },
		"SplitSizes that wrap": func(v *autograd.Variable) []*autograd.Variable {
			return v.SplitSizes([]int{1 << 62, 1 << 62, 1 << 62, 1<<62 + 2}, 0)
		},
		"Chunk of none":            func(v *autograd.Variable) []*autograd.Variable { return v.Chunk(0, 0) },
		"Chunk of no dimension":    func(v *autograd.Variable) []*autograd.Variable { return v.Chunk(1<<31, 7) },
		"Chunk of nothing":         func(v *autograd.Variable) []*autograd.Variable { return v.Narrow(0, 0, 0).Chunk(1<<31, 0) },
		"Unbind of no dimension":   func(v *autograd.Variable) []*autograd.Variable { return v.Unbind(7) },
		"Unbind of too many":       func(v *autograd.Variable) []*autograd.Variable { return v.Narrow(1, 0, 1).Expand(2, 1<<31).Unbind(1) },
		"Split into pieces of one": func(v *autograd.Variable) []*autograd.Variable { return v.Narrow(1, 0, 1).Expand(2, 1<<31).Split(1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			g := r.graph()
			defer g.Release()
			p := cut(g.Input(r.random(1, 2, 3)))
			require.False(t, p[1].Alive())
			var op *autograd.OpError
			require.ErrorAs(t, g.Err(), &op)
		})
	}
	g := r.graph()
	defer g.Release()
	require.Len(t, g.Input(r.random(1, 2, 3)).Chunk(1<<31, 0), 2, "as in PyTorch, there are no more pieces than elements")
	require.NoError(t, g.Err())
}

func TestShape_OfAFailedVariableCanBeIndexed(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2, 3))
	failed := x.MatMul(x)
	require.Equal(t, 1, failed.Shape()[tensor.MaxDims-1])
	require.Equal(t, 0, failed.NDim())
	require.Equal(t, 1, failed.Len())
	first := g.Err()
	failed.Reshape(failed.Shape()[1], 12/failed.Dim(1))
	require.Equal(t, first, g.Err())
}

func TestNil_VariablesGraphsAndParametersAnswer(t *testing.T) {
	r := onHost(t)
	var v *autograd.Variable
	require.Nil(t, v.Graph())
	require.Nil(t, v.Grad())
	require.Nil(t, v.Keep().RetainGrad().Parameter())
	require.Zero(t, v.NDim()+int(v.DType()))
	require.Equal(t, 1, v.Dim(0))
	require.False(t, v.Alive() || v.RequiresGrad() || v.IsLeaf())
	require.ErrorIs(t, v.Add(v).Backward(), autograd.ErrNilVariable)

	var g *autograd.Graph
	require.ErrorIs(t, g.Err(), autograd.ErrNilGraph)
	require.Nil(t, g.Input(r.random(1, 2)))
	require.Nil(t, g.Param(nil))
	require.Nil(t, g.Scope(func() *autograd.Variable { return v }))
	require.Nil(t, g.Generator())
	require.Nil(t, g.Device())
	g.Fail(errors.New("nobody hears it"))
	g.Release()

	var p *autograd.Parameter
	require.Nil(t, p.Tensor())
	require.Nil(t, p.Grad())
	require.Zero(t, p.Len())
	require.Empty(t, p.Name())
	left := tensorOf(t, r)
	require.ErrorIs(t, p.SetGrad(left), autograd.ErrNotMaterialized)
	left.Release() // it stays the caller's
	require.ErrorIs(t, p.SetGrad(nil), autograd.ErrNotMaterialized)
	p.SetRequiresGrad(true)
	p.Release()
	require.ErrorIs(t, p.To(r.exec, 0), autograd.ErrNotMaterialized)
	require.ErrorIs(t, p.Materialize(r.exec, nil, tensor.Float32), autograd.ErrNotMaterialized)
	require.Nil(t, p.RegisterHook(nil))
	require.ErrorIs(t, autograd.NewParameter("w", nil).To(r.exec, 0), autograd.ErrNotMaterialized)
}

func tensorOf(t *testing.T, r *rig) *tensor.Tensor {
	x, err := tensor.Ones(r.exec, tensor.Float32, 3)
	require.NoError(t, err)
	return x
}

func TestNil_FunctionsAreErrorsOfTheGraph(t *testing.T) {
	r := onHost(t)
	for name, use := range map[string]func(g *autograd.Graph) *autograd.Variable{
		"Scope":   func(g *autograd.Graph) *autograd.Variable { return g.Scope(nil) },
		"Outside": func(g *autograd.Graph) *autograd.Variable { return g.Outside(nil) },
		"NoGrad":  func(g *autograd.Graph) *autograd.Variable { return g.NoGrad(nil) },
		"New":     func(g *autograd.Graph) *autograd.Variable { return g.New(nil) },
		"Memo":    func(g *autograd.Graph) *autograd.Variable { return g.Memo(1, nil) },
		"Memo by list": func(g *autograd.Graph) *autograd.Variable {
			return g.Memo([]int{1}, func() *autograd.Variable { return nil })
		},
		"SavedTensors": func(g *autograd.Graph) *autograd.Variable { return g.SavedTensors(nil, nil) },
		"Checkpoint": func(g *autograd.Graph) *autograd.Variable {
			return autograd.Checkpoint(nil, g.Input(r.random(1, 2)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := r.graph(nil) // a nil option changes nothing
			defer g.Release()
			require.False(t, use(g).Alive())
			var bad *tensor.ValueError
			require.ErrorAs(t, g.Err(), &bad)
		})
	}
	g := r.graph()
	defer g.Release()
	require.Nil(t, g.Scopes(nil))
	require.Error(t, g.Err())
}

func TestNil_VariablesAreReportedWithUseAndLine(t *testing.T) {
	var none *autograd.Variable
	err := none.Backward()
	require.ErrorIs(t, err, autograd.ErrNilVariable)
	require.ErrorContains(t, err, "autograd: Backward at nil_test.go:")
	_, err = none.Exp().Item()
	require.ErrorContains(t, err, "autograd: Item at nil_test.go:")
	_, err = autograd.Cat(nil, 0).Item()
	require.ErrorContains(t, err, "autograd: cat at nil_test.go:")
}
