package autograd_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// spot is a module that tells the ones around it.
type spot string

func (p spot) PathIn(outer []autograd.Located) string {
	var path []string
	for _, o := range outer {
		path = append(path, string(o.(spot)))
	}
	return strings.Join(append(path, string(p)), "/")
}

func TestModuleScope_TellsErrorsWhereTheyWere(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2, 3), autograd.RequiresGrad())
	base := r.allocated()
	var inside string
	y := g.ModuleScope(spot("a"), func() *autograd.Variable {
		return g.Scope(func() *autograd.Variable {
			g.ModuleScopes(spot("b"), func() []*autograd.Variable {
				inside = g.ModulePath()
				return []*autograd.Variable{x.MulScalar(2)}
			})
			return x.Sin()
		})
	})
	require.Equal(t, "a/b", inside)
	require.Empty(t, g.ModulePath())
	require.True(t, y.Alive())
	require.Equal(t, base+512, r.allocated(), "it is a scope: only what it returned is left")

	g.ModuleScope(spot("c"), func() *autograd.Variable { return x.MatMul(x) })
	var op *autograd.OpError
	require.ErrorAs(t, g.Err(), &op)
	require.Equal(t, "c", op.Module)
	require.ErrorContains(t, op, "autograd: matmul(float64[2, 3], float64[2, 3]) in c at modulescope_test.go:")
	ran := false
	g.ModuleScope(spot("d"), func() *autograd.Variable { ran = true; return x })
	require.False(t, ran, "after an error")
}

func TestModuleScope_InBackward(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.random(1, 2), autograd.RequiresGrad())
	broken := errors.New("broken")
	f := autograd.Function[struct{}]{
		Name:    "f",
		Forward: func(_ *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) { return in[0].Exp() },
		Backward: func(*autograd.Context, struct{}, *tensor.Tensor) ([]*tensor.Tensor, error) {
			return nil, broken
		},
	}
	y := g.ModuleScope(spot("a"), func() *autograd.Variable { return f.Apply(struct{}{}, x) })
	require.ErrorIs(t, y.Sum(nil, false).Backward(), broken)
	require.ErrorContains(t, g.Err(), "autograd: backward of f(float64[2]) in a")
}

func TestRefuse_IsTheErrorOfAnOperation(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x, bad := g.Input(r.random(1, 2)), errors.New("bad")
	require.False(t, g.Refuse("mine", nil, x).Alive())
	require.NoError(t, g.Err(), "nothing was refused")
	require.False(t, g.Refuse("mine", bad, x, nil).Alive())
	require.ErrorIs(t, g.Err(), bad)
	require.ErrorContains(t, g.Err(), "autograd: mine(float64[2], nil) at modulescope_test.go:")
	var none *autograd.Graph
	require.Nil(t, none.Refuse("mine", bad, x))
	require.Nil(t, none.ModuleScope(spot("a"), nil))
	require.Empty(t, none.ModulePath())
}

func TestModuleScope_OfNothingIsAnError(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	y := g.ModuleScope(spot("a"), func() *autograd.Variable { return nil })
	require.ErrorIs(t, g.Err(), autograd.ErrNilVariable)
	require.ErrorContains(t, g.Err(), "autograd: forward in a at modulescope_test.go:")
	require.ErrorContains(t, g.Err(), "Forward returned nil")
	require.False(t, y.Alive())
	require.NotNil(t, y, "what operations return after an error")

	after := r.graph()
	broken := errors.New("broken")
	after.ModuleScope(spot("a"), func() *autograd.Variable { after.Fail(broken); return nil })
	require.Equal(t, broken, after.Err(), "the error that was first")
}
