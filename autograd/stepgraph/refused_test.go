package stepgraph_test

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// What asks for a value, or gives one from the host, is refused with the line that does so. Nothing is lost, and the step goes on eagerly.
func TestStep_WhatCannotBeCapturedIsRefusedWithItsLine(t *testing.T) {
	dev := emulated(t)
	for name, wrong := range map[string]struct {
		does       func(r *training, g *autograd.Graph, v *autograd.Variable) error
		asks, says string
	}{
		"Item": {func(_ *training, _ *autograd.Graph, v *autograd.Variable) error {
			_, err := v.Item()
			return err
		}, "v.Item()", "the step is being captured, and does not run: there is no value to read"},
		"an error that is not looked at": {func(_ *training, _ *autograd.Graph, v *autograd.Variable) error {
			_, _ = v.Item()
			return nil
		}, "_, _ = v.Item()", "the step is being captured"},
		"values of the host": {func(_ *training, g *autograd.Graph, _ *autograd.Variable) error {
			autograd.FromSlice(g, []float32{1, 2, 3}, 3)
			return g.Err()
		}, "autograd.FromSlice(", "the step is being captured, and a graph does not hold values of the host"},
		"the norm of gradients": {func(r *training, _ *autograd.Graph, _ *autograd.Variable) error {
			_, err := optim.ClipGradNorm(r.model.Parameters(), 1)
			return err
		}, "optim.ClipGradNorm(", "the step is being captured"},
		"another generator": {func(_ *training, g *autograd.Graph, _ *autograd.Variable) error {
			x, err := tensor.Rand(g.Exec(), tensor.NewGenerator(1), tensor.Float32, 3)
			x.Release()
			return err
		}, "tensor.Rand(", "the generator is not that of the step"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTraining(t, dev, adamW)
			asks := func(g *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
				loss := r.model.Forward(in[0]).MSELoss(in[1], autograd.MeanReduction).Keep()
				err := loss.Backward()
				if err == nil {
					err = wrong.does(r, g, loss)
				}
				return []*autograd.Variable{loss}, errors.Join(err, r.opt.Step())
			}
			require.NoError(t, r.step.Close())
			var err error
			r.step, err = stepgraph.New(dev, asks, stepgraph.Modules(r.model), stepgraph.WithGenerator(r.gen))
			require.NoError(t, err)
			for turn := range 3 {
				r.take(turn)
			}
			before, held := r.state(), allocated(t, dev)
			for range 2 { // the second time nothing is tried again
				_, err = r.try(3, rows, r.step.Run)
				require.ErrorContains(t, err, wrong.says)
				require.Contains(t, sourceLine(t, err), wrong.asks)
				var refusal *tensor.CaptureError
				require.ErrorAs(t, err, &refusal)
				var typed *stepgraph.Error
				require.ErrorAs(t, err, &typed)
				require.Equal(t, before, r.state(), "nothing ran")
			}
			require.LessOrEqual(t, allocated(t, dev), held, "the last results are no more")
			for _, p := range r.model.Parameters() {
				require.Nil(t, p.Grad())
			}
			_, err = r.try(3, rows, r.step.Eager)
			require.NoError(t, err)
			require.NotEqual(t, before, r.state())
			r.release()
			nothingLeft(t, dev)
		})
	}
}

// sourceLine is the line of this file that an error names.
func sourceLine(t *testing.T, err error) string {
	t.Helper()
	at := regexp.MustCompile(`refused_test\.go:(\d+)`).FindStringSubmatch(err.Error())
	require.NotNil(t, at, "%v", err)
	n, err := strconv.Atoi(at[1])
	require.NoError(t, err)
	file, err := os.ReadFile("refused_test.go")
	require.NoError(t, err)
	return strings.Split(string(file), "\n")[n-1]
}

func allocated(t *testing.T, dev device.Device) int64 {
	t.Helper()
	a, err := memory.For(dev)
	require.NoError(t, err)
	return a.Stats().AllocatedBytes.All.Current
}

// An optimizer that counts its steps on the host cannot be replayed.
func TestStep_OptimizersWithoutKernelsAreRefused(t *testing.T) {
	dev := emulated(t)
	r := newTraining(t, dev, func(p []*autograd.Parameter) *optim.Grouped { return optim.NAdam(p) })
	for turn := range 3 {
		r.take(turn)
	}
	_, err := r.try(3, rows, r.step.Run)
	require.ErrorContains(t, err, "NAdam has no kernel of its own, and counts its steps on the host")
	_, err = r.try(3, rows, r.step.Eager)
	require.NoError(t, err)
	r.release()
	nothingLeft(t, dev)
}

// A gradient that is there before the step would be added to once, by the capture.
func TestStep_GradientsFromOutsideAreRefused(t *testing.T) {
	dev := emulated(t)
	r := newTraining(t, dev, sgd)
	for turn := range 3 {
		r.take(turn)
	}
	p := r.model.Parameters()[0]
	grad, err := p.Tensor().ZerosLike()
	require.NoError(t, err)
	require.NoError(t, p.SetGrad(grad))
	_, err = r.try(3, rows, r.step.Run)
	require.ErrorContains(t, err, `parameter "weight" has a gradient already`)
	require.NotNil(t, p.Grad())
	p.ZeroGrad()
	r.take(3)
	require.Equal(t, 1, r.step.Stats().Replays)
	r.release()
	nothingLeft(t, dev)
}

// Inputs of other shapes have graphs of their own, as many as MaxGraphs says, and then none.
func TestStep_ShapesHaveGraphsOfTheirOwn(t *testing.T) {
	dev := emulated(t)
	captured, eager := newTraining(t, dev, adamW, stepgraph.MaxGraphs(2)), newTraining(t, dev, adamW)
	for turn, n := range []int{8, 8, 8, 8, 4, 4, 8, 4, 5, 5, 5, 8} {
		want, err := eager.try(turn, n, eager.step.Eager)
		require.NoError(t, err)
		got, err := captured.try(turn, n, captured.step.Run)
		require.NoError(t, err)
		require.Equal(t, want, got, "turn %d", turn)
		require.Equal(t, eager.state(), captured.state(), "turn %d", turn)
	}
	require.Equal(t, stepgraph.Stats{Eager: 3 + 1 + 3, Captures: 2, Replays: 5, Graphs: 2}, captured.step.Stats())
	captured.release()
	eager.release()
	nothingLeft(t, dev)
}

// What a graph has the addresses of is captured anew when it has moved: other values of parameters, and of the optimizer's state.
func TestStep_IsCapturedAnewWhenItsTensorsMove(t *testing.T) {
	dev := emulated(t)
	captured, eager := newTraining(t, dev, adamW), newTraining(t, dev, adamW)
	turn := 0
	both := func(n int) {
		for range n {
			want, err := eager.try(turn, rows, eager.step.Eager)
			require.NoError(t, err)
			require.Equal(t, want, captured.take(turn))
			require.Equal(t, eager.state(), captured.state(), "turn %d", turn)
			turn++
		}
	}
	both(5)
	for _, r := range []*training{captured, eager} {
		dict, err := r.opt.StateDict()
		require.NoError(t, err)
		require.NoError(t, r.opt.LoadStateDict(dict))
	}
	both(3)
	require.Equal(t, 2, captured.step.Stats().Captures)
	for _, r := range []*training{captured, eager} {
		p := r.model.Parameters()[0]
		c, err := p.Tensor().Clone()
		require.NoError(t, err)
		p.Release()
		require.NoError(t, p.SetTensor(c))
	}
	both(3)
	require.Equal(t, 3, captured.step.Stats().Captures)
	captured.release()
	eager.release()
	nothingLeft(t, dev)
}

// After Close parameters, state and scale are on the default stream, and training goes on without the step.
func TestStep_TrainingGoesOnAfterClose(t *testing.T) {
	dev := emulated(t)
	r := newTraining(t, dev, adamW)
	for turn := range 5 {
		r.take(turn)
	}
	require.NoError(t, r.step.Close())
	require.NoError(t, r.step.Close())
	_, err := r.try(5, rows, r.step.Run)
	require.ErrorIs(t, err, device.ErrClosed)
	x, y := r.batch(5, rows)
	g := autograd.NewGraph(dev, autograd.WithGenerator(r.gen))
	require.NoError(t, r.model.Forward(g.Input(x)).MSELoss(g.Input(y), autograd.MeanReduction).Backward())
	g.Release()
	require.NoError(t, r.opt.Step())
	x.Release()
	y.Release()
	dict, err := r.opt.StateDict()
	require.NoError(t, err)
	require.Equal(t, 6, dict.State[0].Step)
	r.release()
	nothingLeft(t, dev)
}
