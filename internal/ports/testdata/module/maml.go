package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
)

func init() { programs["maml"] = maml }

// maml learns weights from which two steps fit a sine, by gradients through these steps.
func maml(p *port) error {
	const shots, tasks, innerLR, innerSteps = 5, 2, 0.05, 2
	model := nn.Sequential(nn.Linear(1, 12), nn.ReLU(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	outer := optim.Adam(model.Parameters(), optim.LR(5e-3))
	p.train(outer)
	defer outer.Release()

	// adapt returns the parameters after the inner steps, and the last loss that they were for.
	adapt := func(g *autograd.Graph, x, y *autograd.Variable) (params map[string]*autograd.Variable, loss *autograd.Variable, err error) {
		var names []string
		params = map[string]*autograd.Variable{}
		for _, n := range nn.NamedParameters(model) {
			names = append(names, n.Name)
			params[n.Name] = g.Param(n.Parameter)
		}
		for range innerSteps {
			loss = nn.WithParameters(g, model, params, func() *autograd.Variable { return model.Forward(x).MSELoss(y, autograd.MeanReduction) })
			var inputs []*autograd.Variable
			for _, name := range names {
				inputs = append(inputs, params[name])
			}
			grads, err := autograd.Grad([]*autograd.Variable{loss}, inputs, autograd.CreateGraph())
			if err != nil {
				return nil, nil, err
			}
			params = map[string]*autograd.Variable{}
			for i, name := range names {
				params[name] = inputs[i].Sub(grads[i].MulScalar(innerLR))
			}
		}
		return params, loss, nil
	}
	step := func(i int) error {
		g := p.graph()
		defer g.Release()
		outer.ZeroGrad()
		var losses []*autograd.Variable
		var inner *autograd.Variable
		for task := range tasks {
			amplitude, phase := 0.5+0.7*float64((i+task)%3), 0.4*float64(i)+1.1*float64(task)
			at := float64(i + 3*task)
			x, query := p.data(g, at, 2, shots, 1), p.data(g, 50+at, 2, shots, 1)
			y, answer := x.AddScalar(phase).Sin().MulScalar(amplitude), query.AddScalar(phase).Sin().MulScalar(amplitude)
			params, loss, err := adapt(g, x, y)
			if err != nil {
				return err
			}
			inner = loss.Keep()
			losses = append(losses, nn.WithParameters(g, model, params, func() *autograd.Variable {
				return model.Forward(query).MSELoss(answer, autograd.MeanReduction)
			}))
		}
		meta := autograd.Stack(losses, 0).Mean(nil, false)
		if err := meta.Backward(); err != nil {
			return err
		}
		norm, err := optim.ClipGradNorm(model.Parameters(), 0.7)
		if err != nil {
			return err
		}
		if err := outer.Step(); err != nil {
			return err
		}
		return p.losses(g, meta, inner, g.Scalar(norm, meta.DType()))
	}
	for i := range 5 {
		if err := step(i); err != nil {
			return err
		}
	}
	return nil
}
