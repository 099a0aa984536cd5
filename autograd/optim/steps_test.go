package optim_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// newExec is a device with an allocator of its own, whose cleanup fails the test if anything was left allocated.
func newExec(t *testing.T, dev device.Device) (tensor.Exec, *memory.Caching) {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.Zero(t, alloc.Stats().AllocatedBytes.All.Current, "bytes still allocated at the end of the test")
		}
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	})
	return e, alloc
}

// param is a parameter of n elements from i-0.75 on, in steps of a half, as in testdata/steps.py.
func param(t *testing.T, e tensor.Exec, i, n int, dt tensor.DType) *autograd.Parameter {
	t.Helper()
	x, err := tensor.Arange(e, float64(i)-0.75, float64(i)-0.75+float64(n)/2, 0.5, dt)
	require.NoError(t, err)
	p := autograd.NewParameter("p", x)
	t.Cleanup(p.Release)
	return p
}

// setGradient gives p the gradient of testdata/steps.py.
func setGradient(t *testing.T, e tensor.Exec, p *autograd.Parameter, step, i int) {
	t.Helper()
	values := make([]float64, p.Len())
	for k := range values {
		values[k] = math.Mod(float64(k*7+step*5+i*3), 11)/4 - 1.25
	}
	wide, err := tensor.FromSlice(e, values)
	require.NoError(t, err)
	defer wide.Release()
	grad, err := wide.To(p.Tensor().DType())
	require.NoError(t, err)
	require.NoError(t, p.SetGrad(grad))
}

type params = []*autograd.Parameter

type skipped map[[2]int]bool // step and parameter without a gradient

var someSkipped = skipped{{1, 1}: true, {2, 1}: true, {4, 0}: true}

var stepCases = map[string]struct {
	make func(p params) *optim.Grouped
	skip skipped
	lrs  map[int]float64
}{
	"sgd":          {make: func(p params) *optim.Grouped { return optim.SGD(p, optim.LR(0.1)) }},
	"sgd decay":    {make: func(p params) *optim.Grouped { return optim.SGD(p, optim.LR(0.1), optim.WeightDecay(0.2)) }},
	"sgd momentum": {make: func(p params) *optim.Grouped { return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.9)) }},
	"sgd momentum dampening decay": {make: func(p params) *optim.Grouped {
		return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.9), optim.Dampening(0.3), optim.WeightDecay(0.2))
	}},
	"sgd nesterov": {make: func(p params) *optim.Grouped {
		return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.9), optim.Nesterov(), optim.WeightDecay(0.01))
	}},
	"sgd maximize": {make: func(p params) *optim.Grouped {
		return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.5), optim.Maximize(), optim.WeightDecay(0.1))
	}},
	"sgd skipped": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.SGD(p, optim.LR(0.1), optim.Momentum(0.9), optim.Dampening(0.5))
	}},
	"adam": {make: func(p params) *optim.Grouped { return optim.Adam(p) }},
	"adam settings": {make: func(p params) *optim.Grouped {
		return optim.Adam(p, optim.LR(0.05), optim.Betas(0.8, 0.95), optim.Eps(1e-3), optim.WeightDecay(0.1))
	}},
	"adam maximize":   {make: func(p params) *optim.Grouped { return optim.Adam(p, optim.LR(0.05), optim.Maximize()) }},
	"adam skipped":    {skip: someSkipped, make: func(p params) *optim.Grouped { return optim.Adam(p, optim.LR(0.05)) }},
	"adam lr changed": {lrs: map[int]float64{3: 0.01, 5: 0.2}, make: func(p params) *optim.Grouped { return optim.Adam(p, optim.LR(0.05)) }},
	"adamw":           {make: func(p params) *optim.Grouped { return optim.AdamW(p) }},
	"adamw settings": {make: func(p params) *optim.Grouped {
		return optim.AdamW(p, optim.LR(0.05), optim.Betas(0.8, 0.95), optim.Eps(1e-3), optim.WeightDecay(0.3))
	}},
	"adamw maximize": {make: func(p params) *optim.Grouped { return optim.AdamW(p, optim.LR(0.05), optim.Maximize()) }},
	"adam amsgrad": {make: func(p params) *optim.Grouped {
		return optim.Adam(p, optim.LR(0.05), optim.Betas(0.5, 0.6), optim.AMSGrad())
	}},
	"adamw amsgrad": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.AdamW(p, optim.LR(0.05), optim.Betas(0.5, 0.6), optim.AMSGrad(), optim.Maximize())
	}},
	"rmsprop": {make: func(p params) *optim.Grouped { return optim.RMSprop(p) }},
	"rmsprop settings": {make: func(p params) *optim.Grouped {
		return optim.RMSprop(p, optim.LR(0.05), optim.Alpha(0.8), optim.Eps(1e-3), optim.WeightDecay(0.1))
	}},
	"rmsprop momentum": {make: func(p params) *optim.Grouped {
		return optim.RMSprop(p, optim.LR(0.05), optim.Alpha(0.9), optim.Momentum(0.7))
	}},
	"rmsprop centered": {make: func(p params) *optim.Grouped {
		return optim.RMSprop(p, optim.LR(0.05), optim.Alpha(0.9), optim.Eps(1e-2), optim.Centered(), optim.Maximize())
	}},
	"rmsprop all": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.RMSprop(p, optim.LR(0.05), optim.Alpha(0.9), optim.Eps(1e-2), optim.Centered(), optim.Momentum(0.5),
			optim.WeightDecay(0.2))
	}},
	"adagrad": {make: func(p params) *optim.Grouped { return optim.Adagrad(p) }},
	"adagrad settings": {make: func(p params) *optim.Grouped {
		return optim.Adagrad(p, optim.LR(0.1), optim.LRDecay(0.3), optim.WeightDecay(0.1), optim.InitialAccumulator(0.5),
			optim.Eps(1e-3))
	}},
	"adagrad maximize": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.Adagrad(p, optim.LR(0.1), optim.LRDecay(0.3), optim.Maximize())
	}},
	"lion": {make: func(p params) *optim.Grouped { return optim.Lion(p) }},
	"lion settings": {make: func(p params) *optim.Grouped {
		return optim.Lion(p, optim.LR(0.05), optim.Betas(0.8, 0.95), optim.WeightDecay(0.1))
	}},
	"lion maximize": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.Lion(p, optim.LR(0.05), optim.Maximize())
	}},
	"adadelta": {make: func(p params) *optim.Grouped { return optim.Adadelta(p) }},
	"adadelta settings": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.Adadelta(p, optim.LR(0.5), optim.Rho(0.8), optim.Eps(1e-3), optim.WeightDecay(0.1), optim.Maximize())
	}},
	"adamax": {make: func(p params) *optim.Grouped { return optim.Adamax(p) }},
	"adamax settings": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.Adamax(p, optim.LR(0.05), optim.Betas(0.8, 0.95), optim.Eps(1e-3), optim.WeightDecay(0.1), optim.Maximize())
	}},
	"nadam": {make: func(p params) *optim.Grouped { return optim.NAdam(p) }},
	"nadam settings": {skip: someSkipped, lrs: map[int]float64{3: 0.01}, make: func(p params) *optim.Grouped {
		return optim.NAdam(p, optim.LR(0.05), optim.Betas(0.8, 0.95), optim.Eps(1e-3), optim.WeightDecay(0.1), optim.MomentumDecay(0.1))
	}},
	"nadam groups": {make: func(p params) *optim.Grouped {
		return optim.NAdam(p[:1], optim.LR(0.05), optim.Maximize()).AddGroup(p[1:], optim.LR(0.2), optim.MomentumDecay(0.02))
	}},
	"nadam decoupled": {make: func(p params) *optim.Grouped {
		return optim.NAdam(p, optim.LR(0.05), optim.WeightDecay(0.3), optim.DecoupledWeightDecay())
	}},
	"radam": {make: func(p params) *optim.Grouped { return optim.RAdam(p) }},
	"radam settings": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.RAdam(p, optim.LR(0.05), optim.Betas(0.8, 0.95), optim.Eps(1e-3), optim.WeightDecay(0.1))
	}},
	"radam maximize": {make: func(p params) *optim.Grouped { return optim.RAdam(p, optim.LR(0.05), optim.Maximize()) }},
	"radam decoupled": {make: func(p params) *optim.Grouped {
		return optim.RAdam(p, optim.LR(0.05), optim.WeightDecay(0.3), optim.DecoupledWeightDecay())
	}},
	"asgd": {make: func(p params) *optim.Grouped { return optim.ASGD(p) }},
	"asgd settings": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.ASGD(p, optim.LR(0.05), optim.Lambd(0.1), optim.Alpha(0.6), optim.T0(2), optim.WeightDecay(0.1), optim.Maximize())
	}},
	"rprop": {make: func(p params) *optim.Grouped { return optim.Rprop(p) }},
	"rprop settings": {skip: someSkipped, make: func(p params) *optim.Grouped {
		return optim.Rprop(p, optim.LR(0.05), optim.Etas(0.4, 1.5), optim.StepSizes(0.02, 0.1), optim.Maximize())
	}},
	"adamw groups": {make: func(p params) *optim.Grouped {
		return optim.AdamW(p[:1], optim.LR(0.05)).AddGroup(p[1:], optim.LR(0.2), optim.WeightDecay(0))
	}},
}

func TestStep_GivesTheNumbersOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/steps.json")
	require.NoError(t, err)
	var golden []struct {
		Name  string
		DType string
		After [][][]float64
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.Len(t, golden, 3*len(stepCases))
	for _, want := range golden {
		t.Run(want.Name+" "+want.DType, func(t *testing.T) {
			c, ok := stepCases[want.Name]
			require.True(t, ok)
			dt, tolerance := tensor.Float64, 1e-12
			switch want.DType {
			case "float32":
				dt, tolerance = tensor.Float32, 1e-6
			case "bfloat16": // state is of the parameter's type; PyTorch rounds after each operation, we once a step
				dt, tolerance = tensor.BFloat16, 6*0x1p-8
			}
			e, _ := newExec(t, host.New())
			ps := params{param(t, e, 0, 3, dt), param(t, e, 1, 5, dt)}
			opt := c.make(ps)
			defer opt.Release()
			for s, after := range want.After {
				if lr, ok := c.lrs[s+1]; ok {
					opt.SetLR(lr)
				}
				for i, p := range ps {
					p.ZeroGrad()
					if !c.skip[[2]int{s + 1, i}] {
						setGradient(t, e, p, s+1, i)
					}
				}
				require.NoError(t, opt.Step())
				for i, p := range ps {
					got, err := p.Tensor().Float64s()
					require.NoError(t, err)
					for k := range got {
						require.InDelta(t, after[i][k], got[k], tolerance*max(1, math.Abs(after[i][k])), "step %d, parameter %d", s+1, i)
					}
				}
			}
		})
	}
}
