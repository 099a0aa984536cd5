package main

import (
	"math"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/tensor"
)

// clip is how far from 1 the ratio of an action's probabilities may be pushed, smooth what an advantage a step later counts besides gamma.
const (
	clip   = 0.2
	smooth = 0.95
)

// trainer lets an agent push some carts, and learn from what came of it.
type trainer struct {
	*session.Session
	agent   *agent
	opt     *optim.Grouped
	gen     *tensor.Generator
	carts   []*cartPole
	horizon int
	epochs  int
	gamma   float64
	entropy float64

	lengths []float64 // of the episodes that have ended
}

func newTrainer(s *session.Session, o options) (*trainer, error) {
	t := &trainer{
		Session: s, agent: newAgent(o.width), gen: tensor.NewGenerator(o.seed + 1), horizon: o.horizon, epochs: o.epochs, gamma: o.gamma, entropy: o.entropy,
	}
	if err := t.agent.To(s.Device, nn.Seed(o.seed)); err != nil {
		return nil, err
	}
	t.opt = optim.Adam(t.agent.Parameters(), optim.LR(o.lr))
	for i := range o.carts {
		t.carts = append(t.carts, newCartPole(o.seed, uint64(i)))
	}
	if err := s.Trains(t.agent, t.opt); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

func (t *trainer) release() {
	t.opt.Release()
	t.agent.Release()
}

// rollout is what carts went through: steps of all carts, one after the other.
type rollout struct {
	states              []float32 // [steps*carts, 4]
	actions             []int64
	returns, advantages []float32
	likely              []float32 // logarithms of the probabilities that the actions had
}

// step is an update: some steps of all carts, and some of the optimizer.
func (t *trainer) step() (loss float64, err error) {
	r, err := t.play()
	if err != nil {
		return 0, err
	}
	return t.learn(r)
}

// play lets all carts go on for the horizon. Advantages are generalized (Schulman and others, 2016), normalized over all.
func (t *trainer) play() (*rollout, error) {
	n := len(t.carts)
	r := &rollout{}
	var expected, goes []float32 // goes is 0 where an episode ended
	for step := 0; ; step++ {
		if err := t.Interruption(); err != nil {
			return nil, err
		}
		from := len(r.states)
		for _, c := range t.carts {
			r.states = c.observe(r.states)
		}
		var opts []autograd.Option
		if step == 0 { // an update repeats, from the first action on
			opts = append(opts, t.Planned())
		}
		chosen, values, err := t.act(r.states[from:], opts...)
		if err != nil {
			return nil, err
		}
		expected = append(expected, values...)
		if step == t.horizon { // only for what the critic expects behind the horizon
			r.states = r.states[:from]
			break
		}
		r.actions = append(r.actions, chosen...)
		for i, c := range t.carts {
			over, _, length := c.step(chosen[i])
			goes = append(goes, 1)
			if over {
				goes[len(goes)-1] = 0
				t.lengths = append(t.lengths, float64(length))
			}
		}
	}
	r.returns, r.advantages = make([]float32, n*t.horizon), make([]float32, n*t.horizon)
	for c := range n {
		advantage := 0.0
		for k := n*(t.horizon-1) + c; k >= 0; k -= n {
			on := float64(goes[k]) // each step that was taken is worth 1
			surprise := 1 + t.gamma*on*float64(expected[k+n]) - float64(expected[k])
			advantage = surprise + t.gamma*smooth*on*advantage
			r.advantages[k], r.returns[k] = float32(advantage), float32(advantage)+expected[k]
		}
	}
	normalize(r.advantages)
	return r, nil
}

// normalize gives numbers a mean of 0 and a deviation of 1.
func normalize(v []float32) {
	var sum, squares float64
	for _, x := range v {
		sum += float64(x)
	}
	mean := sum / float64(len(v))
	for _, x := range v {
		squares += (float64(x) - mean) * (float64(x) - mean)
	}
	deviation := math.Sqrt(squares/float64(len(v))) + 1e-8
	for i, x := range v {
		v[i] = float32((float64(x) - mean) / deviation)
	}
}

// recent is the mean length of the last episodes, 100 at most.
func (t *trainer) recent() float64 { return mean(t.lengths[max(0, len(t.lengths)-100):]) }

// mean is 0 of nothing.
func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}
