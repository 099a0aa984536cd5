package main

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/dist"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// agent is an actor and a critic with a body in common.
type agent struct {
	nn.Base
	Body          *nn.SequentialModule
	Actor, Critic *nn.LinearLayer
}

func newAgent(width int) *agent {
	return nn.New(&agent{
		Body:  nn.Sequential(nn.Linear(observed, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()),
		Actor: nn.Linear(width, actions), Critic: nn.Linear(width, 1),
	})
}

// judge gives the logits of actions [N, 2] and the value [N] of states [N, 4].
func (a *agent) judge(states *autograd.Variable) (logits, value *autograd.Variable) {
	both := a.Scopes(states, func(*autograd.Graph) []*autograd.Variable {
		h := a.Body.Forward(states)
		return []*autograd.Variable{a.Actor.Forward(h), a.Critic.Forward(h).Squeeze(-1)}
	})
	return both[0], both[1]
}

// act draws an action for each state, and tells what the critic expects.
func (t *trainer) act(states []float32, opts ...autograd.Option) (chosen []int64, expected []float32, err error) {
	g := autograd.NewGraph(t.Device, append(opts, autograd.NoGrad(), autograd.WithGenerator(t.gen))...)
	defer g.Release()
	logits, value := t.agent.judge(autograd.FromSlice(g, states, len(t.carts), observed))
	action := dist.NewCategorical(logits).Sample()
	if g.Err() != nil {
		return nil, nil, g.Err()
	}
	if chosen, err = autograd.Values[int64](action); err != nil {
		return nil, nil, err
	}
	expected, err = autograd.Values[float32](value)
	return chosen, expected, err
}

// learn takes some steps with what happened, as proximal policy optimization does (Schulman and others, 2017): the actor towards actions that
// brought more than the critic expected, until one is clip times likelier or less likely than it was, and the critic towards what they brought. The
// entropy keeps the actor from being sure too early. It returns the last loss.
func (t *trainer) learn(r *rollout) (loss float64, err error) {
	for range t.epochs {
		if err := t.Interruption(); err != nil {
			return 0, err
		}
		if loss, err = t.epoch(r); err != nil {
			return 0, err
		}
	}
	return loss, nil
}

func (t *trainer) epoch(r *rollout) (float64, error) {
	g := autograd.NewGraph(t.Device)
	defer g.Release()
	n := len(r.actions)
	logits, value := t.agent.judge(autograd.FromSlice(g, r.states, n, observed))
	policy := dist.NewCategorical(logits)
	likely := policy.LogProb(autograd.FromSlice(g, r.actions, n))
	if r.likely == nil { // the first step is one of the agent that played
		var err error
		if r.likely, err = autograd.Values[float32](likely); err != nil {
			return 0, err
		}
	}
	returns, advantages := autograd.FromSlice(g, r.returns, n), autograd.FromSlice(g, r.advantages, n)
	ratio := likely.Sub(autograd.FromSlice(g, r.likely, n)).Exp()
	gain := ratio.Mul(advantages).Minimum(ratio.Clamp(1-clip, 1+clip).Mul(advantages)).Mean(nil, false)
	loss := value.SmoothL1Loss(returns, 1, autograd.MeanReduction).MulScalar(0.5).Sub(gain).
		Sub(policy.Entropy().Mean(nil, false).MulScalar(t.entropy)).Keep()
	if err := loss.Backward(); err != nil {
		return 0, err
	}
	if err := t.opt.Step(); err != nil {
		return 0, err
	}
	t.opt.ZeroGrad()
	return loss.Item()
}
