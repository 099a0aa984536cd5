package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/tensor"
)

// trainer is a network in training, and the mean of its weights.
type trainer struct {
	*session.Session
	options
	digits.Set
	schedule
	net    *unet
	mean   *nn.AveragedModel[*unet]
	opt    *optim.Grouped
	rng    *rand.Rand
	noise  *tensor.Generator
	losses []float64
}

func train(s *session.Session, o options, r *report, stderr io.Writer) error {
	smaller := 2
	if o.full {
		smaller = 1
	}
	real, held, err := digits.Load(o.data, smaller)
	if err != nil {
		return err
	}
	t := &trainer{
		Session: s, options: o, Set: real, schedule: newSchedule(o.times), net: newUNet(o.channels),
		rng: rand.New(rand.NewPCG(o.seed, 0)), noise: tensor.NewGenerator(o.seed + 1),
	}
	if err := t.net.To(s.Device, nn.Seed(o.seed)); err != nil {
		return err
	}
	defer t.net.Release()
	if t.mean, err = nn.EMA(t.net, o.decay); err != nil {
		return err
	}
	t.opt = optim.Adam(t.net.Parameters(), optim.LR(o.lr))
	defer t.end()
	if err := errors.Join(t.Trains(t.net, t.opt), t.Trains(t.mean)); err != nil {
		return err
	}
	return t.run(held, r, stderr)
}

// run trains, and saves the mean weights. After Ctrl-C some digits are drawn with them as they are by then.
func (t *trainer) run(held digits.Set, r *report, stderr io.Writer) (err error) {
	stopped := t.learn(held, r, stderr)
	if stopped != nil {
		if !errors.Is(stopped, session.ErrInterrupted) {
			return stopped
		}
		whole := func() error { return nil } // a second Ctrl-C ends the process
		if r.drawn, err = t.draw(min(digits.Shown, t.compared), t.first(), whole); err != nil {
			return err
		}
	}
	r.side = t.Side
	if len(t.losses) > 0 {
		r.FirstLoss, r.LastLoss = t.losses[0], t.recent()
	}
	return errors.Join(stopped, session.SaveWeights(t.save, t.mean.Module))
}

// learn trains between two looks of a judge at what is drawn.
func (t *trainer) learn(held digits.Set, r *report, stderr io.Writer) error {
	judge, err := digits.NewJudge(t.Device, t.Set, held, t.seed, t.Interruption)
	if err != nil {
		return err
	}
	defer judge.Release()
	if r.RealDistance, err = judge.Distance(t.Draw(t.rng, t.compared)); err != nil {
		return err
	}
	if r.FirstDistance, r.drawn, err = t.judged(judge); err != nil {
		return err
	}
	if err := t.Loop(stderr, t.steps, t.step); err != nil {
		return err
	}
	r.LastDistance, r.drawn, err = t.judged(judge)
	return err
}

// end gives all memory back, and notes what there was.
func (t *trainer) end() {
	t.Trained(session.Held(t.net, t.mean), t.opt)
	t.opt.Release()
	t.mean.Release()
	t.net.Release()
	t.Released()
}

// step takes some digits some way to noise, each to a time of its own, and lets the network find the noise.
func (t *trainer) step() (string, error) {
	g := autograd.NewGraph(t.Device, autograd.WithGenerator(t.noise), t.Planned())
	defer g.Release()
	clean := autograd.FromSlice(g, t.Draw(t.rng, t.batch), t.batch, 1, t.Side, t.Side)
	times, image, noisy := make([]float32, t.batch), make([]float32, t.batch), make([]float32, t.batch)
	for i := range times {
		at := t.rng.IntN(t.times)
		times[i], image[i], noisy[i] = float32(at), float32(math.Sqrt(t.kept[at])), float32(math.Sqrt(1-t.kept[at]))
	}
	noise := clean.RandNLike()
	x := clean.Mul(autograd.FromSlice(g, image, t.batch, 1, 1, 1)).Add(noise.Mul(autograd.FromSlice(g, noisy, t.batch, 1, 1, 1)))
	loss := t.net.noise(x, autograd.FromSlice(g, times, t.batch)).MSELoss(noise, autograd.MeanReduction).Keep()
	if err := loss.Backward(); err != nil {
		return "", err
	}
	if err := t.opt.Step(); err != nil {
		return "", err
	}
	t.opt.ZeroGrad()
	if err := t.mean.Update(t.net); err != nil {
		return "", err
	}
	value, err := loss.Item()
	t.losses = append(t.losses, value)
	return fmt.Sprintf("loss %.4f", t.recent()), err
}

// recent is the mean of the last losses.
func (t *trainer) recent() (mean float64) {
	last := t.losses[max(0, len(t.losses)-50):]
	for _, l := range last {
		mean += l / float64(len(last))
	}
	return mean
}
