package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["wgangp"] = wganGP }

// wganGP is a Wasserstein GAN whose critic pays for gradients that are not of length 1.
func wganGP(p *port) error {
	const batch, latent, features, lambda = 3, 5, 4, 10
	netG := nn.Sequential(
		nn.Linear(latent, 2*features*2*2), nn.ReLU(), nn.Unflatten(1, 2*features, 2, 2),
		nn.ConvTranspose2d(2*features, features, 4, nn.Stride(2), nn.Padding(1)), nn.BatchNorm2d(features), nn.ReLU(),
		nn.ConvTranspose2d(features, 2, 4, nn.Stride(2), nn.Padding(1)), nn.Tanh())
	netD := nn.Sequential(
		nn.Conv2d(2, features, 4, nn.Stride(2), nn.Padding(1)), nn.LeakyReLU(0.2),
		nn.Conv2d(features, 2*features, 4, nn.Stride(2), nn.Padding(1)), nn.InstanceNorm2d(2*features, nn.Affine(true)), nn.LeakyReLU(0.2),
		nn.Flatten(), nn.Linear(2*features*2*2, 1))
	for _, m := range []nn.Module{netG, netD} {
		if err := p.place(m); err != nil {
			return err
		}
		defer m.Release()
	}
	optimizerD := optim.Adam(netD.Parameters(), optim.LR(1e-3), optim.Betas(0, 0.9))
	optimizerG := optim.Adam(netG.Parameters(), optim.LR(1e-3), optim.Betas(0, 0.9))
	p.train(optimizerD, optimizerG)
	defer optimizerD.Release()
	defer optimizerG.Release()

	penalize := func(real, fake, alpha *autograd.Variable) (*autograd.Variable, error) {
		mixed, err := alpha.Mul(real).Add(alpha.RSubScalar(1).Mul(fake)).Tensor()
		if err != nil {
			return nil, err
		}
		interpolates := real.Graph().Input(mixed, autograd.RequiresGrad())
		disc := netD.Forward(interpolates)
		gradients, err := autograd.Grad([]*autograd.Variable{disc}, []*autograd.Variable{interpolates},
			autograd.GradOutputs(disc.OnesLike()), autograd.CreateGraph())
		if err != nil {
			return nil, err
		}
		norm := gradients[0].View(batch, -1).Norm(2, []int{1}, false)
		return norm.SubScalar(1).Square().Mean(nil, false).MulScalar(lambda), nil
	}
	critic := func(phase float64) error {
		g := p.graph()
		defer g.Release()
		one, mone := g.Scalar(1, tensor.Float64), g.Scalar(-1, tensor.Float64)
		optimizerD.ZeroGrad()
		real := p.data(g, phase, 1, batch, 2, 8, 8)
		dReal := netD.Forward(real).Mean(nil, false)
		if err := dReal.Backward(autograd.GradOutputs(mone)); err != nil {
			return err
		}
		fake := g.NoGrad(func() *autograd.Variable { return netG.Forward(p.data(g, 20+phase, 1, batch, latent)) })
		dFake := netD.Forward(fake).Mean(nil, false)
		if err := dFake.Backward(autograd.GradOutputs(one)); err != nil {
			return err
		}
		penalty, err := penalize(real, fake, p.data(g, 40+phase, 0.5, batch, 1, 1, 1).AddScalar(0.5))
		if err != nil {
			return err
		}
		if err := penalty.Backward(); err != nil {
			return err
		}
		cost := dFake.Sub(dReal).Add(penalty)
		if err := optimizerD.Step(); err != nil {
			return err
		}
		return p.losses(g, cost, dReal.Sub(dFake), penalty)
	}
	generator := func(phase float64) error {
		g := p.graph()
		defer g.Release()
		optimizerG.ZeroGrad()
		score := netD.Forward(netG.Forward(p.data(g, phase, 1, batch, latent))).Mean(nil, false)
		if err := score.Backward(autograd.GradOutputs(g.Scalar(-1, tensor.Float64))); err != nil {
			return err
		}
		if err := optimizerG.Step(); err != nil {
			return err
		}
		return p.losses(g, score.Neg())
	}
	for iteration := range 3 {
		for _, w := range netD.Parameters() {
			w.SetRequiresGrad(true)
		}
		for i := range 2 {
			if err := critic(float64(2*iteration + i)); err != nil {
				return err
			}
		}
		for _, w := range netD.Parameters() {
			w.SetRequiresGrad(false)
		}
		if err := generator(60 + float64(iteration)); err != nil {
			return err
		}
	}
	return nil
}
