package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// Hooks of what a checkpointed function makes are called once in a pass with CreateGraph, as in any other, and what they replace counts.
func TestCheckpoint_CallsHooksWithin(t *testing.T) {
	for name, opts := range map[string][]autograd.BackwardOption{"plain": nil, "create graph": {autograd.CreateGraph()}} {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
			defer g.Release()
			value, err := tensor.FromSlice(r.exec, []float64{1, 2, 3})
			require.NoError(t, err)
			defer value.Release()
			x := g.Input(value, autograd.RequiresGrad())
			calls, inputs := 0, 0
			x.RegisterVariableHook(func(grad variable) variable { inputs++; return grad })
			y := autograd.Checkpoint(func(in []variable) variable {
				h := in[0].MulScalar(2)
				if h.RequiresGrad() { // not in the first run
					h.RegisterVariableHook(func(grad variable) variable { calls++; return grad.MulScalar(10) })
				}
				return h.Square()
			}, x).Sum(nil, false)
			require.NoError(t, y.Backward(opts...))
			require.Equal(t, []int{1, 1}, []int{calls, inputs})
			grad := x.Grad()
			require.NotNil(t, grad)
			got, err := grad.Float64s()
			require.NoError(t, err)
			require.Equal(t, []float64{80, 160, 240}, got, "2*(2x)*2, ten times")
		})
	}
}
