package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// A module between the two hides them from each other. Numbers are the same; without gradients, what lies between is not stored.
func TestSequential_ComputesLinearAndActivationInOnePass(t *testing.T) {
	for name, activation := range map[string]func() *nn.FuncModule{"ReLU": nn.ReLU, "GELU": nn.GELU, "GELUTanh": nn.GELUTanh} {
		r := onHost(t)
		linear := nn.Linear(64, 128)
		r.place(linear, nn.Seed(1))
		x, err := tensor.RandN(r.exec, tensor.NewGenerator(2), tensor.Float32, 256, 64)
		require.NoError(t, err)
		var values, grads [2][]float64
		var peaks [2]int64
		for i, m := range []nn.Layer{nn.Sequential(linear, activation()), nn.Sequential(linear, nn.Identity(), activation())} {
			g := r.graph()
			require.NoError(t, m.Forward(g.Input(x)).Sum(nil, false).Backward())
			grads[i], err = linear.Weight.Grad().Float64s()
			require.NoError(t, err)
			linear.Weight.ZeroGrad()
			linear.Bias.ZeroGrad()
			g.Release()

			g = r.graph(autograd.NoGrad())
			r.alloc.ResetPeakStats()
			before := r.allocated()
			out, err := m.Forward(g.Input(x)).Tensor()
			require.NoError(t, err)
			peaks[i] = r.alloc.Stats().AllocatedBytes.All.Peak - before
			values[i], err = out.Float64s()
			require.NoError(t, err)
			g.Release()
		}
		x.Release()
		require.Equal(t, values[1], values[0], name)
		require.Equal(t, grads[1], grads[0], name)
		require.EqualValues(t, 256*128*4, peaks[0], name)
		require.EqualValues(t, 2*256*128*4, peaks[1], name)
	}
}
