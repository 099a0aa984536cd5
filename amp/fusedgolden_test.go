package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// goldenMakers are the pairs of optimizers of testdata/fused.py.
var goldenMakers = map[string][2]optimizerMaker{
	"sgd and adam": {fusedOptimizers["sgd"], func(ps []*autograd.Parameter) *optim.Grouped { return optim.Adam(ps, optim.LR(0.1)) }},
	"momentum and adamw": {
		func(ps []*autograd.Parameter) *optim.Grouped {
			return optim.SGD(ps, optim.LR(0.1), optim.Momentum(0.9), optim.Dampening(0.5))
		}, fusedOptimizers["adamw"]},
	"amsgrad and nesterov": {
		func(ps []*autograd.Parameter) *optim.Grouped {
			return optim.Adam(ps, optim.LR(0.1), optim.AMSGrad(), optim.Maximize())
		},
		func(ps []*autograd.Parameter) *optim.Grouped {
			return optim.SGD(ps, optim.LR(0.1), optim.Momentum(0.5), optim.Nesterov(), optim.WeightDecay(0.1))
		}},
	"adagrad and rmsprop": {
		func(ps []*autograd.Parameter) *optim.Grouped {
			return optim.Adagrad(ps, optim.LR(0.1), optim.LRDecay(0.3))
		},
		func(ps []*autograd.Parameter) *optim.Grouped {
			return optim.RMSprop(ps, optim.Centered(), optim.Momentum(0.5))
		}},
}

// goldenGradient is that of testdata/fused.py.
func goldenGradient(i, k, n int, scale float64) []float64 {
	g := make([]float64, n)
	for j := range g {
		g[j] = (math.Mod(float64(j*7+i*5+k*3), 11)/4 - 1.2) * scale
	}
	switch {
	case k == 0 && (i == 0 || i == 5):
		g[i] = math.Inf(-1)
	case k == 1 && (i == 3 || i == 5):
		g[2] = math.NaN()
	}
	return g
}

func TestFused_OptimizersThatShareAScalerGiveTheNumbersOfPyTorch(t *testing.T) {
	var golden []struct {
		Name  string
		After []struct {
			Params [][]float64
			Scale  float64
		}
		Steps []int
	}
	readGolden(t, "fused.json", &golden)
	require.Len(t, golden, len(goldenMakers))
	for _, want := range golden {
		t.Run(want.Name, func(t *testing.T) {
			r := onHost(t)
			s := r.scaled(amp.InitScale(100), amp.GrowthFactor(3), amp.BackoffFactor(1.0/3), amp.GrowthInterval(2))
			ps := []*autograd.Parameter{r.param(-0.75, 7), r.param(0.25, 5)}
			var opts []*optim.Grouped
			for k, make := range goldenMakers[want.Name] {
				opts = append(opts, make(ps[k:k+1]))
				t.Cleanup(opts[k].Release)
			}
			for i, after := range want.After {
				scale := scaleOf(t, s)
				for k, p := range ps {
					r.with(p, tensor.Float32, goldenGradient(i, k, p.Len(), scale)...)
					require.NoError(t, s.Step(opts[k]))
				}
				require.NoError(t, s.Update())
				require.Equal(t, after.Scale, scaleOf(t, s), "iteration %d", i)
				for k, p := range ps {
					require.InDeltaSlice(t, after.Params[k], values(t, p.Tensor()), 2e-6, "iteration %d, parameter %d", i, k)
				}
			}
			for k, steps := range want.Steps {
				d, err := opts[k].StateDict()
				require.NoError(t, err)
				require.Equal(t, steps, d.State[0].Step)
			}
		})
	}
}
