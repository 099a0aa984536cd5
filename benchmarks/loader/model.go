package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// learner is a small network and its optimizer.
type learner struct {
	net  *nn.SequentialModule
	opt  *optim.Grouped
	loss *tensor.Tensor // of the last step
}

// newLearner starts with the same weights each time.
func newLearner(e tensor.Exec, size int) (*learner, error) {
	eighth := size / 8 // the images have half the size, and there are two strides
	l := &learner{net: nn.Sequential(
		nn.Conv2d(3, 16, 3, nn.Stride(2), nn.Padding(1)), nn.ReLU(), nn.Conv2d(16, 32, 3, nn.Stride(2), nn.Padding(1)), nn.ReLU(),
		nn.Flatten(), nn.Linear(32*eighth*eighth, classes))}
	if err := l.net.To(e.Device(), nn.Seed(1)); err != nil {
		return nil, err
	}
	l.opt = optim.Adam(l.net.Parameters())
	return l, nil
}

func (l *learner) release() {
	l.loss.Release()
	l.opt.Release()
	l.net.Release()
}

// step enqueues a training step, and waits for nothing.
func (l *learner) step(x, y *tensor.Tensor) error {
	g := autograd.NewGraph(x.Device())
	defer g.Release()
	loss := l.net.Forward(g.Input(x)).CrossEntropy(g.Input(y)).Keep()
	if err := loss.Backward(); err != nil {
		return err
	}
	if err := l.opt.Step(); err != nil {
		return err
	}
	l.opt.ZeroGrad()
	last, err := loss.Take()
	if err != nil {
		return err
	}
	l.loss.Release()
	l.loss = last
	return nil
}
