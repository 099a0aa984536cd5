package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// optimizerCase is a run of an optimizer by PyTorch.
type optimizerCase struct {
	Optimizer string
	Config    struct {
		LR          float64
		Momentum    float64
		Dampening   float64
		WeightDecay float64 `json:"weight_decay"`
		Nesterov    bool
		Maximize    bool
		Betas       []float64
		Eps         float64
	}
	Params [][]float64
	Grads  [][]float64
	Steps  [][][]float64
}

func (c optimizerCase) sgd(step int) training.SGD {
	return training.SGD{
		LR: c.Config.LR, Momentum: c.Config.Momentum, Dampening: c.Config.Dampening, WeightDecay: c.Config.WeightDecay,
		Nesterov: c.Config.Nesterov, Maximize: c.Config.Maximize, First: step == 1,
	}
}

func (c optimizerCase) adam(step int) training.Adam {
	cfg := training.Adam{
		LR: c.Config.LR, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: c.Config.WeightDecay, Step: step,
		Decoupled: c.Optimizer == "AdamW", Maximize: c.Config.Maximize,
	}
	if c.Config.Betas != nil {
		cfg.Beta1, cfg.Beta2 = c.Config.Betas[0], c.Config.Betas[1]
	}
	if c.Config.Eps != 0 {
		cfg.Eps = c.Config.Eps
	}
	return cfg
}

func TestOptimizers_TakePyTorchsSteps(t *testing.T) {
	var cases []optimizerCase
	readGolden(t, "optimizers.json", &cases)
	for _, c := range cases {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
			b := onHost(t)
			var params, grads, first, second tensors
			for i := range c.Params {
				params = append(params, must(t)(must(t)(tensor.FromSlice(b.Exec, c.Params[i])).To(dt)))
				grads = append(grads, must(t)(tensor.FromSlice(b.Exec, c.Grads[i])))
				first = append(first, must(t)(tensor.Zeros(b.Exec, dt, len(c.Params[i]))))
				second = append(second, must(t)(tensor.Zeros(b.Exec, dt, len(c.Params[i]))))
			}
			for s, want := range c.Steps {
				before := b.allocated()
				if c.Optimizer == "SGD" {
					require.NoError(t, steps.SGD(params, grads, first, c.sgd(s+1), guard{}))
				} else {
					require.NoError(t, steps.Adam(params, grads, first, second, nil, c.adam(s+1), guard{}))
				}
				require.Equal(t, before, b.allocated())
				for i, w := range want {
					requireClose(t, w, values(t, params[i]), tolerance[dt])
					require.EqualValues(t, s+1, params[i].Version())
				}
			}
		}
	}
}

func TestSGDStep_SkipsParametersWithoutAGradient(t *testing.T) {
	b := onHost(t)
	p, q, g := iota(t, b.Exec, 2), iota(t, b.Exec, 2), iota(t, b.Exec, 2)
	require.NoError(t, steps.SGD(tensors{p, q}, tensors{nil, g}, nil, training.SGD{LR: 1}, guard{}))
	require.Equal(t, []float64{0, 1}, values(t, p))
	require.Equal(t, []float64{0, 0}, values(t, q))
	require.Zero(t, p.Version())
	require.NoError(t, steps.SGD(nil, nil, nil, training.SGD{LR: 1}, guard{}))
}

func TestOptimizers_TakeGradientsOfOtherTypesAndStrides(t *testing.T) {
	b := onHost(t)
	p := iota(t, b.Exec, 2, 3)
	half := must(t)(tensor.Ones(b.Exec, tensor.Float16, 2))
	transposed := must(t)(iota(t, b.Exec, 3, 2).T())
	g := must(t)(must(t)(half.Unsqueeze(1)).Expand(2, 3))
	before := b.allocated()
	require.NoError(t, steps.SGD(tensors{p, half}, tensors{transposed, half}, nil, training.SGD{LR: 1}, guard{}))
	require.Equal(t, []float64{0, -1, -2, 2, 1, 0}, values(t, p))
	require.NoError(t, steps.SGD(tensors{p}, tensors{g}, nil, training.SGD{LR: 1}, guard{}))
	require.Equal(t, before, b.allocated())
}

func TestOptimizers_LaunchOnceForEachType(t *testing.T) {
	launches := 0
	b, _ := onSim(t, sim.OnCall(func(c sim.Call) {
		if c.Kind == sim.CallSubmit {
			launches++
		}
	}))
	var params tensors
	for range 10 {
		params = append(params, must(t)(tensor.Zeros(b.Exec, tensor.Float32, 5)))
		params = append(params, must(t)(tensor.Zeros(b.Exec, tensor.BFloat16, 5)))
	}
	launches = 0
	require.NoError(t, steps.Adam(params, params, params, params, nil, training.Adam{LR: 1, Step: 1}, guard{}))
	require.Equal(t, 2, launches)
}

func TestOptimizers_RefuseWrongArgumentsBeforeAnythingChanges(t *testing.T) {
	b := onHost(t)
	p, g := iota(t, b.Exec, 2), iota(t, b.Exec, 2)
	odd, n := iota(t, b.Exec, 3), must(t)(tensor.Zeros(b.Exec, tensor.Int64, 2))
	wide := must(t)(iota(t, b.Exec, 1).Expand(2))
	gone := iota(t, b.Exec, 2)
	gone.Release()
	var value *tensor.ValueError
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	sgd := func(p, g, m tensors, momentum float64) error {
		return steps.SGD(p, g, m, training.SGD{LR: 1, Momentum: momentum}, guard{})
	}
	require.ErrorAs(t, sgd(tensors{p}, tensors{g, g}, nil, 0), &value)
	require.ErrorAs(t, sgd(tensors{p}, tensors{g}, nil, 0.9), &value, "momentum needs buffers")
	require.ErrorAs(t, sgd(tensors{p, p}, tensors{g, odd}, nil, 0), &shape)
	require.ErrorAs(t, sgd(tensors{p, p}, tensors{g, n}, nil, 0), &dtype)
	require.ErrorAs(t, sgd(tensors{p, n}, tensors{g, g}, nil, 0), &dtype)
	require.ErrorAs(t, sgd(tensors{p, wide}, tensors{g, g}, nil, 0), &shape)
	require.ErrorAs(t, sgd(tensors{p}, tensors{g}, tensors{odd}, 0.9), &shape)
	require.ErrorIs(t, sgd(tensors{p, gone}, tensors{g, g}, nil, 0), tensor.ErrReleased)
	require.ErrorIs(t, sgd(tensors{p}, tensors{gone}, nil, 0), tensor.ErrReleased)
	require.ErrorAs(t, steps.SGD(tensors{p}, tensors{g}, nil, training.SGD{Nesterov: true}, guard{}), &value)
	require.ErrorAs(t, steps.Adam(tensors{p}, tensors{g}, tensors{p}, tensors{p}, nil, training.Adam{}, guard{}), &value)
	require.Equal(t, []float64{0, 1}, values(t, p))
}
