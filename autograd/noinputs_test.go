package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Of no inputs there is no graph that could keep the error: the result has it.
func TestNoInputs_AreTheErrorOfTheResult(t *testing.T) {
	r := onHost(t)
	one := func(in []variable) variable { return in[0] }
	for op, v := range map[string]variable{
		"checkpoint": autograd.Checkpoint(one), "cat": autograd.Cat(nil, 0), "stack": autograd.Stack(nil, 0),
		"vstack": autograd.VStack(), "block_diag": autograd.BlockDiag(),
	} {
		_, err := v.Item()
		var none *tensor.ValueError
		require.ErrorAs(t, err, &none, op)
		require.Equal(t, op, none.Op)
		require.ErrorContains(t, err, "noinputs_test.go:")
		require.ErrorContains(t, err, "there are no inputs")
		require.ErrorIs(t, v.Exp().Sum(nil, false).Backward(), err)
		g := r.graph()
		x := g.Ones(tensor.Float32, 2)
		require.ErrorIs(t, x.Add(v).Backward(), none, "in another graph too")
		g.Release()
	}
	all := autograd.Checkpoints(2, func(in []variable) []variable { return in })
	require.Len(t, all, 2)
	for _, v := range all {
		_, err := v.Item()
		require.ErrorContains(t, err, "pass what the function computes from as inputs, a parameter as g.Param(w)")
	}
}
