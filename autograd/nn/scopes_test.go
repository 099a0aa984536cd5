package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// encoder is a module of one's own with two results.
type encoder struct {
	nn.Base
	body, mean, logVar *nn.LinearLayer
}

func newEncoder(hidden int) *encoder {
	e := &encoder{body: nn.Linear(2, 3), mean: nn.Linear(3, 1), logVar: nn.Linear(hidden, 1)}
	nn.RegisterField(&e.Base, "body", &e.body)
	nn.RegisterField(&e.Base, "mean", &e.mean)
	nn.RegisterField(&e.Base, "log_var", &e.logVar)
	return e
}

func (e *encoder) Encode(x *autograd.Variable) (mean, logVar *autograd.Variable) {
	e.Scopes(x, func(*autograd.Graph) []*autograd.Variable {
		h := e.body.Forward(x).ReLU()
		mean, logVar = e.mean.Forward(h), e.logVar.Forward(h).Exp()
		return []*autograd.Variable{mean, logVar}
	})
	return mean, logVar
}

func (e *encoder) Forward(x *autograd.Variable) *autograd.Variable {
	return e.Scope(x, func(*autograd.Graph) *autograd.Variable {
		mean, logVar := e.Encode(x)
		return mean.Add(logVar)
	})
}

func TestScopes_KeepsTheResultsAndFreesTheRest(t *testing.T) {
	r := newRig(t, host.New())
	m := newEncoder(3)
	require.NoError(t, m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)))
	t.Cleanup(m.Release)
	g := r.graph(autograd.NoGrad())
	t.Cleanup(g.Release)
	x := g.Input(zeros(t, r, f32, 4, 2))
	before := r.alloc.Stats().Allocation.All.Current
	mean, logVar := m.Encode(x)
	for _, v := range []*autograd.Variable{mean, logVar} {
		_, err := v.Tensor()
		require.NoError(t, err)
		require.Equal(t, []int{4, 1}, []int(v.Shape()))
	}
	require.Equal(t, before+2, r.alloc.Stats().Allocation.All.Current)
}

func TestScopes_LetsErrorsNameTheModule(t *testing.T) {
	r := newRig(t, host.New())
	m := within(within(newEncoder(7)))
	require.NoError(t, m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)))
	t.Cleanup(m.Release)
	g := r.graph()
	t.Cleanup(g.Release)
	m.Forward(g.Input(zeros(t, r, f32, 4, 2)))
	err := g.Err()
	var op *autograd.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "block.block.log_var", op.Module)
}

func TestScopes_RefusesMistakes(t *testing.T) {
	r := newRig(t, host.New())
	var b nn.Base
	for name, c := range map[string]struct {
		f    func(g *autograd.Graph) []*autograd.Variable
		want string
	}{
		"no function": {nil, "Scopes: the function is nil"},
		"no results":  {func(*autograd.Graph) []*autograd.Variable { return nil }, "returned no results"},
		"a nil":       {func(*autograd.Graph) []*autograd.Variable { return []*autograd.Variable{nil} }, "result 0 of the function of Scopes is nil"},
	} {
		g := r.graph()
		results := b.Scopes(g.Input(zeros(t, r, f32, 1)), c.f)
		require.ErrorContains(t, g.Err(), c.want, name)
		for _, v := range results {
			require.NotNil(t, v, name)
		}
		g.Release()
	}
	require.Nil(t, b.Scopes(nil, nil))

	g := r.graph()
	x := g.Input(zeros(t, r, f32, 1))
	y := (*nn.Base)(nil).Scopes(x, func(*autograd.Graph) []*autograd.Variable { return []*autograd.Variable{x.Exp()} })
	require.ErrorContains(t, g.Err(), "its Base is a nil pointer")
	require.Len(t, y, 1)
	g.Release()

	g = r.graph()
	x = g.Input(zeros(t, r, f32, 1))
	var again func(*autograd.Graph) []*autograd.Variable
	again = func(g *autograd.Graph) []*autograd.Variable { return b.Scopes(x, again) }
	again(g)
	require.ErrorContains(t, g.Err(), "one is a part of itself")
	g.Release()
}
