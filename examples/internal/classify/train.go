package classify

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/timeline"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/tensor"
)

// trainer is a model in training.
type trainer struct {
	*session.Session
	*Options
	model  nn.Layer
	opt    *optim.Grouped
	rates  *optim.Schedule
	gen    *tensor.Generator // shuffling and dropout
	train  *dataset.Digits
	test   *dataset.Digits
	report Report
	bars   io.Writer
}

// program runs everything. Whatever happens, it gives all device memory back, and says so if that fails.
func (o *Options) program(model Model, stdout, stderr io.Writer) error {
	if err := session.CheckOutputs(session.Output{Flag: "json", File: o.JSON}); err != nil {
		return err
	}
	train, test, err := dataset.Load(o.Data)
	if err != nil {
		return err
	}
	s, err := o.Watch.Open(o.Device, o.Fraction, stderr)
	if err != nil {
		return err
	}
	r, err := Train(s, *o, model, train, test, stdout, stderr)
	if err != nil {
		return err
	}
	if err := session.WriteJSON(o.JSON, r); err != nil {
		return err
	}
	if r.interrupted {
		return session.ErrInterrupted
	}
	return nil
}

// Train trains a model on digits and tells about it. It closes the session, which tells of blocks that are still in use.
func Train(s *session.Session, o Options, model Model, train, test dataset.Set, stdout, bars io.Writer) (r *Report, err error) {
	defer func() { err = s.Close(err) }()
	t := &trainer{Session: s, Options: &o, gen: tensor.NewGenerator(o.Seed), bars: bars,
		train: dataset.NewDigits(train, rand.New(rand.NewPCG(o.Seed, 0))), test: dataset.NewDigits(test, nil)}
	if t.model, err = model(train.Rows, train.Cols); err != nil {
		return nil, err
	}
	defer t.model.Release()
	if err := t.run(); err != nil {
		return nil, err
	}
	t.print(stdout)
	return &t.report, nil
}

func (t *trainer) run() error {
	if err := t.BeginPlan(t.Options.Plan); err != nil {
		return err
	}
	if err := t.model.To(t.Session.Device, nn.WithGenerator(t.gen)); err != nil {
		return err
	}
	t.opt = optim.AdamW(t.model.Parameters(), optim.LR(t.LR))
	defer t.opt.Release()
	if err := t.Trains(t.model, t.opt); err != nil {
		return err
	}

	batches := data.NewLoader(t.Session.Device, t.train, t.Batch, data.Shuffle(t.gen))
	t.rates = t.Schedule.over(t.opt, t.Epochs*batches.Len())
	if err := t.rates.Err(); err != nil {
		return err
	}
	for epoch := 0; epoch < t.Epochs && !t.report.interrupted; epoch++ {
		if err := t.epoch(epoch, batches); err != nil {
			return fmt.Errorf("epoch %d: %w", epoch+1, err)
		}
	}
	if err := t.EndPlan(); err != nil {
		return err
	}
	t.Trained(session.Held(t.model), t.opt)
	t.opt.Release()
	t.model.Release()
	t.Released()
	t.report.Memory = t.Memory
	if t.Steps > 0 {
		t.report.StepsPerSecond = float64(t.Steps) / t.report.trainTime.Seconds()
	}
	return nil
}

func (t *trainer) epoch(epoch int, batches *data.Loader) error {
	bars, end := session.Progress(t.bars)
	defer end()
	title := fmt.Sprintf("epoch %2d/%d", epoch+1, t.Epochs)
	bar := progressbar.NewOptions(batches.Len(), progressbar.OptionSetWriter(bars), progressbar.OptionSetWidth(30),
		progressbar.OptionSetDescription(title), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"), progressbar.OptionThrottle(100*time.Millisecond))
	nn.Train(t.model)
	start := time.Now()
	for images, labels := range batches.Batches() {
		if t.report.interrupted = t.Interrupted(); t.report.interrupted {
			break
		}
		if err := t.step(images, labels); err != nil {
			return fmt.Errorf("step %d: %w", t.Steps+1, err)
		}
		_ = bar.Add(1) // a bar that cannot be drawn is no reason to stop
	}
	if err := batches.Err(); err != nil {
		return err
	}
	t.report.trainTime += time.Since(start)
	if t.report.interrupted {
		return nil
	}
	accuracy, err := t.accuracy()
	if t.report.interrupted = errors.Is(err, session.ErrInterrupted); t.report.interrupted {
		return nil
	}
	if err != nil {
		return fmt.Errorf("testing: %w", err)
	}
	t.report.Accuracy = accuracy
	bar.Describe(t.Says(title+"  ", "loss %.4f  accuracy %.2f %%", t.report.LastLoss, 100*accuracy))
	_ = bar.Finish()
	return nil
}

// step is one training step. All that its graph made is back in the pool when it returns.
func (t *trainer) step(images, labels *tensor.Tensor) error {
	defer timeline.Region("training step")()
	if t.Steps > 0 {
		if err := t.rates.Step(); err != nil {
			return err
		}
	}
	g := autograd.NewGraph(t.Session.Device, autograd.WithGenerator(t.gen), t.Planned())
	defer g.Release()
	loss := t.model.Forward(g.Input(images)).CrossEntropy(g.Input(labels))
	if err := loss.Keep().Backward(); err != nil {
		return err
	}
	value, err := loss.Item()
	if err != nil {
		return err
	}
	if err := t.opt.Step(); err != nil {
		return err
	}
	t.opt.ZeroGrad()
	t.Step()
	if t.Steps == 1 {
		t.report.FirstLoss = value
	}
	t.report.LastLoss = value
	return nil
}

// accuracy is the part of the test images that the model recognizes.
func (t *trainer) accuracy() (float64, error) {
	nn.Eval(t.model)
	batches := data.NewLoader(t.Session.Device, t.test, t.Batch)
	right := 0.0
	for images, labels := range batches.Batches() {
		if err := t.Interruption(); err != nil {
			return 0, err
		}
		n, err := t.recognized(images, labels)
		if err != nil {
			return 0, err
		}
		right += n
	}
	return right / float64(t.test.Len()), batches.Err()
}

// recognized counts the images of a batch whose class the model finds.
func (t *trainer) recognized(images, labels *tensor.Tensor) (float64, error) {
	g := autograd.NewGraph(t.Session.Device, autograd.NoGrad(), t.Planned())
	defer g.Release()
	return t.model.Forward(g.Input(images)).ArgMax(1, false).Eq(g.Input(labels)).Sum(nil, false).Item()
}
