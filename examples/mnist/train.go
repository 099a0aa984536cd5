package main

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
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// dropout is the part of hidden units left out in a training step.
const dropout = 0.2

// trainer is a model in training.
type trainer struct {
	options
	dev    device.Device
	alloc  memory.Allocator
	model  nn.Module
	opt    *optim.Grouped
	gen    *tensor.Generator // shuffling and dropout
	train  *digits
	test   *digits
	report report
	steps  int // in all epochs
	bars   io.Writer
}

// program runs everything. Whatever happens, it gives all device memory back, and says so if that fails.
func program(o options, stdout, stderr io.Writer) (err error) {
	trainSet, testSet, err := dataset.Load(o.data)
	if err != nil {
		return err
	}
	dev, err := device.Open(o.device)
	if err != nil {
		return err
	}
	defer func() { err = join(err, dev.Close()) }()
	t := &trainer{options: o, dev: dev, gen: tensor.NewGenerator(o.seed), bars: stderr,
		train: newDigits(trainSet, rand.New(rand.NewPCG(o.seed, 0))), test: newDigits(testSet, nil)}
	return t.all(stdout)
}

// all trains, reports, and closes the device's allocator, which tells of blocks that are still in use.
func (t *trainer) all(stdout io.Writer) (err error) {
	defer func() { err = join(err, memory.Drop(t.dev)) }()
	if t.alloc, err = memory.For(t.dev); err != nil {
		return err
	}
	if c, ok := t.alloc.(*memory.Caching); ok {
		if err := c.SetMemoryFraction(t.fraction); err != nil {
			return err
		}
	}
	if err := t.run(); err != nil {
		return err
	}
	t.report.print(stdout, t)
	return t.report.write(t.json)
}

// join is errors.Join for the error of closing something after err. That a lost device can close nothing is not told again.
func join(err, closing error) error {
	if err != nil && errors.Is(closing, device.ErrUnavailable) {
		return err
	}
	return errors.Join(err, closing)
}

func (t *trainer) run() error {
	t.model = nn.Sequential(
		nn.Linear(t.train.set.Rows*t.train.set.Cols, t.hidden), nn.ReLU(), nn.Dropout(dropout),
		nn.Linear(t.hidden, dataset.Classes))
	defer t.model.Release()
	if err := t.model.To(t.dev, nn.Generator(t.gen)); err != nil {
		return err
	}
	t.opt = optim.AdamW(t.model.Parameters(), optim.LR(t.lr))
	defer t.opt.Release()

	batches := data.NewLoader(t.dev, t.train, t.batch, data.Shuffle(t.gen))
	t.steps = t.epochs * batches.Len()
	for epoch := range t.epochs {
		if err := t.epoch(epoch, batches); err != nil {
			return fmt.Errorf("epoch %d: %w", epoch+1, err)
		}
	}
	t.report.AfterRelease = t.allocated()
	t.report.Leaf = t.leafBytes()
	t.report.summary = memory.Summary(t.dev)

	t.opt.Release()
	t.model.Release()
	t.report.AtEnd = t.allocated()
	return nil
}

func (t *trainer) epoch(epoch int, batches *data.Loader) error {
	bar := progressbar.NewOptions(batches.Len(), progressbar.OptionSetWriter(t.bars), progressbar.OptionSetWidth(30),
		progressbar.OptionSetDescription(fmt.Sprintf("epoch %2d/%d", epoch+1, t.epochs)), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"), progressbar.OptionThrottle(100*time.Millisecond))
	nn.Train(t.model)
	start := time.Now()
	for images, labels := range batches.Batches() {
		if err := t.step(images, labels); err != nil {
			return fmt.Errorf("step %d: %w", t.report.Steps+1, err)
		}
		_ = bar.Add(1) // a bar that cannot be drawn is no reason to stop
	}
	if err := batches.Err(); err != nil {
		return err
	}
	t.report.trainTime += time.Since(start)
	accuracy, err := t.accuracy()
	if err != nil {
		return fmt.Errorf("testing: %w", err)
	}
	t.report.Accuracy = accuracy
	bar.Describe(fmt.Sprintf("epoch %2d/%d  loss %.4f  accuracy %.2f %%", epoch+1, t.epochs, t.report.LastLoss, 100*accuracy))
	_ = bar.Finish()
	fmt.Fprintln(t.bars)
	return nil
}

// step is one training step. All that its graph made is back in the pool when it returns.
func (t *trainer) step(images, labels *tensor.Tensor) error {
	t.opt.SetLR(t.lr * (1 - float64(t.report.Steps)/float64(t.steps)))
	g := autograd.NewGraph(t.dev, autograd.WithGenerator(t.gen))
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
	t.report.step(value, t.alloc.Stats().NumDeviceAlloc)
	return nil
}

// accuracy is the part of the test images that the model recognizes.
func (t *trainer) accuracy() (float64, error) {
	nn.Eval(t.model)
	batches := data.NewLoader(t.dev, t.test, t.batch)
	right := 0.0
	for images, labels := range batches.Batches() {
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
	g := autograd.NewGraph(t.dev, autograd.NoGrad())
	defer g.Release()
	return t.model.Forward(g.Input(images)).ArgMax(1, false).Eq(g.Input(labels)).Sum(nil, false).Item()
}

// allocated is what the allocator says is in use, in bytes.
func (t *trainer) allocated() uint64 { return uint64(t.alloc.Stats().AllocatedBytes.All.Current) }

// leafBytes is what the parameters, their gradients and the optimizer's state hold, by their own account, in bytes as the
// allocator rounds them. The batches are gone by now.
func (t *trainer) leafBytes() uint64 {
	n := t.opt.StateBytes()
	for _, p := range t.model.Parameters() {
		n += p.Tensor().StorageBytes()
		if g := p.Grad(); g != nil {
			n += g.StorageBytes()
		}
	}
	return n
}
