package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestMarginLosses_AreThoseOfTheVariable(t *testing.T) {
	const sum, none = autograd.SumReduction, autograd.NoReduction
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	p := g.Input(r.tensor([]float32{0.2, 0.6, -1, 3}, 2, 2))
	signs := autograd.FromSlice(g, []int64{1, -1, -1, 1}, 2, 2)
	classes := autograd.FromSlice(g, []int64{1, 0}, 2)
	for name, c := range map[string]struct{ got, want *autograd.Variable }{
		"hinge":       {nn.HingeEmbeddingLoss(0.5, sum)(p, signs), p.HingeEmbeddingLoss(signs, 0.5, sum)},
		"soft":        {nn.SoftMarginLoss(none)(p, signs), p.SoftMarginLoss(signs, none)},
		"labels":      {nn.MultiLabelSoftMarginLoss(none)(p, signs), p.MultiLabelSoftMarginLoss(signs, nil, none)},
		"multi":       {nn.MultiMarginLoss(0.5, autograd.MultiMargin{P: 2}, none)(p, classes), p.MultiMarginLoss(classes, 0.5, autograd.MultiMargin{P: 2}, none)},
		"multi label": {nn.MultiLabelMarginLoss(sum)(p, signs), p.MultiLabelMarginLoss(signs, sum)},
		"poisson":     {nn.PoissonNLLLoss(autograd.PoissonNLL{Full: true})(p, signs), p.PoissonNLLLoss(signs, autograd.PoissonNLL{Full: true}, autograd.MeanReduction)},
	} {
		require.NoError(t, g.Err(), name)
		want, err := c.want.Float64s()
		require.NoError(t, err, name)
		got, err := c.got.Float64s()
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, tensor.Float32, c.got.DType(), name)
	}
}
