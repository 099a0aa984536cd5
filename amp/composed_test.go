package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Losses and distances that are made of other operations are computed in float32 throughout, products of matrices in them too.
func TestAutocast_ComputesComposedLossesInFloat32(t *testing.T) {
	r := onHost(t)
	x, y := r.random(1, tensor.Float16, 30, 4), r.random(2, tensor.Float16, 30, 4)
	for name, f := range map[string]func(a, b *autograd.Variable) *autograd.Variable{
		"cdist":  func(a, b *autograd.Variable) *autograd.Variable { return a.CDist(b, 2) },
		"cosine": func(a, b *autograd.Variable) *autograd.Variable { return a.CosineSimilarity(b, 1, 1e-8) },
		"triplet": func(a, b *autograd.Variable) *autograd.Variable {
			return a.TripletMarginLoss(b, a.Neg(), 1, autograd.Triplet{}, autograd.NoReduction)
		},
		"poisson": func(a, b *autograd.Variable) *autograd.Variable {
			return a.PoissonNLLLoss(b, autograd.PoissonNLL{}, autograd.SumReduction)
		},
	} {
		auto, plain := r.graph(amp.Autocast(tensor.Float16)), r.graph()
		leaf := auto.Input(x, autograd.RequiresGrad())
		got := f(leaf, auto.Input(y)).Keep()
		want := f(plain.Input(x).To(tensor.Float32), plain.Input(y).To(tensor.Float32))
		require.NoError(t, got.Sum(nil, false).Backward(), name)
		require.Equal(t, tensor.Float32, got.DType(), name)
		require.Equal(t, bits(t, valueOf(t, want)), bits(t, valueOf(t, got)), name)
		require.Equal(t, tensor.Float16, leaf.Grad().DType(), name)
		after := leaf.MatMul(leaf.T())
		require.NoError(t, auto.Err())
		require.Equal(t, tensor.Float16, after.DType(), "the region goes on")
		auto.Release()
		plain.Release()
	}
}
