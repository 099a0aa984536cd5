package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// network is a model that can be tried, and what it learns from.
type network struct {
	name, about string
	checkpoints bool // its layers can be checkpointed
	model       func(checkpoint bool) (nn.Layer, error)
	sample      []int // shape of a sample
	dtype       tensor.DType
	classes     []int // shape of a sample's classes
}

// networks are those of the other examples and of package models, and what people know besides.
var networks = []network{
	{"gpt2", "GPT-2 of 124 million parameters, 1,024 tokens", true, gpt(50257, 1024, 12, 768, 12, true), []int{1024}, tensor.Int64, []int{1024}},
	{"gpt2-medium", "GPT-2 of 355 million parameters, 1,024 tokens", true, gpt(50257, 1024, 24, 1024, 16, true), []int{1024}, tensor.Int64, []int{1024}},
	{"gpt", "that of examples/gpt: 128 characters, 4 layers of 128", true, gpt(96, 128, 4, 128, 4, false), []int{128}, tensor.Int64, []int{128}},
	{"resnet50", "ResNet-50, images of 224 x 224", true, resnet(models.ResNetConfig{Channels: 3, Classes: 1000, Widths: []int{64, 128, 256, 512},
		Stages: []int{3, 4, 6, 3}, Bottleneck: true, Large: true}), []int{3, 224, 224}, tensor.Float32, nil},
	{"resnet18", "ResNet-18, images of 32 x 32", true, resnet(models.ResNetConfig{Channels: 3, Classes: 10, Widths: []int{64, 128, 256, 512}, Blocks: 2}),
		[]int{3, 32, 32}, tensor.Float32, nil},
	{"cnn", "that of examples/cnn: images of 28 x 28", true, resnet(models.ResNetConfig{Channels: 1, Classes: 10, Widths: []int{16, 32, 64}, Blocks: 1}),
		[]int{1, 28, 28}, tensor.Float32, nil},
	{"lstm", "a language model of two LSTM layers of 650 units, 10,000 words, 35 of them", false, lstm(10000, 650, 2), []int{35}, tensor.Int64, []int{35}},
	{"mlp", "that of examples/mnist: 784, 512 and 10 units", false, mlp(784, 512, 10), []int{784}, tensor.Float32, nil},
}

func names() (all []string) {
	for i := range networks {
		all = append(all, networks[i].name)
	}
	return all
}

// find is the network of a name, or nil.
func find(name string) *network {
	for i := range networks {
		if networks[i].name == name {
			return &networks[i]
		}
	}
	return nil
}

func gpt(vocab, context, layers, width, heads int, tied bool) func(bool) (nn.Layer, error) {
	return func(checkpoint bool) (nn.Layer, error) {
		m, err := models.NewGPT(models.GPTConfig{Vocab: vocab, Context: context, Layers: layers, Width: width, Heads: heads, Tied: tied, Checkpoint: checkpoint})
		return m, err
	}
}

// resnet makes networks of which each block can be checkpointed.
func resnet(c models.ResNetConfig) func(bool) (nn.Layer, error) {
	return func(checkpoint bool) (nn.Layer, error) {
		m, err := models.NewResNet(c)
		if err != nil || !checkpoint {
			return m, err
		}
		blocks := m.Body.(*nn.SequentialModule)
		for i := range blocks.Len() {
			if err := blocks.Set(i, nn.Checkpointed(blocks.At(i))); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
}

func lstm(words, units, layers int) func(bool) (nn.Layer, error) {
	return func(bool) (nn.Layer, error) {
		recurrent := nn.LSTM(units, units, nn.Layers(layers), nn.BatchFirst())
		return nn.Sequential(nn.Embedding(words, units), recurrent, nn.Linear(units, words)), nil
	}
}

func mlp(in, hidden, out int) func(bool) (nn.Layer, error) {
	return func(bool) (nn.Layer, error) {
		return nn.Sequential(nn.Linear(in, hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, out)), nil
	}
}

// batch makes a batch's samples and classes: zeros, which is what a simulated device has.
func (n *network) batch(e tensor.Exec, size int) (x, y *tensor.Tensor, err error) {
	if x, err = tensor.Zeros(e, n.dtype, append([]int{size}, n.sample...)...); err != nil {
		return nil, nil, err
	}
	if y, err = tensor.Zeros(e, tensor.Int64, append([]int{size}, n.classes...)...); err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, y, nil
}

// loss is the cross entropy of all classes of a batch.
func loss(g *autograd.Graph, m nn.Layer, x, y *tensor.Tensor) *autograd.Variable {
	return g.Scope(func() *autograd.Variable {
		logits := m.Forward(g.Input(x))
		return logits.Reshape(y.Len(), logits.Dim(-1)).CrossEntropy(g.Input(y).Reshape(y.Len()))
	})
}
