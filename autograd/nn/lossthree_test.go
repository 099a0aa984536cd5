package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// The operations themselves are compared with PyTorch in package autograd.
func TestLossesOfThree_AreThoseOfTheOperations(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	a := autograd.FromSlice(g, []float64{1, 2, 3, 4}, 2, 2)
	b := autograd.FromSlice(g, []float64{1, 0, 2.5, 5}, 2, 2)
	c := autograd.FromSlice(g, []float64{0.5, 2.5, 3, 3}, 2, 2)
	signs := autograd.FromSlice(g, []float64{1, -1}, 2)
	manhattan := func(a, b *autograd.Variable) *autograd.Variable { return a.Sub(b).Abs().Sum([]int{-1}, false) }
	for name, x := range map[string]struct {
		loss nn.Loss3
		c    *autograd.Variable
		same *autograd.Variable
	}{
		"ranking":  {nn.MarginRankingLoss(0.1), signs, a.MarginRankingLoss(b, signs, 0.1, autograd.MeanReduction)},
		"cosine":   {nn.CosineEmbeddingLoss(0.2, autograd.SumReduction), signs, a.CosineEmbeddingLoss(b, signs, 0.2, autograd.SumReduction)},
		"triplet":  {nn.TripletMarginLoss(1, autograd.Triplet{Swap: true}), c, a.TripletMarginLoss(b, c, 1, autograd.Triplet{Swap: true}, autograd.MeanReduction)},
		"distance": {nn.TripletMarginWithDistanceLoss(nil, 1, false), c, a.TripletMarginLoss(b, c, 1, autograd.Triplet{}, autograd.MeanReduction)},
		"swapped": {nn.TripletMarginWithDistanceLoss(manhattan, 1, true, autograd.NoReduction), c,
			manhattan(a, b).AddScalar(1).Sub(manhattan(a, c).Minimum(manhattan(b, c))).ReLU()},
		"gaussian": {nn.GaussianNLLLoss(autograd.GaussianNLL{Full: true}, autograd.SumReduction), c,
			a.GaussianNLLLoss(b, c, autograd.GaussianNLL{Full: true}, autograd.SumReduction)},
	} {
		got, err := x.loss(a, b, x.c).Float64s()
		require.NoError(t, err, name)
		want, err := x.same.Float64s()
		require.NoError(t, err, name)
		require.InDeltaSlice(t, want, got, 1e-12, name)
	}
	g2 := r.graph()
	defer g2.Release()
	d := autograd.FromSlice(g2, []float64{1, 2}, 1, 2)
	nn.TripletMarginWithDistanceLoss(nil, 1, false, autograd.BatchMeanReduction)(d, d, d)
	var wrong *nn.ArgumentError
	require.ErrorAs(t, g2.Err(), &wrong)
}

func TestCTCLoss_IsThatOfTheOperation(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := autograd.FromSlice(g, []float64{1, 0, 2, 0.5, 0.3, 0, 1, 2, 0, 1, 1, 0}, 4, 1, 3).LogSoftmax(-1)
	targets := autograd.FromSlice(g, []int64{1, 2}, 1, 2)
	got, err := nn.CTCLoss(autograd.CTC{})(x, targets, []int{4}, []int{2}).Item()
	require.NoError(t, err)
	want, err := x.CTCLoss(targets, []int{4}, []int{2}, autograd.CTC{}, autograd.MeanReduction).Item()
	require.NoError(t, err)
	require.Equal(t, want, got)
}
