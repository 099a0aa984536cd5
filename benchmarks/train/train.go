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
	loss   *tensor.Tensor   // of a captured step
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
	stream := dev.DefaultStream()
	if t.Mode == graph { // the default stream cannot be captured
		if stream, err = dev.NewStream(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stream.Close()) }()
	}
	defer func() { err = errors.Join(err, r.plan.Close()) }()
	defer r.release()
	if err := r.begin(stream); err != nil {
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
func (r *trainer) begin(stream device.Stream) (err error) {
	if r.alloc, err = memory.For(r.dev); err != nil {
		return err
	}
	if r.Plan && r.Mode == eager { // a captured step has its memory from a pool of its own
		if r.plan, err = stepplan.Begin(r.alloc); err != nil {
			return err
		}
	}
	if r.exec, err = tensor.On(r.dev, tensor.WithStream(stream)); err != nil {
		return err
	}
	if r.start, err = r.newStart(r.exec, true); err != nil {
		return err
	}
	if err := r.To(r.dev, nn.Seed(1), nn.WithStream(stream)); err != nil {
		return err
	}
	if r.Start != "" {
		if err := r.load(r.Start); err != nil {
			return err
		}
	}
	var more []optim.Option
	if r.Mode == graph {
		more = append(more, optim.Capturable())
		if r.loss, err = tensor.Zeros(r.exec, tensor.Float32); err != nil {
			return err
		}
	}
	r.opt = r.optimizer(r.Parameters(), more...)
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

func (r *trainer) release() {
	r.loss.Release()
	r.casts.Release()
	r.scaler.Release()
	if r.opt != nil {
		r.opt.Release()
	}
	if r.start != nil {
		r.start.Release()
	}
}

// measure takes the steps that do not count and then the runs.
func (r *trainer) measure() error {
	seconds, l, err := r.timed(1, r.step)
	if err != nil {
		return fmt.Errorf("the first step: %w", err)
	}
	if r.computes() {
		l.First = seconds
		if err := r.out.Encode(l); err != nil {
			return err
		}
	}
	if r.Warm > 1 {
		if _, _, err := r.timed(r.Warm-1, r.step); err != nil {
			return err
		}
	}
	if c, ok := r.alloc.(*memory.Caching); ok {
		c.ResetPeakStats()
	}
	if r.Mode == graph {
		return r.replay()
	}
	return r.runs(r.step)
}

// replay is runs of a captured step.
func (r *trainer) replay() (err error) {
	c, ok := r.alloc.(*memory.Caching)
	if !ok {
		return errors.New("only the caching allocator captures graphs")
	}
	if err := c.EmptyCache(); err != nil { // as PyTorch does before a capture
		return err
	}
	stream := r.exec.Stream()
	g, err := c.CaptureGraph(stream, func() error { return r.captured() })
	if err != nil {
		return fmt.Errorf("capturing a step: %w", err)
	}
	defer func() { err = errors.Join(err, stream.Synchronize(context.Background()), g.Close()) }()
	return r.runs(func(read bool) (*tensor.Tensor, error) {
		if err := g.Replay(stream); err != nil || !read {
			return nil, err
		}
		return r.loss.Clone()
	})
}

// captured is a step that leaves its loss where replays find it.
func (r *trainer) captured() error {
	loss, err := r.step(true)
	if err != nil {
		return err
	}
	defer loss.Release()
	return r.loss.CopyFrom(loss)
}

func (r *trainer) runs(step func(read bool) (*tensor.Tensor, error)) error {
	return r.profiled(r.Runs*r.Steps, func() error { return r.allRuns(step) })
}

func (r *trainer) allRuns(step func(read bool) (*tensor.Tensor, error)) error {
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
	r.casts.Release() // the weights are about to change
	if err = r.scaler.Step(r.opt); err != nil {
		return loss, err
	}
	if err = r.scaler.Update(); err != nil {
		return loss, err
	}
	r.opt.ZeroGrad()
	return loss, nil
}

// gradients goes forward and backward.
func (r *trainer) gradients(read bool) (*tensor.Tensor, error) {
	opts := []autograd.Option{autograd.WithStream(r.exec.Stream()), autograd.WithPlan(r.plan)}
	if r.AMP != "off" {
		opts = append(opts, amp.Autocast(precisions[r.AMP], r.casts))
	}
	g := autograd.NewGraph(r.dev, opts...)
	defer g.Release()
	loss := g.Scope(func() *autograd.Variable {
		logits := r.net.Forward(g.Input(r.x.Tensor()))
		return logits.Reshape(r.y.Len(), logits.Dim(-1)).CrossEntropy(g.Input(r.y.Tensor()))
	})
	if read {
		loss.Keep()
	}
	if err := r.scaler.Backward(loss); err != nil || !read {
		return nil, err
	}
	return loss.Take()
}
