package amp_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// emulatedRun is a training run on the emulated driver whose input stays where it is: what a graph can repeat.
type emulatedRun struct {
	*rig
	emu    *cudatest.Rig
	x      *tensor.Tensor
	ps     []*autograd.Parameter
	opt    *optim.Grouped
	step   amp.Optimizer // opt, or what hides that it is fused
	scaler *amp.GradScaler
}

// onEmulator makes a rig on the emulated driver, and what makes runs on it.
func onEmulator(t *testing.T) func(make optimizerMaker) *emulatedRun {
	t.Helper()
	dev, emu := emulatedtest.New(t)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(dev, tensor.WithAllocator(alloc), tensor.WithStream(emu.Stream(dev)))
	require.NoError(t, err)
	r := &rig{t: t, dev: dev, alloc: alloc, exec: e}
	return func(make optimizerMaker) *emulatedRun {
		s := &emulatedRun{rig: r, emu: emu, x: r.full(0, tensor.Float32, 2, 3)}
		s.ps = []*autograd.Parameter{r.param(0.5, 3), r.param(-1, 2, 3)}
		s.opt = make(s.ps)
		s.step = s.opt
		t.Cleanup(s.opt.Release)
		s.scaler = amp.NewGradScaler(amp.InitScale(100), amp.GrowthFactor(3), amp.GrowthInterval(2))
		t.Cleanup(s.scaler.Release)
		return s
	}
}

// iterate enqueues a whole iteration on the stream.
func (s *emulatedRun) iterate() error {
	g := autograd.NewGraph(s.dev, autograd.WithStream(s.exec.Stream()), autograd.WithAllocator(s.alloc))
	defer g.Release()
	defer s.opt.ZeroGrad()
	h := g.Input(s.x).Mul(g.Param(s.ps[0])).Add(g.Param(s.ps[1]))
	if err := s.scaler.Backward(h.Mul(h).Mean(nil, false)); err != nil {
		return err
	}
	return errors.Join(s.scaler.Step(s.step), s.scaler.Update())
}

// learned is what the run has come to.
func (s *emulatedRun) learned() (list []any) {
	s.t.Helper()
	st, err := s.scaler.State()
	require.NoError(s.t, err)
	d, err := s.opt.StateDict()
	require.NoError(s.t, err)
	list = append(list, st)
	for i, p := range s.ps {
		list = append(list, values(s.t, p.Tensor()), d.State[i].Step)
		for _, name := range []string{"exp_avg", "exp_avg_sq", "momentum_buffer"} {
			if x := d.State[i].Tensors[name]; x != nil {
				list = append(list, values(s.t, x))
			}
		}
	}
	return list
}

// inputs are those of some iterations; one overflows.
var inputs = [][]float32{
	{1, 2, 3, 4, 5, 6}, {-1, 0.25, 0, 3, -2, 0.125}, {1, 1, float32(math.Inf(1)), 0, 0, 0}, {2, 1, -1, 0, 0, 1}, {0.5, 0, 0, 0, 2, 1},
}

var emulatedOptimizers = []string{"sgd", "sgd momentum", "adamw", "lion"}

// blocking are the driver's functions that wait for it.
func blocking(calls map[string]int) (n int) {
	for name, count := range calls {
		if strings.Contains(name, "Synchronize") || strings.Contains(name, "DtoH") || strings.Contains(name, "Query") {
			n += count
		}
	}
	return n
}

func TestFused_IterationsOnTheDriverNeitherWaitNorRead(t *testing.T) {
	newRun := onEmulator(t)
	for _, name := range emulatedOptimizers {
		s := newRun(fusedOptimizers[name])
		require.NoError(t, s.iterate())
		before := s.emu.Calls()
		for range 3 {
			require.NoError(t, s.iterate())
		}
		after := s.emu.Calls()
		require.Greater(t, after["cuLaunchKernel"], before["cuLaunchKernel"], "%v", after)
		require.Equal(t, blocking(before), blocking(after), "%v", after)
		scaleOf(t, s.scaler)
		require.Greater(t, blocking(s.emu.Calls()), blocking(after), "reading does")
	}
}

func TestFused_ACapturedIterationRepeatsWhatItIsAndCounts(t *testing.T) {
	newRun := onEmulator(t)
	for _, name := range emulatedOptimizers {
		eager, captured := newRun(fusedOptimizers[name]), newRun(fusedOptimizers[name])
		for _, s := range []*emulatedRun{eager, captured} { // makes the state
			require.NoError(t, tensor.CopyFromSlice(s.x, inputs[0]))
			require.NoError(t, s.iterate())
		}
		held := captured.allocated()
		graph, err := captured.alloc.CaptureGraph(captured.exec.Stream(), captured.iterate)
		require.NoError(t, err)
		require.Equal(t, held, captured.allocated(), "an iteration releases what it takes")
		require.Equal(t, eager.learned(), captured.learned(), "nothing ran")
		for i, x := range inputs {
			require.NoError(t, tensor.CopyFromSlice(eager.x, x))
			require.NoError(t, tensor.CopyFromSlice(captured.x, x))
			require.NoError(t, eager.iterate())
			require.NoError(t, graph.Replay(captured.exec.Stream()))
			require.Equal(t, eager.learned(), captured.learned(), "%s, iteration %d", name, i)
		}
		require.Equal(t, 100*3*0.5*3, scaleOf(t, captured.scaler), "grown, backed off, grown")
		require.NoError(t, errors.Join(captured.dev.Synchronize(context.Background()), graph.Close()))
	}
}

// The kernels compute what depends on a counter as the host does, to the bit.
func TestFused_StepsOnTheDriverAreThoseThatTheHostCounts(t *testing.T) {
	newRun := onEmulator(t)
	for _, name := range []string{"sgd momentum", "adam", "amsgrad", "adagrad", "rmsprop", "lion"} {
		counted, host := newRun(fusedOptimizers[name]), newRun(fusedOptimizers[name])
		host.step = &unfused{host.opt}
		for _, x := range inputs {
			require.NoError(t, tensor.CopyFromSlice(counted.x, x))
			require.NoError(t, tensor.CopyFromSlice(host.x, x))
			require.NoError(t, counted.iterate())
			require.NoError(t, host.iterate())
			require.Equal(t, host.learned(), counted.learned(), name)
		}
	}
}
