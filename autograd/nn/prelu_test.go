package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
)

func TestPReLU_HasASlopeForEachChannel(t *testing.T) {
	r := onHost(t)
	l := nn.PReLU(2, nn.WeightInit(nn.Constant(0.5)))
	r.place(l)
	require.Equal(t, "PReLU(num_parameters=2)", l.String())
	g := r.graph()
	x := g.Input(r.tensor([]float32{-1, 2, -3, -4, 5, -6, 7, -8}, 2, 2, 2))
	y := l.Forward(x)
	got, err := y.Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{-0.5, 2, -1.5, -2, 5, -3, 7, -4}, got)
	require.NoError(t, y.Sum(nil, false).Backward())
	slope, err := l.Weight.Grad().Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{-1 - 6, -3 - 4 - 8}, slope)
	g.Release()

	wrong := nn.PReLU(3)
	r.place(wrong)
	g = r.graph()
	wrong.Forward(g.Input(r.tensor([]float32{-1, 2, -3, -4}, 2, 2)))
	require.ErrorContains(t, g.Err(), "prelu")
	g.Release()
}
