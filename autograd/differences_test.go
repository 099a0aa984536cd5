package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Of nothing, differences are taken at once, however many and however long the dimension: one step after the other would take for ever.
func TestDiff_OfNothingTakesNoSteps(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Zeros(tensor.Float32, 0, 1<<40).Diff(1<<33, 1)
	require.NoError(t, g.Err())
	require.Equal(t, tensor.Shape{0, 1<<40 - 1<<33}, x.Shape())
	g.Release()
}
