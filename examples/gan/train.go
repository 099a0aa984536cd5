package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/examples/internal/digits"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/tensor"
)

const (
	compared = 1000 // digits that the distance is taken of
	smooth   = 0.9  // what the discriminator is to say of real digits
)

// trainer is a generator and a discriminator in training.
type trainer struct {
	*session.Session
	options
	digits.Set
	gen, disc   *nn.SequentialModule
	optG, optD  *optim.Grouped
	rng         *rand.Rand
	noise       *tensor.Generator
	drawn, told float64 // the losses
}

func train(s *session.Session, o options, r *report, stderr io.Writer) error {
	real, held, err := digits.Load(o.data, 1)
	if err != nil {
		return err
	}
	t := &trainer{
		Session: s, options: o, Set: real, gen: newGenerator(o.code, o.channels, real.Side), disc: newDiscriminator(o.channels, real.Side),
		rng: rand.New(rand.NewPCG(o.seed, 0)), noise: tensor.NewGenerator(o.seed + 2),
	}
	err = errors.Join(t.gen.To(s.Device, nn.Seed(o.seed)), t.disc.To(s.Device, nn.Seed(o.seed+1)))
	t.optG = optim.Adam(t.gen.Parameters(), optim.LR(o.lr), optim.Betas(0.5, 0.999))
	t.optD = optim.Adam(t.disc.Parameters(), optim.LR(o.lr), optim.Betas(0.5, 0.999))
	defer t.end()
	if err = errors.Join(err, t.Trains(t.gen, t.optG), t.Trains(t.disc, t.optD)); err != nil {
		return err
	}
	return t.run(held, r, stderr)
}

// run trains, and saves the weights. After Ctrl-C there are some digits of the generator as it is by then.
func (t *trainer) run(held digits.Set, r *report, stderr io.Writer) (err error) {
	stopped := t.learn(held, r, stderr)
	if stopped != nil {
		if !errors.Is(stopped, session.ErrInterrupted) {
			return stopped
		}
		if r.drawn, err = t.draw(t.codes()); err != nil {
			return err
		}
	}
	r.side, r.DrawnLoss, r.JudgedLoss = t.Side, t.drawn, t.told
	return errors.Join(stopped, session.SaveWeights(t.save, t.gen))
}

// learn trains between two looks of a judge at what the generator draws.
func (t *trainer) learn(held digits.Set, r *report, stderr io.Writer) error {
	judge, err := digits.NewJudge(t.Device, t.Set, held, t.seed, t.Interruption)
	if err != nil {
		return err
	}
	defer judge.Release()
	if r.RealDistance, err = judge.Distance(t.Draw(t.rng, compared)); err != nil {
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
	t.Trained(session.Held(t.gen, t.disc), t.optG, t.optD)
	t.optG.Release()
	t.optD.Release()
	t.gen.Release()
	t.disc.Release()
	t.Released()
}

// step trains the discriminator on as many real digits as drawn ones, and then the generator on what the discriminator says now.
func (t *trainer) step() (string, error) {
	g := autograd.NewGraph(t.Device, autograd.WithGenerator(t.noise), t.Planned())
	defer g.Release()
	real := autograd.FromSlice(g, t.Draw(t.rng, t.batch), t.batch, 1, t.Side, t.Side)
	fake := t.gen.Forward(g.RandN(tensor.Float32, t.batch, t.code))

	onReal, onFake := t.disc.Forward(real), t.disc.Forward(fake.Detach())
	told := loss(onReal, smooth).Add(loss(onFake, 0)).Keep()
	if err := told.Backward(); err != nil {
		return "", err
	}
	if err := t.optD.Step(); err != nil {
		return "", err
	}
	drawn := loss(t.disc.Forward(fake), 1).Keep()
	if err := drawn.Backward(); err != nil {
		return "", err
	}
	if err := t.optG.Step(); err != nil {
		return "", err
	}
	t.optG.ZeroGrad()
	t.optD.ZeroGrad() // also what the generator's loss left there
	var errD, errG error
	t.told, errD = told.Item()
	t.drawn, errG = drawn.Item()
	return fmt.Sprintf("losses %.3f and %.3f", t.drawn, t.told), errors.Join(errD, errG)
}

// loss is the binary cross-entropy of logits against a probability.
func loss(logits *autograd.Variable, p float64) *autograd.Variable {
	return logits.BCEWithLogitsLoss(logits.FullLike(p), autograd.MeanReduction)
}

// judged draws digits and lets a judge look at them. It returns them, too.
func (t *trainer) judged(judge *digits.Judge) (distance float64, pixels []float32, err error) {
	noise := t.codes()
	for len(pixels) < compared*t.Side*t.Side {
		if err := t.Interruption(); err != nil {
			return 0, nil, err
		}
		drawn, err := t.draw(noise)
		if err != nil {
			return 0, nil, err
		}
		pixels = append(pixels, drawn...)
	}
	distance, err = judge.Distance(pixels)
	return distance, pixels, err
}

// codes draws the same codes each time.
func (t *trainer) codes() *tensor.Generator { return tensor.NewGenerator(t.seed + 3) }

// draw makes 100 digits.
func (t *trainer) draw(noise *tensor.Generator) ([]float32, error) {
	nn.Eval(t.gen)
	defer nn.Train(t.gen)
	g := autograd.NewGraph(t.Device, autograd.NoGrad(), autograd.WithGenerator(noise))
	defer g.Release()
	return autograd.Values[float32](t.gen.Forward(g.RandN(tensor.Float32, 100, t.code)))
}
