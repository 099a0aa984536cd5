package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestCaster_WhatItMakesIsReleasedAfterTheOperationUnlessItIsSaved(t *testing.T) {
	r := onSim(t)
	x := r.square()
	g := r.graph(autograd.WithCaster(&caster{op: "exp", to: tensor.Float16}))
	defer g.Release()
	base := r.allocated()
	g.Input(x).Exp()
	require.EqualValues(t, base+unit/2, r.allocated(), "the result; the argument in 16 bits is gone")

	g.SetCaster(&caster{op: "abs", to: tensor.Float16}) // abs saves its argument
	loss := g.Input(x, autograd.RequiresGrad()).Abs().Sum(nil, false)
	require.EqualValues(t, base+unit/2+2*(unit/2)+scalar, r.allocated())
	require.NoError(t, loss.Backward())
	require.EqualValues(t, base+unit/2+scalar+unit, r.allocated(), "the gradient of the leaf is left")
	require.NoError(t, g.Err())
}

// thrower panics at its first operation.
type thrower struct{ done bool }

func (c *thrower) Cast(_ string, in []*autograd.Variable) ([]*autograd.Variable, error) {
	if !c.done {
		c.done = true
		panic("in the caster")
	}
	return in, nil
}

func TestCaster_ThatPanicsLeavesTheGraphUsable(t *testing.T) {
	r := onSim(t)
	c := &thrower{}
	g := r.graph(autograd.WithCaster(c))
	defer g.Release()
	x := g.Input(r.square())
	base := r.allocated()
	g.Scope(func() *autograd.Variable {
		require.Panics(t, func() { x.Exp() })
		x.Exp()
		require.EqualValues(t, base+unit, r.allocated())
		return nil
	})
	require.Equal(t, base, r.allocated(), "the scope knows what was made after the panic")
}
