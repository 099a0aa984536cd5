package main

import (
	"math"
	"slices"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/dist"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

func init() { programs["actorcritic"] = actorCritic }

// policy has one body and two heads: what to do, and what it will bring.
type policy struct {
	nn.Base
	Affine1, ActionHead, ValueHead *nn.LinearLayer
}

func newPolicy() *policy {
	return nn.New(&policy{Affine1: nn.Linear(4, 16), ActionHead: nn.Linear(16, 2), ValueHead: nn.Linear(16, 1)})
}

func (m *policy) Forward(x *autograd.Variable) (probs, value *autograd.Variable) {
	m.Scopes(x, func(*autograd.Graph) []*autograd.Variable {
		x := m.Affine1.Forward(x).ReLU()
		probs, value = m.ActionHead.Forward(x).Softmax(-1), m.ValueHead.Forward(x)
		return []*autograd.Variable{probs, value}
	})
	return probs, value
}

// actorCritic is PyTorch's example of that name, in a world without chance and with a bonus for entropy.
func actorCritic(p *port) error {
	const gamma, eps, steps = 0.99, 1e-8, 6
	model := newPolicy()
	if err := p.place(model); err != nil {
		return err
	}
	defer model.Release()
	optimizer := optim.Adam(model.Parameters(), optim.LR(3e-2))
	p.train(optimizer)
	defer optimizer.Release()

	run := func(episode int) error {
		g := p.graph()
		defer g.Release()
		state := []float64{0.1 * float64(episode+1), -0.2, 0.3, 0.05}
		var logProbs, values, entropies []*autograd.Variable
		var rewards []float64
		for t := range steps {
			probs, value := model.Forward(autograd.FromSlice(g, state))
			m := dist.NewCategoricalProbs(probs)
			action := (t*t + episode) % 3 % 2
			logProbs = append(logProbs, m.LogProb(g.Scalar(float64(action), tensor.Int64)))
			values = append(values, value)
			entropies = append(entropies, m.Entropy())
			push := 2*float64(action) - 1
			for i, s := range state {
				state[i] = 0.9*s + 0.1*push*math.Cos(float64(i)+s)
			}
			rewards = append(rewards, 1-math.Abs(state[0]))
		}

		var discounted []float64
		for _, r := range slices.Backward(rewards) {
			if len(discounted) > 0 {
				r += gamma * discounted[0]
			}
			discounted = slices.Insert(discounted, 0, r)
		}
		returns := autograd.FromSlice(g, discounted)
		returns = returns.Sub(returns.Mean(nil, false)).Div(returns.Std(nil, 1, false).AddScalar(eps))
		var policyLosses, valueLosses []*autograd.Variable
		for i, ret := range returns.Unbind(0) {
			advantage := ret.Sub(values[i].Squeeze().Detach())
			policyLosses = append(policyLosses, logProbs[i].Neg().Mul(advantage))
			valueLosses = append(valueLosses, values[i].SmoothL1Loss(ret.Unsqueeze(0), 1, autograd.MeanReduction))
		}
		optimizer.ZeroGrad()
		entropy := autograd.Stack(entropies, 0).Mean(nil, false).Keep()
		loss := autograd.Stack(policyLosses, 0).Sum(nil, false).Add(autograd.Stack(valueLosses, 0).Sum(nil, false)).
			Sub(entropy.MulScalar(0.01))
		value := values[steps-1].Keep()
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := optimizer.Step(); err != nil {
			return err
		}
		return p.losses(g, loss, entropy, value)
	}
	for episode := range 5 {
		if err := run(episode); err != nil {
			return err
		}
	}
	return nil
}
