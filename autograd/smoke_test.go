package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
)

func TestSmoke(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float64{1, 2, 3, 4}, 2, 2), autograd.RequiresGrad())
	loss := x.Mul(x).Sum(nil, false)
	require.NoError(t, loss.Backward())
	require.Equal(t, []float64{2, 4, 6, 8}, values(t, x.Grad()))
}
