package autograd_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// gradients are those of the inputs for which wanted says so, nil for others, of the sum of the result times numbers that differ.
func (c gradientCase) gradients(r *rig, inputs []*tensor.Tensor, wanted func(i int) bool) [][]float64 {
	r.t.Helper()
	g := r.graph(autograd.WithGenerator(tensor.NewGenerator(7)))
	defer g.Release()
	leaves := make(vars, len(inputs))
	for i, x := range inputs {
		if x.DType().IsFloat() && wanted(i) {
			leaves[i] = g.Input(x, autograd.RequiresGrad())
		} else {
			leaves[i] = g.Input(x)
		}
	}
	out := c.f(leaves)
	factors := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.RandN(e, tensor.NewGenerator(3), out.DType(), out.Shape()...)
	})
	require.NoError(r.t, g.Err())
	if loss := out.Mul(factors).Sum(nil, false); loss.RequiresGrad() {
		require.NoError(r.t, loss.Backward())
	}
	grads := make([][]float64, len(inputs))
	for i, v := range leaves {
		if grad := v.Grad(); grad != nil {
			grads[i] = values(r.t, grad)
		}
	}
	return grads
}

// What an operation saves and computes depends on which inputs want a gradient. It must not change what they get.
func TestGradients_OfOneInputAloneAreThoseAmongOthers(t *testing.T) {
	for _, c := range gradientCases {
		t.Run(strings.TrimSpace(c.op+" "+c.note), func(t *testing.T) {
			r := onHost(t)
			inputs := c.make(r)
			all := c.gradients(r, inputs, func(int) bool { return true })
			for only := range inputs {
				alone := c.gradients(r, inputs, func(i int) bool { return i == only })
				for i := range inputs {
					if i != only {
						require.Nil(t, alone[i], "input %d for input %d", i, only)
						continue
					}
					require.InDeltaSlice(t, all[i], alone[i], 1e-12, "input %d", i)
				}
			}
		})
	}
}
