package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestRepeatInterleave_OfNothingHasAGradientHoweverManyCopies(t *testing.T) {
	r := newRig(t, host.New())
	g := r.graph()
	defer g.Release()
	p := autograd.NewParameter("p", r.zeros(tensor.Float32, 0, 3))
	defer p.Release()
	require.NoError(t, g.Param(p).RepeatInterleave(1<<62, 0).Sum(nil, false).Backward())
	require.Equal(t, tensor.Shape{0, 3}, p.Grad().Shape())
}
