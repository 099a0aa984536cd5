package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/invariants"
)

// An operation of two inputs makes a node, a variable, the graph's hold on the value, and the tensor: the list of its inputs is in the node.
func TestOperations_MakeFourObjects(t *testing.T) {
	if invariants.Enabled || raceEnabled {
		t.Skip("the checks of these builds allocate")
	}
	r := onSim(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.square(), autograd.RequiresGrad())
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { x.Add(x).Release() }), 4.0)
	require.NoError(t, g.Err())
}
