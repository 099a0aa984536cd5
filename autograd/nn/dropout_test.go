package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// What PyTorch promises: a channel is 0 or divided by 1-p as a whole, whether there is a batch or not.
func TestDropoutOfChannels_DropsAllOfAChannelOrNothing(t *testing.T) {
	r := onHost(t)
	for _, c := range []struct {
		layer    *nn.DropoutLayer
		shape    []int
		channels int
		text     string
	}{
		{nn.Dropout1d(0.25), []int{8, 16, 3}, 128, "Dropout1d(p=0.25, inplace=False)"},
		{nn.Dropout1d(0.25), []int{64, 3}, 64, "Dropout1d(p=0.25, inplace=False)"},
		{nn.Dropout2d(0.25), []int{8, 16, 2, 3}, 128, "Dropout2d(p=0.25, inplace=False)"},
		{nn.Dropout2d(0.25), []int{8, 16, 3}, 128, "Dropout2d(p=0.25, inplace=False)"},
		{nn.Dropout3d(0.25), []int{8, 16, 2, 3, 2}, 128, "Dropout3d(p=0.25, inplace=False)"},
		{nn.Dropout3d(0.25), []int{64, 2, 3, 2}, 64, "Dropout3d(p=0.25, inplace=False)"},
	} {
		t.Run(fmt.Sprint(c.layer, c.shape), func(t *testing.T) {
			require.Equal(t, c.text, c.layer.String())
			g := r.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
			defer g.Release()
			x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, c.shape...) })
			v, err := c.layer.Forward(x).Float64s()
			require.NoError(t, err)
			each, dropped := len(v)/c.channels, 0
			for i := range c.channels {
				for _, e := range v[i*each : (i+1)*each] {
					require.Equal(t, v[i*each], e)
				}
				if v[i*each] == 0 {
					dropped++
				} else {
					require.InDelta(t, 4./3, v[i*each], 1e-6)
				}
			}
			require.InDelta(t, float64(c.channels)/4, dropped, float64(c.channels)/8, "a quarter of the channels")
			nn.Eval(c.layer)
			require.Same(t, x, c.layer.Forward(x))
		})
	}
}

func TestAlphaDropout_KeepsMeanAndVariance(t *testing.T) {
	r := onHost(t)
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(1)))
	defer g.Release()
	x := g.RandN(tensor.Float64, 1<<14)
	d := nn.AlphaDropout(0.2)
	y := d.Forward(x)
	moments := func(f func() *autograd.Variable) float64 {
		v, err := f().Item()
		require.NoError(t, err)
		return v
	}
	require.InDelta(t, 0, moments(func() *autograd.Variable { return y.Mean(nil, false) }), 0.03)
	require.InDelta(t, 1, moments(func() *autograd.Variable { return y.Square().Mean(nil, false) }), 0.04)
	// An element that is dropped is a*(-1.758) + b, which PyTorch computes as this.
	v, err := y.Float64s()
	require.NoError(t, err)
	least := 0
	for _, e := range v {
		if math.Abs(e+1.236159848576378) < 1e-9 {
			least++
		}
	}
	require.InDelta(t, 0.2, float64(least)/(1<<14), 0.02)
	require.Zero(t, moments(func() *autograd.Variable { return nn.AlphaDropout(1).Forward(x).Abs().Sum(nil, false) }))
	require.Equal(t, x.Shape(), nn.AlphaDropout(0).Forward(x).Shape())
}

func TestDropoutOfChannels_RefusesOtherShapes(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	nn.Dropout2d(0.5).Forward(g.Ones(tensor.Float32, 2, 3))
	require.ErrorContains(t, g.Err(), "Dropout2d: [2, 3]: 2 dimensions; want 3 or 4")
}
