package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"time"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// line is what a training says as soon as it knows it, ours and PyTorch's: a line of JSON.
type line struct {
	Version    string   `json:"version,omitempty"`
	Device     string   `json:"device,omitempty"`
	Library    string   `json:"library,omitempty"` // of matrix products
	Parameters int      `json:"parameters,omitempty"`
	First      float64  `json:"first_step_s,omitempty"`
	Seconds    float64  `json:"seconds,omitempty"` // of a run
	Loss       *float64 `json:"loss,omitempty"`    // of its last step
	Allocated  int64    `json:"peak_allocated_bytes,omitempty"`
	Reserved   int64    `json:"peak_reserved_bytes,omitempty"`
	Note       string   `json:"note,omitempty"`
	Error      string   `json:"error,omitempty"` // why nothing follows
	None       bool     `json:"none,omitempty"`  // another Python may do better
}

// precisions are the values of -amp.
var precisions = map[string]tensor.DType{"off": tensor.Float32, "fp16": tensor.Float16, "bf16": tensor.BFloat16}

// trainer is a task in work.
type trainer struct {
	*task
	*start
	dev    device.Device
	exec   tensor.Exec
	alloc  memory.Allocator
	opt    *optim.Grouped
	scaler *amp.GradScaler
	casts  *amp.WeightCache // of the weights, until the step that changes them
	plan   *memory.Plan     // nil for none
	graph  *stepgraph.Step  // of captured steps; nil for others
	out    *json.Encoder
}

// train is our side of a task. It writes lines.
func (t *task) train(w io.Writer) error {
	dev, err := device.Open(t.Device)
	if err != nil {
		return err
	}
	return errors.Join(t.trainOn(dev, w), memory.Drop(dev), dev.Close())
}

// trainOn trains on a device that stays open.
func (t *task) trainOn(dev device.Device, w io.Writer) (err error) {
	r := &trainer{task: t, dev: dev, scaler: amp.NewGradScaler(amp.Enabled(t.AMP == "fp16")), casts: amp.NewWeightCache(), out: json.NewEncoder(w)}
	defer func() { err = errors.Join(err, r.plan.Close()) }()
	defer func() { err = errors.Join(err, r.release()) }()
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.measure(); err != nil {
		return err
	}
	if r.plan != nil {
		if err := r.out.Encode(line{Note: "plan: " + stepplan.Of(r.plan).String()}); err != nil {
			return err
		}
	}
	return r.out.Encode(line{Library: library(dev)}) // now it knows what it was used for
}

// begin makes model, batch and optimizer.
func (r *trainer) begin() (err error) {
	if r.alloc, err = memory.For(r.dev); err != nil {
		return err
	}
	if r.Plan && r.Mode == eager { // a captured step has its memory from a pool of its own
		if r.plan, err = stepplan.Begin(r.alloc); err != nil {
			return err
		}
	}
	if r.exec, err = tensor.On(r.dev); err != nil {
		return err
	}
	if r.start, err = r.newStart(r.exec, true); err != nil {
		return err
	}
	if err := r.To(r.dev, nn.Seed(1)); err != nil {
		return err
	}
	if r.Start != "" {
		if err := r.load(r.Start); err != nil {
			return err
		}
	}
	if r.Mode == graph {
		if err := r.capture(); err != nil {
			return err
		}
	}
	r.opt = r.optimizer(r.Parameters())
	n := 0
	for _, p := range r.Parameters() {
		n += p.Len()
	}
	return r.out.Encode(line{Device: r.dev.Properties().Name, Parameters: n})
}

// library says what computes matrix products, if that is not always the same.
func library(dev device.Device) string {
	if d, ok := dev.(*cuda.Device); ok {
		return folders.ReplaceAllString(d.BLAS().String(), "")
	}
	return ""
}

// folders are what says where a machine keeps its libraries.
var folders = regexp.MustCompile(`/[^ ,]*/`)

func (r *trainer) release() error {
	err := r.graph.Close()
	r.casts.Release()
	r.scaler.Release()
	if r.opt != nil {
		r.opt.Release()
	}
	if r.start != nil {
		r.start.Release()
	}
	return err
}

// measure takes the steps that do not count and then the runs. Of captured steps, which are eager ones at first, the last that does not count
// captures: that is no part of the peaks of the warm-up.
func (r *trainer) measure() error {
	step, last := r.step, 0
	if r.graph != nil {
		step, last = r.replay, 1
	}
	seconds, l, err := r.timed(1, step)
	if err != nil {
		return fmt.Errorf("the first step: %w", err)
	}
	if r.computes() {
		l.First = seconds
		if err := r.out.Encode(l); err != nil {
			return err
		}
	}
	if n := r.Warm - 1 - last; n > 0 {
		if _, _, err := r.timed(n, step); err != nil {
			return err
		}
	}
	if c, ok := r.alloc.(*memory.Caching); ok {
		c.ResetPeakStats()
	}
	if last > 0 {
		if _, _, err := r.timed(last, step); err != nil {
			return err
		}
	}
	return r.profiled(r.Runs*r.Steps, func() error { return r.runs(step) })
}

func (r *trainer) runs(step func(read bool) (*tensor.Tensor, error)) error {
	for range r.Runs {
		seconds, l, err := r.timed(r.Steps, step)
		if err != nil {
			return err
		}
		if r.computes() {
			l.Seconds = seconds
		}
		s := r.alloc.Stats()
		l.Allocated, l.Reserved = s.AllocatedBytes.All.Peak, s.ReservedBytes.All.Peak
		if err := r.out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// computes reports whether the device does what it is told.
func (r *trainer) computes() bool { return r.dev.ID().Kind != device.Sim }

// timed is the seconds of n steps and of the wait for the loss of the last one, which the line has.
func (r *trainer) timed(n int, step func(read bool) (*tensor.Tensor, error)) (seconds float64, l line, err error) {
	begin := time.Now()
	for range n - 1 {
		if _, err := step(false); err != nil {
			return 0, l, err
		}
	}
	loss, err := step(true)
	if err != nil {
		return 0, l, err
	}
	defer loss.Release()
	value, err := loss.Item()
	if err != nil {
		return 0, l, err
	}
	if err := r.exec.Stream().Synchronize(context.Background()); err != nil {
		return 0, l, err
	}
	seconds = time.Since(begin).Seconds()
	switch {
	case !r.computes():
	case math.IsNaN(value), math.IsInf(value, 0):
		l.Note = fmt.Sprintf("the loss is %v", value)
	default:
		l.Loss = &value
	}
	return seconds, l, nil
}

// step is one training step. It returns the loss only if it is to be read.
func (r *trainer) step(read bool) (loss *tensor.Tensor, err error) {
	defer func() {
		if err != nil {
			loss.Release()
			loss = nil
		}
	}()
	if loss, err = r.gradients(read); err != nil {
		return loss, err
	}
	if err = r.update(); err != nil {
		return loss, err
	}
	r.opt.ZeroGrad()
	return loss, nil
}

// update changes the weights.
func (r *trainer) update() error {
	r.casts.Release() // they are of the weights as they were
	if err := r.scaler.Step(r.opt); err != nil {
		return err
	}
	return r.scaler.Update()
}

// gradients goes forward and backward.
func (r *trainer) gradients(read bool) (*tensor.Tensor, error) {
	g := autograd.NewGraph(r.dev, append(r.autocast(), autograd.WithPlan(r.plan))...)
	defer g.Release()
	loss := r.loss(g.Input(r.x.Tensor()), g.Input(r.y.Tensor()))
	if read {
		loss.Keep()
	}
	if err := r.scaler.Backward(loss); err != nil || !read {
		return nil, err
	}
	return loss.Take()
}

// autocast is the option of graphs that the precision is, or none.
func (r *trainer) autocast() []autograd.Option {
	if r.AMP == "off" {
		return nil
	}
	return []autograd.Option{amp.Autocast(precisions[r.AMP], r.casts)}
}

func (r *trainer) loss(x, y *autograd.Variable) *autograd.Variable {
	return x.Graph().Scope(func() *autograd.Variable {
		logits := r.net.Forward(x)
		return logits.Reshape(y.Len(), logits.Dim(-1)).CrossEntropy(y)
	})
}
