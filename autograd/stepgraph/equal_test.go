package stepgraph_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/tensor"
)

// equal trains twice, by Run and by Eager, with a learning rate that changes in each step, and compares all there is after each.
func equal(t *testing.T, captured, eager *training, steps int, at func(turn int) int) {
	t.Helper()
	for turn := range steps {
		rate := 0.05 / float64(1+turn)
		captured.opt.SetLR(rate)
		eager.opt.SetLR(rate)
		want, err := eager.try(at(turn), rows, eager.step.Eager)
		require.NoError(t, err)
		got, err := captured.try(at(turn), rows, captured.step.Run)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "turn %d", turn) // NaN is not equal to itself
		require.Equal(t, eager.state(), captured.state(), "turn %d", turn)
	}
	require.Equal(t, stepgraph.Stats{Eager: 3, Captures: 1, Replays: steps - 3, Graphs: 1}, captured.step.Stats())
}

// fiftySteps are in float16 with dropout, a gradient scaler that leaves one of them out, clipping, and another learning rate in each.
func fiftySteps(t *testing.T, dev device.Device) {
	t.Helper()
	pair := [2]*training{}
	for i := range pair {
		adam := func(p []*autograd.Parameter) *optim.Grouped {
			return optim.AdamW(p[:2], optim.LR(0.05)).AddGroup(p[2:], optim.WeightDecay(0))
		}
		r := newTraining(t, dev, adam, stepgraph.GraphOptions(amp.Autocast(tensor.Float16)))
		r.scaler, r.clip = amp.NewGradScaler(amp.InitScale(1024), amp.GrowthInterval(15)), 0.5
		pair[i] = r
	}
	equal(t, pair[0], pair[1], 50, func(turn int) int {
		if turn == 20 {
			return overflows
		}
		return turn
	})
	dict, err := pair[0].opt.StateDict()
	require.NoError(t, err)
	require.Equal(t, 49, dict.State[0].Step, "one was left out")
	for _, r := range pair {
		r.release()
	}
	nothingLeft(t, dev)
}

func TestStep_EqualsEagerSteps(t *testing.T) { fiftySteps(t, emulated(t)) }

func TestGPU_StepEqualsEagerSteps(t *testing.T) { fiftySteps(t, cudatest.GPU(t)) }

// All optimizers with kernels take settings from memory: learning rates, and momenta where schedules change them.
func TestStep_OfEachOptimizerEqualsEagerSteps(t *testing.T) {
	dev := emulated(t)
	for name, build := range map[string]func(p []*autograd.Parameter) *optim.Grouped{
		"SGD": func(p []*autograd.Parameter) *optim.Grouped {
			return optim.SGD(p, optim.Momentum(0.9), optim.WeightDecay(0.01), optim.Nesterov())
		},
		"Adam": func(p []*autograd.Parameter) *optim.Grouped {
			return optim.Adam(p, optim.AMSGrad(), optim.WeightDecay(0.01))
		},
		"RMSprop": func(p []*autograd.Parameter) *optim.Grouped {
			return optim.RMSprop(p, optim.Momentum(0.5), optim.Centered())
		},
		"Adagrad": func(p []*autograd.Parameter) *optim.Grouped { return optim.Adagrad(p, optim.LRDecay(0.1)) },
		"Lion":    func(p []*autograd.Parameter) *optim.Grouped { return optim.Lion(p) },
	} {
		t.Run(name, func(t *testing.T) {
			captured, eager := newTraining(t, dev, build), newTraining(t, dev, build)
			momentum := captured.opt.Momentum(0)
			equal(t, captured, eager, 9, func(turn int) int {
				for _, r := range []*training{captured, eager} {
					if momentum > 0 {
						r.opt.SetMomentum(momentum-0.01*float64(turn), 0)
					}
				}
				return turn
			})
			captured.release()
			eager.release()
		})
	}
	nothingLeft(t, dev)
}

// The state of the generator goes on in replays, so that a run can be repeated from there, and be given another seed.
func TestStep_GeneratorGoesOn(t *testing.T) {
	dev := emulated(t)
	r := newTraining(t, dev, func(p []*autograd.Parameter) *optim.Grouped { return optim.SGD(p, optim.LR(0)) })
	for range 3 {
		r.take(0)
	}
	before := r.gen.State()
	first, second := r.take(0), r.take(0)
	require.NotEqual(t, first, second, "other elements are dropped")
	require.Equal(t, before.Offset+2*rows*16/4, r.gen.State().Offset)
	r.gen.SetState(before)
	require.Equal(t, first, r.take(0))
	again, err := r.try(0, rows, r.step.Eager)
	require.NoError(t, err)
	require.Equal(t, second, again)
	r.gen.SetState(tensor.GeneratorState{Seed: 99})
	other := r.take(0)
	require.NotContains(t, []float64{first, second}, other)
	r.gen.SetState(tensor.GeneratorState{Seed: 99})
	again, err = r.try(0, rows, r.step.Eager)
	require.NoError(t, err)
	require.Equal(t, other, again)
	r.release()
	nothingLeft(t, dev)
}

// Running statistics and the count of batches go on in replays.
func TestStep_OfBatchNormEqualsEagerSteps(t *testing.T) {
	dev := emulated(t)
	pair := [2]*training{}
	for i := range pair {
		r := newTraining(t, dev, sgd)
		r.release()
		r.model = nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, outputs))
		require.NoError(t, r.model.To(dev, nn.Seed(1)))
		r.opt = sgd(r.model.Parameters())
		var err error
		r.step, err = stepgraph.New(dev, r.run, stepgraph.Modules(r.model))
		require.NoError(t, err)
		pair[i] = r
	}
	buffers := func(r *training) (list []float64) {
		for _, b := range nn.NamedBuffers(r.model) {
			v, err := b.Parameter.Tensor().Float64s()
			require.NoError(t, err)
			list = append(list, v...)
		}
		return list
	}
	for turn, captured := range []bool{true, true, true, true, true, false, true} {
		run := pair[0].step.Run
		if !captured {
			run = pair[0].step.Eager
		}
		_, err := pair[0].try(turn, rows, run)
		require.NoError(t, err)
		_, err = pair[1].try(turn, rows, pair[1].step.Eager)
		require.NoError(t, err)
		require.Equal(t, buffers(pair[1]), buffers(pair[0]), "turn %d", turn)
		require.Contains(t, buffers(pair[0]), float64(turn+1), "the count")
	}
	require.Equal(t, 3, pair[0].step.Stats().Replays)
	for _, r := range pair {
		r.release()
	}
	nothingLeft(t, dev)
}

// Two networks with an optimizer each, trained in turn within one step.
func TestStep_OfTwoNetworksEqualsEagerSteps(t *testing.T) {
	dev := emulated(t)
	pair := [2]*training{}
	others := [2]*training{}
	for i := range pair {
		r, other := newTraining(t, dev, adamW), newTraining(t, dev, sgd)
		require.NoError(t, errors.Join(r.step.Close(), other.step.Close()))
		var err error
		r.step, err = stepgraph.New(dev, func(g *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
			first, err := r.run(g, in)
			if err != nil {
				return nil, err
			}
			second, err := other.run(g, in)
			return append(first, second...), err
		}, stepgraph.Modules(r.model, other.model), stepgraph.WithGenerator(r.gen))
		require.NoError(t, err)
		other.gen = r.gen
		pair[i], others[i] = r, other
	}
	for turn := range 7 {
		want, err := pair[1].try(turn, rows, pair[1].step.Eager)
		require.NoError(t, err)
		require.Equal(t, want, pair[0].take(turn))
		require.Equal(t, pair[1].state(), pair[0].state(), "turn %d", turn)
		require.Equal(t, others[1].state(), others[0].state(), "turn %d", turn)
	}
	require.Equal(t, 4, pair[0].step.Stats().Replays)
	for i := range pair {
		pair[i].release()
		others[i].release()
	}
	nothingLeft(t, dev)
}
