package stepgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// newImages is newTraining of a convolution.
func newImages(t *testing.T, dev device.Device) *training {
	t.Helper()
	r := &training{t: t, dev: dev, gen: tensor.NewGenerator(5), scaler: amp.NewGradScaler(amp.Enabled(false))}
	r.model = nn.Sequential(nn.Unflatten(1, 3, 1, 2), nn.Conv2d(3, outputs, 0, nn.KernelSize(1, 2)), nn.Flatten())
	require.NoError(t, r.model.To(dev, nn.Seed(1)))
	r.opt = adamW(r.model.Parameters())
	var err error
	r.step, err = stepgraph.New(dev, r.run, stepgraph.Modules(r.model), stepgraph.WithGenerator(r.gen))
	require.NoError(t, err)
	return r
}

// A model that is brought to another memory format is captured anew; the optimizer's state follows it in the step that runs before that.
func TestStep_IsCapturedAnewInAnotherMemoryFormat(t *testing.T) {
	dev := emulated(t)
	captured, eager := newImages(t, dev), newImages(t, dev)
	for turn := range 10 {
		if turn == 5 {
			for _, r := range []*training{captured, eager} {
				for _, p := range r.model.Parameters() {
					m, err := p.Move(p.Tensor().Exec(), 0) // where the step has it
					require.NoError(t, err)
					require.NoError(t, m.InFormat(tensor.ChannelsLast))
					m.Commit()
				}
			}
		}
		want, err := eager.try(turn, rows, eager.step.Eager)
		require.NoError(t, err)
		require.Equal(t, want, captured.take(turn), "turn %d", turn)
		require.Equal(t, eager.state(), captured.state(), "turn %d", turn)
	}
	require.Equal(t, 2, captured.step.Stats().Captures)
	require.Greater(t, captured.step.Stats().Replays, 4)
	captured.release()
	eager.release()
	nothingLeft(t, dev)
}
