package autograd_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A batch that is too large for the device goes through in parts. Each has a graph of its own, which is gone before the next one
// comes; the gradients add up in the parameters. Then they are clipped, and the optimizer and its schedule take a step.
func Example_gradientAccumulation() {
	dev := host.Default()
	model := nn.Linear(4, 1)
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters(), optim.LR(0.01))
	defer opt.Release()
	schedule := optim.LinearLR(opt, 0.5, 1, 2)
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.RandN(e, tensor.NewGenerator(2), tensor.Float32, 12, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()

	const parts = 3
	part := func(k int) error {
		g := autograd.NewGraph(dev)
		defer g.Release()
		in := g.Input(x).Narrow(0, k*4, 4)
		out := model.Forward(in)
		return out.Mul(out).Mean(nil, false).DivScalar(parts).Backward()
	}
	for range 2 {
		for k := range parts {
			if err := part(k); err != nil {
				log.Fatal(err)
			}
		}
		norm, err := optim.ClipGradNorm(model.Parameters(), 0.1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("clipped: %v, learning rate %v\n", norm > 0.1, opt.LR(0))
		if err := opt.Step(); err != nil {
			log.Fatal(err)
		}
		opt.ZeroGrad()
		if err := schedule.Step(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// clipped: true, learning rate 0.005
	// clipped: true, learning rate 0.0075
}
