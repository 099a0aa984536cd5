package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// A tensor that is somebody else's as well must outlive the gradient that it is: in PyTorch it is shared.
func TestParameter_SetGrad_OfWhatBelongsToAnother_LeavesThatAlone(t *testing.T) {
	r := onHost(t)
	ones := func() *tensor.Tensor { return must(tensor.Ones(r.exec, tensor.Float32, 2, 3)) }
	p, q := autograd.NewParameter("p", ones()), autograd.NewParameter("q", ones())
	before := r.allocated()

	require.NoError(t, p.SetGrad(q.Tensor()))
	p.ZeroGrad()
	require.NotNil(t, q.Tensor())

	require.NoError(t, q.SetGrad(ones()))
	require.NoError(t, p.SetGrad(q.Grad()))
	p.ZeroGrad()
	require.False(t, q.Grad().Released())
	require.NoError(t, p.SetGrad(q.Grad()))
	q.ZeroGrad()
	require.Equal(t, []float64{1, 1, 1, 1, 1, 1}, values(t, p.Grad()))
	p.ZeroGrad()

	both := ones()
	require.NoError(t, p.SetGrad(both))
	require.NoError(t, q.SetGrad(both))
	require.NoError(t, q.SetGrad(both))
	p.ZeroGrad()
	require.Equal(t, []float64{1, 1, 1, 1, 1, 1}, values(t, q.Grad()))
	q.ZeroGrad()
	require.Equal(t, before, r.allocated(), "nothing is left of a tensor that was taken over")

	given := ones()
	s := autograd.NewParameter("s", given)
	require.NoError(t, s.SetGrad(given))
	s.ZeroGrad()
	require.NotNil(t, s.Tensor(), "the value that NewParameter took over")
	s.Release()
	p.Release()
	q.Release()
	require.Zero(t, r.allocated())
}

// What a graph has lent ends with the graph, but not for the parameter.
func TestParameter_SetGrad_OfWhatAGraphLent_OutlivesTheGraph(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("p", must(tensor.Ones(r.exec, tensor.Float32, 3)))
	q := autograd.NewParameter("q", must(tensor.Ones(r.exec, tensor.Float32, 3)))
	x := must(tensor.FromSlice(r.exec, []float32{1, 2, 3}))
	for name, set := range map[string]func(g *autograd.Graph) error{
		"a value": func(g *autograd.Graph) error { return p.SetGrad(must(g.Input(x).Mul(g.Input(x)).Tensor())) },
		"a gradient": func(g *autograd.Graph) error {
			v := g.Input(x, autograd.RequiresGrad())
			if err := v.Mul(v).Sum(nil, false).Backward(); err != nil {
				return err
			}
			return p.SetGrad(v.Grad())
		},
		"a hook's argument": func(g *autograd.Graph) error {
			v := g.Input(x, autograd.RequiresGrad())
			v.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return nil, p.SetGrad(grad) })
			return v.Mul(v).Sum(nil, false).Backward()
		},
	} {
		g := r.graph()
		require.NoError(t, set(g), name)
		g.Release()
		require.False(t, p.Grad().Released(), name)
		g = r.graph()
		require.NoError(t, g.Param(p).Sum(nil, false).Backward(), name)
		g.Release()
		opt := optim.SGD([]*autograd.Parameter{p}, optim.LR(0.1))
		require.NoError(t, opt.Step(), name)
		opt.Release()
		p.ZeroGrad()
	}
	p.Release()
	q.Release()
	x.Release()
	require.Zero(t, r.allocated())
}

// The gradient of a sum is one number that all elements share: nothing can be added to it in place.
func TestParameter_SetGrad_OfAnExpandedTensor_CanBeChanged(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("p", must(tensor.Ones(r.exec, tensor.Float32, 2, 3)))
	g := r.graph()
	grads, err := autograd.Grad([]*autograd.Variable{g.Param(p).Sum(nil, false)}, []*autograd.Variable{g.Param(p)})
	require.NoError(t, err)
	wide := must(grads[0].Take())
	require.NoError(t, p.SetGrad(wide))
	g.Release()
	_, err = optim.ClipGradNorm([]*autograd.Parameter{p}, 1)
	require.NoError(t, err)
	g = r.graph()
	require.NoError(t, g.Param(p).Sum(nil, false).Backward())
	g.Release()

	one := must(tensor.Ones(r.exec, tensor.Float32, 1, 1))
	seen := must(one.Expand(2, 3))
	require.NoError(t, p.SetGrad(seen))
	require.True(t, seen.Released(), "it was taken over")
	one.Release()
	p.Release()
	require.Zero(t, r.allocated())
}

// Making a parameter of another's tensor shares it, too.
func TestNewParameter_OfAnothersTensor_SharesIt(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("p", must(tensor.Ones(r.exec, tensor.Float32, 3)))
	q := autograd.NewParameter("q", p.Tensor())
	s := autograd.DeclareParameter("s", nil, 3)
	require.NoError(t, s.SetTensor(p.Tensor()))
	d := autograd.DeclareParameter("d", func(tensor.Exec, *tensor.Generator, tensor.DType, ...int) (*tensor.Tensor, error) {
		return p.Tensor(), nil
	}, 3)
	require.NoError(t, d.Materialize(r.exec, nil, tensor.Float32))
	g := r.graph()
	lent := autograd.NewParameter("lent", must(g.Param(p).Exp().Tensor()))
	returned := g.New(func(tensor.Exec) (*tensor.Tensor, error) { return p.Tensor(), nil })
	require.True(t, returned.Alive())
	g.Release()
	require.NotNil(t, lent.Tensor())
	require.NotNil(t, p.Tensor(), "what a function returns is not its own")
	p.Release()
	for _, other := range []*autograd.Parameter{q, s, d} {
		require.Equal(t, []float64{1, 1, 1}, values(t, other.Tensor()))
		other.Release()
	}
	lent.Release()
	require.Zero(t, r.allocated())
}

func TestParameter_WithoutATensor_ErrorsNameTheMethod(t *testing.T) {
	r := onHost(t)
	x := must(tensor.Ones(r.exec, tensor.Float32, 3))
	defer x.Release()
	gone := autograd.NewParameter("w", must(tensor.Ones(r.exec, tensor.Float32, 3)))
	gone.Release()
	for _, p := range []*autograd.Parameter{nil, gone} {
		require.ErrorContains(t, p.SetGrad(x), "autograd: SetGrad at ")
		require.ErrorIs(t, p.SetGrad(x), autograd.ErrNotMaterialized)
		require.ErrorContains(t, p.To(r.exec, 0), "autograd: To at ")
	}
	require.ErrorContains(t, (*autograd.Parameter)(nil).SetTensor(x), "autograd: SetTensor at ")
}
