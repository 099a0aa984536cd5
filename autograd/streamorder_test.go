package autograd_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Gradients that are there already may be in use on the leaf's stream when backward begins, and are used there when it has ended.
func TestBackward_BeginsAfterTheLeafsStreamAndEndsBeforeIt(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc := memory.NewDirect(dev)
	leaf, own := must2(dev.NewStream()), must2(dev.NewStream())
	e, err := tensor.On(dev, tensor.WithAllocator(alloc), tensor.WithStream(leaf))
	require.NoError(t, err)
	p := autograd.NewParameter("p", must(tensor.Ones(e, tensor.Float32, 4)))
	g := autograd.NewGraph(dev, autograd.WithAllocator(alloc), autograd.WithStream(own))
	loss := g.Param(p).Exp().Sum(nil, false)
	require.NoError(t, loss.Backward(autograd.RetainGraph()))
	require.NoError(t, p.Grad().MulScalarInPlace(0.5)) // on the leaf's stream

	var calls []sim.Call
	dev.Inject(func(c sim.Call) error {
		switch c.Kind {
		case sim.CallEventRecord, sim.CallStreamWait, sim.CallSubmit, sim.CallFill, sim.CallCopy:
			calls = append(calls, c)
		}
		return nil
	})
	require.NoError(t, loss.Backward())
	dev.Inject(nil)

	type step struct {
		kind   sim.CallKind
		leaf   bool
		within bool
	}
	of := func(c sim.Call) step {
		return step{kind: c.Kind, leaf: c.Stream == leaf.ID(), within: c.Stream == own.ID()}
	}
	require.Equal(t, step{kind: sim.CallEventRecord, leaf: true}, of(calls[0]))
	require.Equal(t, step{kind: sim.CallStreamWait, within: true}, of(calls[1]))
	n := len(calls)
	require.Equal(t, step{kind: sim.CallEventRecord, within: true}, of(calls[n-2]))
	require.Equal(t, step{kind: sim.CallStreamWait, leaf: true}, of(calls[n-1]))
	require.True(t, slices.ContainsFunc(calls[2:n-2], func(c sim.Call) bool { return c.Kind == sim.CallSubmit }), "the work lies between")

	g.Release()
	p.Release()
	require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	require.NoError(t, dev.Close())
}
