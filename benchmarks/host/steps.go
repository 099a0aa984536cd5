package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// stepCases are whole training steps, of which each computes the loss and its gradients, takes the optimizer's step and reads the loss, and the decoding of a
// token. Figures are of a step, and of a token.
func stepCases() []workload {
	return []workload{
		{"step mlp", 0, func(s *scene) (func() error, error) {
			m := nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
			return s.training(m, adamW, 10, []int{128, 784}, []int{128})
		}},
		{"step resnet18", 0, func(s *scene) (func() error, error) {
			m, err := models.NewResNet(models.ResNetConfig{Channels: 3, Classes: 10, Widths: []int{64, 128, 256, 512}, Blocks: 2})
			if err != nil {
				return nil, err
			}
			return s.training(m, momentum, 10, []int{16, 3, 32, 32}, []int{16})
		}},
		{"step lstm", 0, func(s *scene) (func() error, error) {
			return s.training(nn.New(&labeller{LSTM: nn.LSTM(128, 256, nn.Layers(2), nn.BatchFirst()), Head: nn.Linear(256, 64)}), adamW, 64, []int{16, 64, 128}, []int{16, 64})
		}},
		{"step gpt", 0, func(s *scene) (func() error, error) { return s.trainingGPT(0) }},
		{"step gpt with dropout", 0, func(s *scene) (func() error, error) { return s.trainingGPT(0.1) }},
		{"decode gpt", 0, (*scene).decoding},
	}
}

const (
	vocabulary = 1024
	length     = 128 // of a sequence
)

func gptConfig(dropout float64) models.GPTConfig {
	return models.GPTConfig{Vocab: vocabulary, Context: 4 * length, Layers: 4, Width: 256, Heads: 4, Dropout: dropout, Tied: true}
}

func adamW(p []*autograd.Parameter) *optim.Grouped { return optim.AdamW(p, optim.LR(1e-4)) }

func momentum(p []*autograd.Parameter) *optim.Grouped {
	return optim.SGD(p, optim.LR(1e-3), optim.Momentum(0.9))
}

// labeller says a class for each place of a sequence.
type labeller struct {
	nn.Base
	LSTM *nn.RNNLayer
	Head *nn.LinearLayer
}

func (m *labeller) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Head.Forward(m.LSTM.Forward(x))
}

func (s *scene) trainingGPT(dropout float64) (func() error, error) {
	m, err := models.NewGPT(gptConfig(dropout))
	if err != nil {
		return nil, err
	}
	x, err := s.classes(vocabulary, 8, length)
	if err != nil {
		return nil, err
	}
	return s.trainingOn(m, adamW, vocabulary, x, []int{8, length})
}

// training are steps of a model on numbers from -1 to 1 and classes of them.
func (s *scene) training(m nn.Layer, optimizer func([]*autograd.Parameter) *optim.Grouped, classes int, input, target []int) (func() error, error) {
	x, err := s.uniform(-1, 1, input...)
	if err != nil {
		return nil, err
	}
	return s.trainingOn(m, optimizer, classes, x, target)
}

func (s *scene) trainingOn(m nn.Layer, optimizer func([]*autograd.Parameter) *optim.Grouped, classes int, x *tensor.Tensor, target []int) (func() error, error) {
	if err := s.model(m); err != nil {
		return nil, err
	}
	y, err := s.classes(classes, target...)
	if err != nil {
		return nil, err
	}
	opt := optimizer(m.Parameters())
	s.ends = append(s.ends, opt.Release)
	rows := tensor.Shape(target).Len()
	return func() error {
		g := autograd.NewGraph(x.Device())
		defer g.Release()
		loss := m.Forward(g.Input(x)).Reshape(rows, classes).CrossEntropy(g.Input(y).Reshape(rows))
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		opt.ZeroGrad()
		_, err := loss.Item()
		return err
	}, nil
}

// decoding is a token after 3*length others.
func (s *scene) decoding() (func() error, error) {
	m, err := models.NewGPT(gptConfig(0))
	if err != nil {
		return nil, err
	}
	if err := s.model(m); err != nil {
		return nil, err
	}
	nn.Eval(m)
	past, err := s.classes(vocabulary, 1, 3*length)
	if err != nil {
		return nil, err
	}
	token, err := s.classes(vocabulary, 1, 1)
	if err != nil {
		return nil, err
	}
	cache, err := m.Cache(s.Device(), 1)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, cache.Release)
	step := func(x *tensor.Tensor) error {
		g := autograd.NewGraph(s.Device(), autograd.NoGrad())
		defer g.Release()
		_, err := m.Decode(g.Input(x), cache).Narrow(1, -1, 1).ArgMax(-1, false).Item()
		return err
	}
	if err := step(past); err != nil {
		return nil, err
	}
	return func() error {
		if err := cache.Truncate(3 * length); err != nil {
			return err
		}
		return step(token)
	}, nil
}

// model gives a model its values, until the case ends.
func (s *scene) model(m nn.Layer) error {
	s.ends = append(s.ends, m.Release)
	return m.To(s.Device(), nn.Seed(1))
}

// classes are random classes, or tokens.
func (s *scene) classes(n int, shape ...int) (*tensor.Tensor, error) {
	return s.keep(tensor.RandInt(s.Exec, tensor.NewGenerator(2), 0, int64(n), tensor.Int64, shape...))
}
