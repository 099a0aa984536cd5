package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["dcgan"] = dcgan }

// dcgan is PyTorch's example of that name: a generator and a discriminator of convolutions, trained against each other.
func dcgan(p *port) error {
	const batch, latent, features = 4, 6, 4
	generator := nn.Sequential(
		nn.ConvTranspose2d(latent, 2*features, 2, nn.NoBias()), nn.BatchNorm2d(2*features), nn.ReLU(),
		nn.ConvTranspose2d(2*features, features, 4, nn.Stride(2), nn.Padding(1), nn.NoBias()), nn.BatchNorm2d(features), nn.ReLU(),
		nn.ConvTranspose2d(features, 3, 4, nn.Stride(2), nn.Padding(1), nn.NoBias()), nn.Tanh())
	discriminator := nn.Sequential(
		nn.Conv2d(3, features, 4, nn.Stride(2), nn.Padding(1), nn.NoBias()), nn.LeakyReLU(0.2),
		nn.Conv2d(features, 2*features, 4, nn.Stride(2), nn.Padding(1), nn.NoBias()), nn.BatchNorm2d(2*features), nn.LeakyReLU(0.2),
		nn.Conv2d(2*features, 1, 2, nn.NoBias()), nn.Sigmoid())
	for _, m := range []nn.Module{generator, discriminator} {
		if err := p.place(m); err != nil {
			return err
		}
		defer m.Release()
	}
	optD := optim.Adam(discriminator.Parameters(), optim.LR(0.002), optim.Betas(0.5, 0.999))
	optG := optim.Adam(generator.Parameters(), optim.LR(0.002), optim.Betas(0.5, 0.999))
	p.train(optD, optG)
	defer optD.Release()
	defer optG.Release()

	step := func(i int) error {
		g := p.graph()
		defer g.Release()
		real, fake := g.Full(1, tensor.Float64, batch), g.Full(0, tensor.Float64, batch)

		optD.ZeroGrad()
		images := p.data(g, float64(i), 1, batch, 3, 8, 8)
		lossReal := discriminator.Forward(images).Reshape(-1).BCELoss(real, autograd.MeanReduction)
		if err := lossReal.Backward(); err != nil {
			return err
		}
		made := generator.Forward(p.data(g, 10+float64(i), 1, batch, latent, 1, 1))
		lossFake := discriminator.Forward(made.Detach()).Reshape(-1).BCELoss(fake, autograd.MeanReduction)
		if err := lossFake.Backward(); err != nil {
			return err
		}
		if err := optD.Step(); err != nil {
			return err
		}

		optG.ZeroGrad()
		lossG := discriminator.Forward(made).Reshape(-1).BCELoss(real, autograd.MeanReduction)
		if err := lossG.Backward(); err != nil {
			return err
		}
		if err := optG.Step(); err != nil {
			return err
		}
		return p.losses(g, lossReal, lossFake, lossG)
	}
	for i := range 4 {
		if err := step(i); err != nil {
			return err
		}
	}
	return nil
}
