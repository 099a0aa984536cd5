package amp_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// mixedRun is a training run in mixed precision.
type mixedRun struct {
	*rig
	model  *nn.SequentialModule
	opt    *optim.Grouped
	scaler *amp.GradScaler
	gen    *tensor.Generator
}

func newMixedRun(t *testing.T, seed uint64) *mixedRun {
	t.Helper()
	r := &mixedRun{rig: onHost(t), gen: tensor.NewGenerator(seed)}
	r.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
	require.NoError(t, r.model.To(r.dev, nn.WithGenerator(r.gen), nn.WithAllocator(r.alloc)))
	r.opt = optim.AdamW(r.model.Parameters(), optim.LR(0.01))
	// The first scale overflows in float16, and the scale grows again after two steps.
	r.scaler = amp.NewGradScaler(amp.InitScale(1<<20), amp.GrowthInterval(2))
	t.Cleanup(func() { r.opt.Release(); r.model.Release(); r.scaler.Release() })
	return r
}

func (r *mixedRun) checkpoint() *checkpoint.Checkpoint {
	return checkpoint.New().Add("model", checkpoint.Module(r.model)).Add("optimizer", checkpoint.Optimizer(r.opt)).
		Add("scaler", checkpoint.State(r.scaler)).Add("generator", checkpoint.Generator(r.gen))
}

func (r *mixedRun) train(n int) {
	r.t.Helper()
	for range n {
		g := r.graph(amp.Autocast(tensor.Float16), autograd.WithGenerator(r.gen))
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandN(e, r.gen, tensor.Float32, 5, 6) })
		loss := r.model.Forward(x).MSELoss(g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			return tensor.RandN(e, r.gen, tensor.Float32, 5, 1)
		}), autograd.MeanReduction)
		require.NoError(r.t, r.scaler.Scale(loss).Backward())
		g.Release()
		require.NoError(r.t, r.scaler.Step(r.opt))
		require.NoError(r.t, r.scaler.Update())
		r.opt.ZeroGrad()
	}
}

func (r *mixedRun) bytes() []byte {
	r.t.Helper()
	var file bytes.Buffer
	require.NoError(r.t, r.checkpoint().Write(context.Background(), &file))
	return file.Bytes()
}

func TestGradScaler_GoesOnFromACheckpointBitForBit(t *testing.T) {
	const n = 5
	whole := newMixedRun(t, 1)
	whole.train(2 * n)
	first, second := newMixedRun(t, 1), newMixedRun(t, 7)
	first.train(n)
	second.train(1) // its scale is on the device already
	require.NoError(t, second.checkpoint().Read(context.Background(), bytes.NewReader(first.bytes())))
	second.train(n)
	require.Equal(t, whole.bytes(), second.bytes())
}
