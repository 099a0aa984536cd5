package models_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

func TestNewGPT_RefusesShapesThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(c *models.GPTConfig){
		"vocabulary is 0": func(c *models.GPTConfig) { c.Vocab = 0 },
		"context is -1":   func(c *models.GPTConfig) { c.Context = -1 },
		"layers is 0":     func(c *models.GPTConfig) { c.Layers = 0 },
		"width is 0":      func(c *models.GPTConfig) { c.Width = 0 },
		"heads is 0":      func(c *models.GPTConfig) { c.Heads = 0 },
		"a width of 4 cannot be cut into 3 heads": func(c *models.GPTConfig) { c.Heads = 3 },
		"a width of 4 cannot be cut into 8 heads": func(c *models.GPTConfig) { c.Heads = 8 },
	} {
		c := smallGPT
		change(&c)
		m, err := models.NewGPT(c)
		require.ErrorContains(t, err, want)
		require.Nil(t, m)
	}
}

func TestNewResNet_RefusesShapesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *models.ResNetConfig)
		want   string
	}{
		"no channels":        {func(c *models.ResNetConfig) { c.Channels = 0 }, "Channels:0"},
		"no classes":         {func(c *models.ResNetConfig) { c.Classes = 0 }, "Classes:0"},
		"no blocks":          {func(c *models.ResNetConfig) { c.Blocks = -1 }, "Blocks:-1"},
		"no stages":          {func(c *models.ResNetConfig) { c.Widths = nil }, "Widths:[]"},
		"a missing stage":    {func(c *models.ResNetConfig) { c.Stages = []int{1} }, "Stages:[1]"},
		"a stage of nothing": {func(c *models.ResNetConfig) { c.Stages = []int{1, 0} }, "Stages:[1 0]"},
		"an empty stage":     {func(c *models.ResNetConfig) { c.Widths = []int{2, 0} }, "stage 1 has 0 channels"},
		"an empty stem":      {func(c *models.ResNetConfig) { c.Widths = []int{-3} }, "stage 0 has -3 channels"},
	} {
		t.Run(name, func(t *testing.T) {
			config := smallResNet
			c.change(&config)
			m, err := models.NewResNet(config)
			require.ErrorContains(t, err, c.want)
			require.Nil(t, m)
		})
	}
}

// Inputs that do not fit are errors of the graph, and leave nothing behind.
func TestModels_RefuseInputsThatDoNotFit(t *testing.T) {
	dev := sim.New(1 << 30)
	e := open(t, dev)
	for name, shape := range map[string][]int{
		"gpt":    {1, smallGPT.Context + 1},
		"resnet": {1, smallResNet.Channels + 1, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			m := small(t, name, false)
			defer m.Release()
			require.NoError(t, m.To(dev))
			dtype := tensor.Float32
			if name == "gpt" {
				dtype = tensor.Int64
			}
			x, err := tensor.Zeros(e, dtype, shape...)
			require.NoError(t, err)
			defer x.Release()
			g := autograd.NewGraph(dev)
			defer g.Release()
			m.Forward(g.Input(x))
			require.Error(t, g.Err())
			require.Nil(t, m.Forward(nil))
		})
	}
}
