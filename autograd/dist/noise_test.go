package dist

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// The derivatives are those of PyTorch's distribution function by differences, with the density: see testdata/gamma.py.
func TestGammaSlope_IsTheDerivativeOfTheQuantile(t *testing.T) {
	text, err := os.ReadFile("testdata/gamma.json")
	require.NoError(t, err)
	var rows [][3]float64
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Greater(t, len(rows), 20)
	for _, r := range rows {
		require.InEpsilon(t, r[2], gammaSlope(r[0], r[1]), 1e-5, "a=%v, z=%v", r[0], r[1])
	}
	require.InEpsilon(t, gammaSlope(99999, 99500), gammaSlope(100001, 99502), 1e-4, "both ways to compute it are the same")
	require.Zero(t, gammaSlope(1e-3, 0))
}

func TestDigamma_IsTheDerivativeOfLgamma(t *testing.T) {
	require.InDelta(t, -0.57721566490153286, digamma(1), 1e-13)
	require.InDelta(t, -1.9635100260214235, digamma(0.5), 1e-13)
	require.InDelta(t, math.Log(1e8)-0.5e-8, digamma(1e8), 1e-14)
}

func TestGamma_OfAnInfiniteConcentrationIsInfinite(t *testing.T) {
	r := &noise{rand.New(rand.NewPCG(1, 2))}
	require.Equal(t, math.Inf(1), r.gamma(math.Inf(1)))
}

// With the gradient of samples, of which the mean is a, the mean has the derivative 1.
func TestGamma_RSampleHasTheGradientOfTheMean(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	for _, a := range []float64{0.2, 1, 30} {
		g := autograd.NewGraph(dev, autograd.WithGenerator(tensor.NewGenerator(1)))
		p, err := tensor.FromSlice(g.Exec(), []float64{a})
		require.NoError(t, err)
		x := g.Input(p, autograd.RequiresGrad())
		z := NewGamma(x, g.Ones(tensor.Float64, 1)).RSample(20000).Mean(nil, false)
		grads, err := autograd.Grad([]*autograd.Variable{z}, []*autograd.Variable{x})
		require.NoError(t, err)
		slope, err := grads[0].Item()
		require.NoError(t, err)
		require.InDelta(t, 1, slope, 0.05, "%v", a)
		p.Release()
		g.Release()
	}
}
