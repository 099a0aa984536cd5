package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
)

func init() { programs["siamese"] = siamese }

// siameseNet embeds images, [N, 1, 8, 8]: three of them, by the same weights.
type siameseNet struct {
	nn.Base
	CNN *nn.SequentialModule
	FC  *nn.SequentialModule
}

func newSiameseNet(width, embedding int) *siameseNet {
	return nn.New(&siameseNet{
		CNN: nn.Sequential(
			nn.Conv2d(1, width, 3, nn.Padding(1)), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
			nn.Conv2d(width, 2*width, 3, nn.Padding(1)), nn.BatchNorm2d(2*width), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
		FC: nn.Sequential(nn.Flatten(), nn.Linear(8*width, 2*embedding), nn.BatchNorm1d(2*embedding), nn.ReLU(), nn.Linear(2*embedding, embedding)),
	})
}

func (n *siameseNet) ForwardOnce(x *autograd.Variable) *autograd.Variable {
	return n.Scope(x, func(*autograd.Graph) *autograd.Variable { return n.FC.Forward(n.CNN.Forward(x)) })
}

func (n *siameseNet) Forward(anchor, positive, negative *autograd.Variable) (a, p, q *autograd.Variable) {
	n.Scopes(anchor, func(*autograd.Graph) []*autograd.Variable {
		a, p, q = n.ForwardOnce(anchor), n.ForwardOnce(positive), n.ForwardOnce(negative)
		return []*autograd.Variable{a, p, q}
	})
	return a, p, q
}

// siamese learns which images are alike by the triplet loss, at a rate that rises and falls in one cycle.
func siamese(p *port) error {
	const batch, steps = 5, 6
	model := newSiameseNet(3, 4)
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	optimizer := optim.SGD(model.Parameters(), optim.LR(0.01), optim.Momentum(0.9), optim.WeightDecay(1e-4))
	p.train(optimizer)
	defer optimizer.Release()
	scheduler := optim.OneCycleLR(optimizer, []float64{0.1}, steps)

	images := func(g *autograd.Graph, i int) (anchor, positive, negative *autograd.Variable) {
		anchor = p.data(g, float64(i), 1, batch, 1, 8, 8)
		return anchor, anchor.Add(p.data(g, 10+float64(i), 0.2, batch, 1, 8, 8)), anchor.Square().Sub(p.data(g, 20+float64(i), 0.5, batch, 1, 8, 8))
	}
	train := func(i int) error {
		g := p.graph()
		defer g.Release()
		optimizer.ZeroGrad()
		anchor, positive, negative := model.Forward(images(g, i))
		loss := anchor.TripletMarginLoss(positive, negative, 1, autograd.Triplet{}, autograd.MeanReduction)
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := optimizer.Step(); err != nil {
			return err
		}
		if err := p.losses(g, loss); err != nil {
			return err
		}
		if err := p.step(scheduler.LastLR()[0], optimizer.Momentum(0)); err != nil {
			return err
		}
		return scheduler.Step()
	}
	for i := range steps {
		if err := train(i); err != nil {
			return err
		}
	}

	nn.Eval(model)
	g := p.graph(autograd.NoGrad())
	defer g.Release()
	anchor, positive, negative := model.Forward(images(g, 30))
	near := anchor.PairwiseDistance(positive, 2, 1e-6, false)
	far := anchor.PairwiseDistance(negative, 2, 1e-6, false)
	return p.losses(g, near.Mean(nil, false), far.Mean(nil, false), near.Lt(far).Sum(nil, false))
}
