package checkpoint_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

var _ checkpoint.StateOptimizer = (*optim.LBFGSOptimizer)(nil)

// The state of LBFGS goes through a file, and another optimizer does not take it.
func TestOptimizer_KeepsTheStateOfLBFGS(t *testing.T) {
	e, err := tensor.On(host.Default())
	require.NoError(t, err)
	value, err := tensor.FromSlice(e, []float64{1, -2, 3})
	require.NoError(t, err)
	p := autograd.NewParameter("p", value)
	defer p.Release()
	half := func() (float64, error) { // of the sum of fourth powers
		x, err := p.Tensor().Float64s()
		if err != nil {
			return 0, err
		}
		sum, grad := 0.0, make([]float64, len(x))
		for i, v := range x {
			sum, grad[i] = sum+v*v*v*v/2, 2*v*v*v
		}
		g, err := tensor.FromSlice(e, grad)
		require.NoError(t, p.SetGrad(g))
		return sum, err
	}
	defer p.ZeroGrad()
	opt, again, other := optim.LBFGS([]*autograd.Parameter{p}, optim.MaxIter(3)), optim.LBFGS([]*autograd.Parameter{p}), optim.SGD([]*autograd.Parameter{p})
	defer opt.Release()
	defer again.Release()
	_, err = opt.StepClosure(half)
	require.NoError(t, err)
	file := func(o checkpoint.StateOptimizer) *checkpoint.Checkpoint {
		c := checkpoint.New()
		c.Add("optimizer", checkpoint.Optimizer(o))
		return c
	}
	var first, second bytes.Buffer
	require.NoError(t, file(opt).Write(context.Background(), &first))
	require.Error(t, file(other).Read(context.Background(), bytes.NewReader(first.Bytes())))
	require.NoError(t, file(again).Read(context.Background(), bytes.NewReader(first.Bytes())))
	require.NoError(t, file(again).Write(context.Background(), &second))
	require.Equal(t, first.Bytes(), second.Bytes())
}
