package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/internal/lm"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/internal/text"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

// losses trains a tiny model on a device, and returns the losses of its steps and of the text that it was not trained on.
func losses(t *testing.T, dev device.Device, c lm.Config) []float64 {
	t.Helper()
	corpus, err := text.Load("")
	require.NoError(t, err)
	s, err := session.On(dev, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(nil)) }()
	m, err := lm.New(s, c, corpus)
	require.NoError(t, err)
	p, err := m.Train("", c.Steps, io.Discard, nil)
	require.NoError(t, err)
	last, err := m.Validate()
	require.NoError(t, err)
	m.Finish()
	require.Zero(t, s.Memory.AtEnd)
	return append(p.Losses, last)
}

func TestGraph_HasTheLossesOfASessionWithout(t *testing.T) {
	dev, rig := emulatedtest.NewPTX(t)
	for precision, checkpoint := range map[string]bool{"off": true, "fp16": false} {
		c := lm.Config{Layers: 1, Width: 16, Heads: 2, Seq: 8, Batch: 2, Dropout: 0.1, Steps: 7, Seed: 1, LR: 0.05, AMP: precision, Checkpoint: checkpoint}
		want := losses(t, dev, c)
		c.Graph = true
		before := rig.Calls()["cuGraphLaunch"]
		require.Equal(t, want, losses(t, dev, c))
		require.Equal(t, before+4, rig.Calls()["cuGraphLaunch"], "three steps are eager ones")
	}
}

func TestRun_GraphChangesNoNumbers(t *testing.T) {
	args := []string{"-steps", "6", "-dropout", "0.1", "-amp", "fp16"}
	plain, graph := figures(t, args...), figures(t, append(args, "-graph")...)
	require.Equal(t, plain.ValLoss, graph.ValLoss)
	require.Equal(t, plain.TrainLoss, graph.TrainLoss)
}
