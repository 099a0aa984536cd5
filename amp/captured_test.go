package amp_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	kernels "github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// training is a network, its optimizer and scaler, and the input and loss of its steps, all of which stay where they are: what a
// graph can repeat.
type training struct {
	t          *testing.T
	alloc      *memory.Caching
	exec       tensor.Exec
	half       tensor.DType
	module     nn.Layer
	opt        *optim.Grouped
	scaler     *amp.GradScaler
	x, y, loss *tensor.Tensor
}

// newTraining makes one with memory and a stream of its own. Those with the same half type begin alike.
func newTraining(t *testing.T, dev device.Device, half tensor.DType, opts ...nn.Option) *training {
	t.Helper()
	r := &training{t: t, half: half}
	var err error
	r.alloc, err = memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.alloc.Close()) })
	s, err := dev.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	r.exec, err = tensor.On(dev, tensor.WithAllocator(r.alloc), tensor.WithStream(s))
	require.NoError(t, err)
	r.module = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm([]int{64}), nn.Linear(64, 16))
	opts = append([]nn.Option{nn.Seed(1), nn.WithAllocator(r.alloc), nn.WithStream(s)}, opts...)
	require.NoError(t, r.module.To(dev, opts...))
	r.opt = optim.AdamW(r.module.Parameters(), optim.LR(0.02))
	r.scaler = amp.NewGradScaler(amp.InitScale(1024), amp.GrowthFactor(4), amp.GrowthInterval(3))
	for _, p := range []**tensor.Tensor{&r.x, &r.y} {
		*p, err = tensor.Zeros(r.exec, tensor.Float32, 32, 16)
		require.NoError(t, err)
	}
	r.loss, err = tensor.Zeros(r.exec, tensor.Float32)
	require.NoError(t, err)
	return r
}

// release gives everything back: nothing may be left.
func (r *training) release() {
	r.t.Helper()
	r.module.Release()
	r.opt.Release()
	r.scaler.Release()
	for _, x := range []*tensor.Tensor{r.x, r.y, r.loss} {
		x.Release()
	}
	require.Zero(r.t, r.allocated())
}

func (r *training) allocated() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }
func (r *training) reserved() int64  { return r.alloc.Stats().ReservedBytes.All.Current }

// step enqueues a whole iteration on the stream.
func (r *training) step() error {
	g := autograd.NewGraph(r.exec.Device(), autograd.WithStream(r.exec.Stream()), autograd.WithAllocator(r.alloc), amp.Autocast(r.half))
	defer g.Release()
	defer r.opt.ZeroGrad()
	loss := r.module.Forward(g.Input(r.x)).MSELoss(g.Input(r.y), autograd.MeanReduction).Keep()
	if err := r.scaler.Backward(loss); err != nil {
		return err
	}
	value, err := loss.Tensor()
	if err != nil {
		return err
	}
	return errors.Join(r.scaler.Step(r.opt), r.scaler.Update(), r.loss.CopyFrom(value))
}

// set gives the input another content; that of turn 3 overflows.
func (r *training) set(turn int) {
	r.t.Helper()
	x, y := make([]float32, 32*16), make([]float32, 32*16)
	for i := range x {
		x[i] = float32((i*7+turn*13)%23-11) / 8
		y[i] = float32((i*5+turn*11)%19-9) / 8
	}
	if turn == 3 {
		y[7] = float32(math.Inf(1))
	}
	require.NoError(r.t, errors.Join(tensor.CopyFromSlice(r.x, x), tensor.CopyFromSlice(r.y, y), r.loss.FillInPlace(-1)))
}

// state is what there is to know: loss, scale, parameters, and what the optimizer keeps, to the bit.
func (r *training) state() (list []any) {
	r.t.Helper()
	scale, err := r.scaler.State()
	require.NoError(r.t, err)
	dict, err := r.opt.StateDict()
	require.NoError(r.t, err)
	list = append(list, fmt.Sprint(scale))
	add := func(x *tensor.Tensor) {
		if x == nil {
			return
		}
		for _, v := range values(r.t, x) {
			list = append(list, math.Float64bits(v)) // what is not a number equals itself
		}
	}
	add(r.loss)
	for i, p := range r.module.Parameters() {
		add(p.Tensor())
		list = append(list, dict.State[i].Step)
		for _, name := range []string{"exp_avg", "exp_avg_sq"} {
			add(dict.State[i].Tensors[name])
		}
	}
	return list
}

// repeatsSteps trains a network step by step, and another one by replays of one captured step: after each, both are the same to the
// bit.
func repeatsSteps(t *testing.T, dev device.Device, half tensor.DType) {
	eager, captured := newTraining(t, dev, half), newTraining(t, dev, half)
	for _, r := range []*training{eager, captured} { // makes the optimizer's state
		r.set(0)
		require.NoError(t, r.step())
	}
	require.Equal(t, eager.state(), captured.state())
	require.NoError(t, captured.alloc.EmptyCache())
	held, reserved := captured.allocated(), captured.reserved()
	graph, err := captured.alloc.CaptureGraph(captured.exec.Stream(), captured.step)
	require.NoError(t, err)
	require.Equal(t, held, captured.allocated(), "a step releases what it takes")
	require.Greater(t, captured.reserved(), reserved, "its memory is the graph's")
	require.Equal(t, eager.state(), captured.state(), "nothing ran")
	var before []any
	for turn := range 8 {
		for _, r := range []*training{eager, captured} {
			r.set(turn)
		}
		require.NoError(t, eager.step())
		require.NoError(t, graph.Replay(captured.exec.Stream()))
		want := eager.state()
		require.Equal(t, want, captured.state(), "turn %d", turn)
		require.NotEqual(t, before, want)
		before = want
	}
	require.Equal(t, held, captured.allocated())
	require.NoError(t, errors.Join(dev.Synchronize(context.Background()), graph.Close(), captured.alloc.EmptyCache()))
	require.Equal(t, held, captured.allocated(), "what the leaves hold")
	require.Equal(t, reserved, captured.reserved())
	eager.release()
	captured.release()
}

// captureSteps does that in both half types.
func captureSteps(t *testing.T, dev device.Device) {
	for _, half := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		t.Run(half.String(), func(t *testing.T) { repeatsSteps(t, dev, half) })
	}
}

func TestCapture_OfAWholeStepRepeatsIt(t *testing.T) {
	t.Run("own", func(t *testing.T) {
		dev, _ := emulatedtest.NewPTX(t)
		captureSteps(t, dev)
	})
	t.Run("library", func(t *testing.T) {
		dev := cudatest.NewCUBLAS(t, 1, func(l *fakecuda.Library) { l.Set("ptx", "1") }).Devices[0]
		t.Cleanup(func() { require.NoError(t, kernels.Unload(dev)) })
		captureSteps(t, dev)
		require.Positive(t, dev.BLAS().Products)
	})
}

func TestGPU_CaptureOfAWholeStepRepeatsIt(t *testing.T) {
	dev := cudatest.GPU(t)
	for name, library := range map[string]bool{"library": true, "own": false} {
		t.Run(name, func(t *testing.T) {
			dev.UseBLAS(library)
			t.Cleanup(func() { dev.UseBLAS(true) })
			captureSteps(t, dev)
		})
	}
}

// refusesOtherStreams captures a step whose parameters are on a stream that is not captured: an error, after which all is as before.
func refusesOtherStreams(t *testing.T, dev device.Device) {
	r := newTraining(t, dev, tensor.BFloat16, nn.WithStream(dev.DefaultStream()))
	for turn := range 2 {
		r.set(turn)
		require.NoError(t, r.step())
		held, before := r.allocated(), r.state()
		_, err := r.alloc.CaptureGraph(r.exec.Stream(), r.step)
		require.ErrorContains(t, err, "CUDA_ERROR_STREAM_CAPTURE")
		require.Equal(t, held, r.allocated())
		require.Equal(t, before, r.state())
	}
	require.NoError(t, dev.Synchronize(context.Background()))
	r.release()
}

func TestCapture_OfAStepWhoseParametersAreElsewhereIsAnError(t *testing.T) {
	dev, rig := emulatedtest.NewPTX(t)
	rig.Expect("CUDA_ERROR_STREAM_CAPTURE")
	refusesOtherStreams(t, dev)
}

func TestGPU_CaptureOfAStepWhoseParametersAreElsewhereIsAnError(t *testing.T) {
	refusesOtherStreams(t, cudatest.GPU(t))
}
