package main

import (
	"errors"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// The training step of MNIST.
const (
	pixels  = 784
	hidden  = 512
	classes = 10
	batch   = 64
	warmUp  = 3 // steps that do not count: AdamW makes its state in the first
)

// trainer is a model in training, on a batch that is the same in each step but copied anew.
type trainer struct {
	dev    device.Device
	model  nn.Layer
	opt    *optim.Grouped
	images []float32
	labels []int64
	loss   float64 // of the last step; 0 where nothing is computed
}

// newTrainer makes the model and its batch from fixed seeds, so that all allocators see the same numbers.
func newTrainer(dev device.Device) (*trainer, error) {
	t := &trainer{dev: dev, images: make([]float32, batch*pixels), labels: make([]int64, batch)}
	numbers := rand.New(rand.NewPCG(1, 2))
	for i := range t.images {
		t.images[i] = float32(numbers.NormFloat64())
	}
	for i := range t.labels {
		t.labels[i] = numbers.Int64N(classes)
	}
	t.model = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, classes))
	if err := t.model.To(dev, nn.WithGenerator(tensor.NewGenerator(1))); err != nil {
		t.model.Release()
		return nil, err
	}
	t.opt = optim.AdamW(t.model.Parameters(), optim.LR(1e-3))
	return t, nil
}

// step is one training step. All that its graph made is freed when it returns.
func (t *trainer) step() (err error) {
	e, err := tensor.On(t.dev)
	if err != nil {
		return err
	}
	images, err := tensor.FromSlice(e, t.images, batch, pixels)
	if err != nil {
		return err
	}
	defer images.Release()
	labels, err := tensor.FromSlice(e, t.labels, batch)
	if err != nil {
		return err
	}
	defer labels.Release()
	g := autograd.NewGraph(t.dev)
	defer g.Release()
	loss := t.model.Forward(g.Input(images)).CrossEntropy(g.Input(labels))
	if err := loss.Keep().Backward(); err != nil {
		return err
	}
	if t.loss, err = loss.Item(); err != nil { // waits for the device
		return err
	}
	if err := t.opt.Step(); err != nil {
		return err
	}
	t.opt.ZeroGrad()
	return nil
}

func (t *trainer) steps(n int) (err error) {
	for range n {
		err = errors.Join(err, t.step())
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *trainer) release() {
	t.opt.Release()
	t.model.Release()
}
