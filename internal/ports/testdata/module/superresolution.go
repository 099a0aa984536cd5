package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["superresolution"] = superResolution }

// superResolutionNet makes images larger by a factor: its last convolution has the pixels of each square as channels.
type superResolutionNet struct {
	nn.Base
	ReLU         *nn.FuncModule
	Conv1        *nn.ConvLayer
	Conv2        *nn.ConvLayer
	Conv3        *nn.ConvLayer
	Conv4        *nn.ConvLayer
	PixelShuffle *nn.FuncModule
}

func newSuperResolutionNet(factor int) *superResolutionNet {
	return nn.New(&superResolutionNet{
		ReLU:         nn.ReLU(),
		Conv1:        nn.Conv2d(1, 8, 5, nn.Stride(1), nn.Padding(2)),
		Conv2:        nn.Conv2d(8, 8, 3, nn.Stride(1), nn.Padding(1)),
		Conv3:        nn.Conv2d(8, 4, 3, nn.Stride(1), nn.Padding(1)),
		Conv4:        nn.Conv2d(4, factor*factor, 3, nn.Stride(1), nn.Padding(1)),
		PixelShuffle: nn.PixelShuffle(factor),
	})
}

func (n *superResolutionNet) Forward(x *autograd.Variable) *autograd.Variable {
	return n.Scope(x, func(*autograd.Graph) *autograd.Variable {
		x := n.ReLU.Forward(n.Conv1.Forward(x))
		x = n.ReLU.Forward(n.Conv2.Forward(x))
		x = n.ReLU.Forward(n.Conv3.Forward(x))
		return n.PixelShuffle.Forward(n.Conv4.Forward(x))
	})
}

// superResolution is PyTorch's example super_resolution: sub-pixel convolution, tested by the signal-to-noise ratio.
func superResolution(p *port) error {
	const factor, batch, size, batches = 2, 2, 6, 2
	model := newSuperResolutionNet(factor)
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	criterion := nn.MSELoss()
	optimizer := optim.Adam(model.Parameters(), optim.LR(0.01))
	p.train(optimizer)
	defer optimizer.Release()

	// images are a small one and the same, larger, between 0 and 1.
	images := func(g *autograd.Graph, i int) (input, target *autograd.Variable) {
		target = p.data(g, float64(i), 0.5, batch, 1, factor*size, factor*size).AddScalar(0.5)
		return target.AvgPool2d(tensor.Pool{Kernel: []int{factor}}), target
	}
	train := func(i int) error {
		g := p.graph()
		defer g.Release()
		optimizer.ZeroGrad()
		input, target := images(g, i)
		loss := criterion(model.Forward(input), target)
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := optimizer.Step(); err != nil {
			return err
		}
		return p.losses(g, loss)
	}
	test := func(i int) (float64, error) {
		g := p.graph(autograd.NoGrad())
		defer g.Release()
		input, target := images(g, i)
		mse, err := criterion(model.Forward(input), target).Item()
		return 10 * math.Log10(1/mse), err
	}
	for epoch := range 3 {
		for i := range batches {
			if err := train(batches*epoch + i); err != nil {
				return err
			}
		}
		psnr := 0.0
		for i := range batches {
			ratio, err := test(100 + i)
			if err != nil {
				return err
			}
			psnr += ratio
		}
		if err := p.step(psnr / batches); err != nil {
			return err
		}
	}
	return nil
}
