package autograd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// capturedStep is a forward and a backward pass over buffers that stay where they are: what a captured graph can repeat.
type capturedStep struct {
	rig      *rig
	caching  *memory.Caching
	x        *tensor.Tensor
	w        *autograd.Parameter
	loss, dw *tensor.Tensor // the results
}

func newCapturedStep(t *testing.T) *capturedStep {
	t.Helper()
	dev, emu := emulatedtest.New(t)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	e, err := tensor.On(dev, tensor.WithAllocator(alloc), tensor.WithStream(emu.Stream(dev)))
	require.NoError(t, err)
	s := &capturedStep{rig: &rig{t: t, dev: dev, alloc: alloc, exec: e}, caching: alloc}
	of := keep(t)
	s.x, s.loss = of(tensor.FromSlice(e, make([]float32, 6), 2, 3)), of(tensor.FromSlice(e, []float32{0}))
	s.dw = of(tensor.FromSlice(e, make([]float32, 3)))
	s.w = autograd.NewParameter("w", of(tensor.FromSlice(e, []float32{0.5, -1, 2})))
	return s
}

// run enqueues the step on the stream.
func (s *capturedStep) run() error {
	g := autograd.NewGraph(s.rig.dev, autograd.WithStream(s.rig.exec.Stream()), autograd.WithAllocator(s.rig.alloc))
	defer g.Release()
	defer s.w.ZeroGrad()
	h := g.Input(s.x).Mul(g.Param(s.w)).Sigmoid()
	loss := h.Mul(h).Mean(nil, false).Keep()
	if err := loss.Backward(); err != nil {
		return err
	}
	value, err := loss.Tensor()
	if err != nil {
		return err
	}
	return errors.Join(s.loss.CopyFrom(value), s.dw.CopyFrom(s.w.Grad()))
}

// results waits for the stream and returns what the step has left.
func (s *capturedStep) results() (list []float32) {
	s.rig.t.Helper()
	for _, r := range []*tensor.Tensor{s.loss, s.dw} {
		values, err := tensor.ToSlice[float32](r)
		require.NoError(s.rig.t, err)
		list = append(list, values...)
	}
	return list
}

// set changes the input, and makes the results wrong.
func (s *capturedStep) set(x ...float32) {
	s.rig.t.Helper()
	require.NoError(s.rig.t, errors.Join(tensor.CopyFromSlice(s.x, x), s.loss.FillInPlace(-1), s.dw.FillInPlace(-1)))
}

// test_graph_make_graphed_callables_*: a captured forward and backward pass does what the pass does when it is run, for inputs that
// were not there when it was captured; its memory goes back when the graph is closed.
func TestCaptured_ForwardAndBackwardEqualEager(t *testing.T) {
	s := newCapturedStep(t)
	inputs := [][]float32{{1, 2, 3, 4, 5, 6}, {-1, 0.25, 0, 3, -2, 0.125}, {1e3, -1e3, 1, 0, 0, 0}}
	var want [][]float32
	for _, x := range inputs {
		s.set(x...)
		require.NoError(t, s.run())
		want = append(want, s.results())
	}
	require.NotEqual(t, want[0], want[1])
	held, reserved := s.rig.allocated(), s.caching.Stats().ReservedBytes.All.Current
	g, err := s.caching.CaptureGraph(s.rig.exec.Stream(), s.run)
	require.NoError(t, err)
	require.Equal(t, held, s.rig.allocated(), "the step releases what it takes")
	for range 2 {
		for i, x := range inputs {
			s.set(x...)
			require.NoError(t, g.Replay(s.rig.exec.Stream()))
			require.Equal(t, want[i], s.results())
		}
	}
	require.Greater(t, s.caching.Stats().ReservedBytes.All.Current, reserved)
	require.NoError(t, errors.Join(s.rig.dev.Synchronize(context.Background()), g.Close(), s.caching.EmptyCache()))
	require.LessOrEqual(t, s.caching.Stats().ReservedBytes.All.Current, reserved)
}
