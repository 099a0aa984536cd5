package stepgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

// emulated is a device of the emulated driver whose default stream and allocator are the process's.
func emulated(t *testing.T) device.Device {
	t.Helper()
	dev, _ := emulatedtest.NewPTX(t)
	return dev
}

func sgd(p []*autograd.Parameter) *optim.Grouped { return optim.SGD(p, optim.LR(0.05)) }

func adamW(p []*autograd.Parameter) *optim.Grouped { return optim.AdamW(p, optim.LR(0.05)) }

func TestStep_ReplaysSGD(t *testing.T) {
	dev := emulated(t)
	captured, eager := newTraining(t, dev, sgd), newTraining(t, dev, sgd)
	for turn := range 8 {
		want, err := eager.try(turn, rows, eager.step.Eager)
		require.NoError(t, err)
		require.Equal(t, want, captured.take(turn), "turn %d", turn)
		require.Equal(t, eager.state(), captured.state(), "turn %d", turn)
	}
	require.Equal(t, stepgraph.Stats{Eager: 3, Captures: 1, Replays: 5, Graphs: 1}, captured.step.Stats())
	captured.release()
	eager.release()
	nothingLeft(t, dev)
}
