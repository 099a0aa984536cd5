package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/schollz/progressbar/v3"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/timeline"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/internal/text"
	"github.com/cistern-ml/cistern/tensor"
)

// tuning is a model whose adapters are trained on a text.
type tuning struct {
	*session.Session
	*checkpoint
	options
	ids  []int64 // of the text
	exec tensor.Exec
	opt  *optim.Grouped
}

// newTuning puts adapters into the model. The caller releases the optimizer.
func newTuning(s *session.Session, c *checkpoint, o options) (*tuning, error) {
	data, err := os.ReadFile(o.text)
	if err != nil {
		return nil, err
	}
	ids, err := c.words.Encode(string(data))
	if err != nil {
		return nil, errors.Wrap(err, o.text)
	}
	if !o.seqGiven {
		o.seq = min(o.seq, c.Context)
	}
	if o.seq > c.Context {
		return nil, errors.Errorf("-seq is %d, and the model looks at %d tokens", o.seq, c.Context)
	}
	if len(ids) <= o.seq {
		return nil, errors.Errorf("-seq is %d, and %s has only %d tokens", o.seq, o.text, len(ids))
	}
	if err := c.model.adapt(o.rank, o.alpha); err != nil {
		return nil, err
	}
	if err := c.model.To(s.Device, nn.Seed(o.seed)); err != nil { // adapters have no values yet
		return nil, err
	}
	exec, err := tensor.On(s.Device)
	if err != nil {
		return nil, err
	}
	_, params := c.model.adapters()
	t := &tuning{s, c, o, ids, exec, optim.AdamW(params, optim.LR(o.lr), optim.WeightDecay(0))}
	if err := s.Trains(c.model, t.opt); err != nil {
		t.opt.Release()
		return nil, err
	}
	return t, nil
}

// train takes all steps, or those until Ctrl-C, and returns the loss of each.
func (t *tuning) train(w io.Writer) (losses []float64, interrupted bool, err error) {
	w, end := session.Progress(w)
	defer end()
	bar := progressbar.NewOptions(t.steps, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond))
	for step := range t.steps {
		if t.Interrupted() {
			return losses, true, nil
		}
		loss, err := t.step(step)
		if err != nil {
			return losses, false, fmt.Errorf("step %d: %w", step+1, err)
		}
		losses = append(losses, loss)
		bar.Describe(t.Says("", "loss %.4f", loss))
		_ = bar.Set(step + 1) // a bar that cannot be drawn is no reason to stop
		t.Session.Step()
	}
	return losses, false, nil
}

// step trains on one batch.
func (t *tuning) step(step int) (float64, error) {
	defer timeline.Region("training step")()
	g := autograd.NewGraph(t.Device, t.Planned()) // before the batch, which is of the step then
	defer g.Release()
	x, y, err := text.Random(t.exec, t.ids, t.seed, uint64(step), t.batch, t.seq)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	defer y.Release()
	loss, err := t.gradients(g, x, y)
	if err != nil {
		return 0, err
	}
	if _, err := optim.ClipGradNorm(t.opt.Parameters(), 1); err != nil {
		return 0, err
	}
	if err := t.opt.Step(); err != nil {
		return 0, err
	}
	t.opt.ZeroGrad()
	return loss, nil
}

// gradients goes forward and backward.
func (t *tuning) gradients(g *autograd.Graph, x, y *tensor.Tensor) (float64, error) {
	defer g.Release()
	loss := g.Scope(func() *autograd.Variable {
		logits := t.model.Forward(g.Input(x))
		return logits.Reshape(x.Len(), logits.Dim(-1)).CrossEntropy(g.Input(y).Reshape(y.Len()))
	}).Keep()
	if err := loss.Backward(); err != nil {
		return 0, err
	}
	return loss.Item()
}
