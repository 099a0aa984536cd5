package lm

import (
	stderrors "errors"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/internal/text"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/tensor"
)

// Trainer is a model in training.
type Trainer struct {
	*session.Session
	Config
	Corpus *text.Corpus
	// Spoil, if set, is called between Backward and the optimizer's step, with the number of the step: to force an overflow.
	Spoil func(step int, params []*autograd.Parameter) error

	model  *models.GPT
	opt    *optim.Grouped
	scaler *amp.GradScaler
	casts  *amp.WeightCache // of the weights, from their first use to the step that changes them; nil if layers are computed again
	gen    *tensor.Generator
	exec   tensor.Exec
	graph  *stepgraph.Step // nil without Config.Graph, and when the training is over
	step   int             // the next one
}

// New makes a model with its first values, and what trains it. The caller releases it.
func New(s *session.Session, c Config, corpus *text.Corpus) (*Trainer, error) {
	vocab := max(c.Vocab, len(corpus.Alphabet))
	if c.Vocab > 0 && c.Vocab < len(corpus.Alphabet) {
		return nil, errors.Errorf("-vocab is %d, but the text has %d characters", c.Vocab, len(corpus.Alphabet))
	}
	if short := min(len(corpus.Train), len(corpus.Val)); short <= c.Seq {
		return nil, errors.Errorf("-seq is %d, but a part of the text has only %d characters", c.Seq, short)
	}
	model, err := models.NewGPT(c.model(vocab))
	if err != nil {
		return nil, err
	}
	exec, err := tensor.On(s.Device)
	if err != nil {
		return nil, err
	}
	t := &Trainer{Session: s, Config: c, Corpus: corpus, model: model, gen: tensor.NewGenerator(c.Seed), exec: exec,
		scaler: amp.NewGradScaler(amp.Enabled(c.AMP == "fp16"))}
	if !c.Checkpoint { // each layer frees its casts when it is done, then; kept ones would be the most of what there is at the peak
		t.casts = amp.NewWeightCache()
	}
	if err := model.To(s.Device, nn.WithGenerator(t.gen)); err != nil {
		return nil, err
	}
	if err := t.capture(); err != nil { // before the optimizer has state
		t.model.Release()
		return nil, err
	}
	t.opt = t.optimizer()
	if err := t.Trains(model, t.opt); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// optimizer is AdamW in two groups: matrices with weight decay, vectors without.
func (t *Trainer) optimizer() *optim.Grouped {
	var matrices, vectors []*autograd.Parameter
	for _, p := range t.model.Parameters() {
		if len(p.Shape()) > 1 {
			matrices = append(matrices, p)
		} else {
			vectors = append(vectors, p)
		}
	}
	return optim.AdamW(matrices, optim.LR(t.LR), optim.Betas(beta1, beta2), optim.WeightDecay(weightDecay)).
		AddGroup(vectors, optim.WeightDecay(0))
}

// Release gives the memory of the model and of what trains it back.
func (t *Trainer) Release() {
	_ = t.endGraph() // an error of it was that of a step before, or is the session's when it closes the device
	t.casts.Release()
	t.scaler.Release()
	t.opt.Release()
	t.model.Release()
}

// Finish notes the numbers of memory, before and after it releases everything.
func (t *Trainer) Finish() {
	t.casts.Release()
	t.scaler.Release()
	t.Trained(t.model.Parameters(), t.opt)
	t.Release()
	t.Released()
}

// Parameters is the number of the model's numbers.
func (t *Trainer) Parameters() int {
	n := 0
	for _, p := range t.model.Parameters() {
		n += p.Len()
	}
	return n
}

// Scale is the scale of the losses.
func (t *Trainer) Scale() (float64, error) { return t.scaler.GetScale() }

// newGraph makes a graph in the run's precision.
func (t *Trainer) newGraph(opts ...autograd.Option) *autograd.Graph {
	opts = append(append([]autograd.Option{autograd.WithGenerator(t.gen)}, opts...), t.autocast()...)
	return autograd.NewGraph(t.Device, opts...)
}

// autocast is the option of graphs that the run's precision is, or none.
func (t *Trainer) autocast() []autograd.Option {
	if t.AMP == "off" {
		return nil
	}
	return []autograd.Option{amp.Autocast(Precisions[t.AMP], t.casts)}
}

// TrainStep takes the next step and returns its loss.
func (t *Trainer) TrainStep() (loss float64, err error) {
	if t.graph != nil {
		return t.replayStep()
	}
	g := t.newGraph(t.Planned()) // before the batch, which is of the step then
	defer g.Release()
	x, y, err := text.Random(t.exec, t.Corpus.Train, t.Seed, uint64(t.step), t.Batch, t.Seq)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	defer y.Release()
	t.opt.SetLR(t.rate(t.step))
	if loss, err = t.gradients(g, x, y); err != nil {
		return 0, err
	}
	if err := t.update(); err != nil {
		return 0, err
	}
	t.opt.ZeroGrad()
	t.step++
	t.Session.Step()
	return loss, nil
}

// gradients goes forward and backward. Everything that it made is back in the pool when it returns, but for the gradients.
func (t *Trainer) gradients(g *autograd.Graph, x, y *tensor.Tensor) (float64, error) {
	defer g.Release()
	loss := t.loss(g, x, y).Keep()
	if err := t.scaler.Backward(loss); err != nil {
		return 0, err
	}
	return loss.Item()
}

func (t *Trainer) loss(g *autograd.Graph, x, y *tensor.Tensor) *autograd.Variable {
	return t.lossOf(g.Input(x), g.Input(y))
}

func (t *Trainer) lossOf(x, y *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		logits := t.model.Forward(x)
		return logits.Reshape(x.Len(), logits.Dim(-1)).CrossEntropy(y.Reshape(y.Len()))
	})
}

// update clips the gradients and steps, unless one of them overflowed. It does not wait for the device.
func (t *Trainer) update() error {
	if t.Spoil != nil {
		if err := t.Spoil(t.step, t.model.Parameters()); err != nil {
			return err
		}
	}
	t.casts.Release() // the weights are about to change
	if err := t.scaler.Unscale(t.opt); err != nil {
		return err
	}
	if err := optim.ClipGradNormAsync(t.opt.Parameters(), maxNorm); err != nil {
		return err
	}
	if err := t.scaler.Step(t.opt); err != nil {
		return err
	}
	return t.scaler.Update()
}

// Skipped is how many steps were left out because a gradient overflowed: those that the optimizer has not counted.
func (t *Trainer) Skipped() (int, error) {
	if !t.Computes() {
		return 0, nil
	}
	d, err := t.opt.StateDict()
	if err != nil {
		return 0, err
	}
	return t.step - d.State[0].Step, nil
}

// validationBatches is how many batches of the validation text are used, spread evenly over it.
const validationBatches = 8

// Validate returns the mean loss on the text that the model was not trained on, or session.ErrInterrupted after Ctrl-C.
func (t *Trainer) Validate() (float64, error) {
	nn.Eval(t.model)
	defer nn.Train(t.model)
	total := 0.0
	windows := validationBatches * t.Batch
	for b := range validationBatches {
		if err := t.Interruption(); err != nil {
			return 0, err
		}
		starts := make([]int, t.Batch)
		for i := range starts {
			starts[i] = (b*t.Batch + i) * (len(t.Corpus.Val) - t.Seq - 1) / windows
		}
		loss, err := t.validate(starts)
		if err != nil {
			return 0, err
		}
		total += loss
	}
	return total / validationBatches, nil
}

func (t *Trainer) validate(starts []int) (loss float64, err error) {
	x, y, err := text.Windows(t.exec, t.Corpus.Val, starts, t.Seq)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	defer y.Release()
	g := t.newGraph(autograd.NoGrad())
	defer g.Release()
	loss, err = t.loss(g, x, y).Item()
	return loss, stderrors.Join(err, g.Err())
}
