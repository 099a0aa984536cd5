package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
)

func init() { programs["vae"] = vae }

// vaeModel has two heads, for the mean and the logarithm of the variance of what the decoder begins with.
type vaeModel struct {
	nn.Base
	FC1, FC21, FC22, FC3, FC4 *nn.LinearLayer
}

func newVAE(pixels, hidden, latent int) *vaeModel {
	return nn.New(&vaeModel{
		FC1: nn.Linear(pixels, hidden), FC21: nn.Linear(hidden, latent), FC22: nn.Linear(hidden, latent),
		FC3: nn.Linear(latent, hidden), FC4: nn.Linear(hidden, pixels),
	})
}

func (m *vaeModel) encode(x *autograd.Variable) (mu, logVar *autograd.Variable) {
	m.Scopes(x, func(*autograd.Graph) []*autograd.Variable {
		h1 := m.FC1.Forward(x).ReLU()
		mu, logVar = m.FC21.Forward(h1), m.FC22.Forward(h1)
		return []*autograd.Variable{mu, logVar}
	})
	return mu, logVar
}

func (m *vaeModel) reparameterize(mu, logVar, eps *autograd.Variable) *autograd.Variable {
	std := logVar.MulScalar(0.5).Exp()
	return mu.Add(eps.Mul(std))
}

func (m *vaeModel) decode(z *autograd.Variable) *autograd.Variable {
	return m.Scope(z, func(*autograd.Graph) *autograd.Variable {
		h3 := m.FC3.Forward(z).ReLU()
		return m.FC4.Forward(h3).Sigmoid()
	})
}

func (m *vaeModel) forward(x, eps *autograd.Variable) (recon, mu, logVar *autograd.Variable) {
	mu, logVar = m.encode(x.View(x.Dim(0), -1))
	return m.decode(m.reparameterize(mu, logVar, eps)), mu, logVar
}

// vaeLoss is the error of the reconstruction, and the divergence from a standard normal distribution, summed over elements and batch.
func vaeLoss(recon, x, mu, logVar *autograd.Variable) (bce, kld *autograd.Variable) {
	bce = recon.BCELoss(x.View(x.Dim(0), -1), autograd.SumReduction)
	kld = logVar.AddScalar(1).Sub(mu.PowScalar(2)).Sub(logVar.Exp()).Sum(nil, false).MulScalar(-0.5)
	return bce, kld
}

// vae is PyTorch's example of that name: a variational autoencoder of linear layers.
func vae(p *port) error {
	const batch, side, hidden, latent = 5, 4, 12, 3
	model := newVAE(side*side, hidden, latent)
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	optimizer := optim.Adam(model.Parameters(), optim.LR(1e-2))
	p.train(optimizer)
	defer optimizer.Release()
	images := func(g *autograd.Graph, i int) *autograd.Variable {
		return p.data(g, float64(i), 0.5, batch, 1, side, side).AddScalar(0.5)
	}

	nn.Train(model)
	step := func(i int) error {
		g := p.graph()
		defer g.Release()
		x := images(g, i)
		optimizer.ZeroGrad()
		recon, mu, logVar := model.forward(x, p.data(g, 20+float64(i), 1, batch, latent))
		bce, kld := vaeLoss(recon, x, mu, logVar)
		loss := bce.Add(kld)
		bce.Keep()
		kld.Keep()
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := optimizer.Step(); err != nil {
			return err
		}
		return p.losses(g, loss, bce, kld)
	}
	for i := range 5 {
		if err := step(i); err != nil {
			return err
		}
	}

	nn.Eval(model)
	g := p.graph(autograd.NoGrad())
	defer g.Release()
	x := images(g, 9)
	recon, mu, logVar := model.forward(x, p.data(g, 30, 1, batch, latent))
	bce, kld := vaeLoss(recon, x, mu, logVar)
	sample := model.decode(p.data(g, 40, 1, 8, latent)).View(8, 1, side, side)
	return p.losses(g, bce.Add(kld), recon.Select(0, 0).Select(0, 0), sample.Std(nil, 1, false), sample.Mean(nil, false))
}
