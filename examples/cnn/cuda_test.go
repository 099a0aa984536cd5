package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/examples/internal/classify"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

// small trains a network of few channels on digits cut to 8 by 8 pixels: two steps of an epoch, the last one on fewer digits.
func small(t *testing.T, dev device.Device) *classify.Report {
	t.Helper()
	all, _, err := dataset.Load("")
	require.NoError(t, err)
	s, err := session.On(dev, 1)
	require.NoError(t, err)
	model := func(rows, cols int) (nn.Layer, error) { return network(rows, cols, 2) }
	o := classify.Options{Epochs: 1, Batch: 4, Seed: 1, LR: 1e-2, Schedule: classify.OneCycle}
	r, err := classify.Train(s, o, model, middle(all, 0, 7), middle(all, 7, 12), io.Discard, io.Discard)
	require.NoError(t, err)
	return r
}

// middle cuts the middle of some digits out.
func middle(s dataset.Set, from, to int) dataset.Set {
	const size, at = 8, 10
	cut := dataset.Set{Labels: s.Labels[from:to], Rows: size, Cols: size}
	for i := from; i < to; i++ {
		for y := range size {
			row := (at+y)*s.Cols + at
			cut.Images = append(cut.Images, s.Image(i)[row:row+size]...)
		}
	}
	return cut
}

func TestCUDA_LearnsWhatTheHostDoes(t *testing.T) {
	dev := host.New(host.Capacity(64 << 20))
	defer func() { require.NoError(t, dev.Close()) }()
	want := small(t, dev)
	emulated, rig := emulatedtest.New(t)
	for _, greedy := range []bool{false, true} {
		rig.Greedy(greedy)
		got := small(t, emulated)
		require.InEpsilon(t, want.FirstLoss, got.FirstLoss, 1e-5)
		require.InEpsilon(t, want.LastLoss, got.LastLoss, 1e-3)
		require.Equal(t, want.Accuracy, got.Accuracy)
		require.Equal(t, 2, got.Steps)
		require.Equal(t, want.Leaf, got.Leaf)
		require.Equal(t, got.Leaf, got.AfterRelease)
		require.Zero(t, got.AtEnd)
	}
}
