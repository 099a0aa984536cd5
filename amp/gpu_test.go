package amp_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/tensor"
)

func TestMain(m *testing.M) { os.Exit(cudatest.Main(m)) }

// losses trains a small network in mixed precision and returns the loss of each step.
func losses(t *testing.T, r *rig, half tensor.DType) (list []float64) {
	t.Helper()
	m := nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
	require.NoError(t, m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)))
	t.Cleanup(m.Release)
	opt := optim.AdamW(m.Parameters(), optim.LR(0.02))
	t.Cleanup(opt.Release)
	scaler := amp.NewGradScaler(amp.InitScale(1024))
	t.Cleanup(func() { scaler.Release() })
	x, y := r.random(2, tensor.Float32, 16, 8), r.random(3, tensor.Float32, 16, 8)
	for range 8 {
		g := r.graph(amp.Autocast(half))
		loss := m.Forward(g.Input(x)).MSELoss(g.Input(y), autograd.MeanReduction).Keep()
		require.NoError(t, scaler.Backward(loss))
		require.NoError(t, scaler.Step(opt))
		opt.ZeroGrad()
		require.NoError(t, scaler.Update())
		v, err := loss.Item()
		require.NoError(t, err)
		list = append(list, v)
		g.Release()
	}
	return list
}

// TestGPU_TrainsInMixedPrecisionAsTheHostDoes allows for products of 16 bits that are summed in another order.
func TestGPU_TrainsInMixedPrecisionAsTheHostDoes(t *testing.T) {
	for _, half := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		t.Run(half.String(), func(t *testing.T) {
			there := newRig(t, cudatest.GPU(t))
			want, got := losses(t, onHost(t), half), losses(t, there, half)
			require.Less(t, got[len(got)-1], got[0])
			require.InDeltaSlice(t, want, got, 0.05)
		})
	}
}
