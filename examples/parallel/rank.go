package main

import (
	"context"
	"errors"
	"time"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/stepplan"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// figures are those of a rank, or of all.
type figures struct {
	first  int       // step
	losses []float64 // of the rank's part of each step
	held   uint64    // bytes between steps
	peak   uint64    // most bytes at one time in a step
	sent   int64     // bytes, in a step
	second float64   // for a step

	reserved uint64           // most bytes at one time
	plan     memory.PlanStats // zero without one
}

// rank is one in training.
type rank struct {
	*options
	*work
	dev    device.Device
	comm   comm.Comm
	exec   tensor.Exec
	d      *parallel.DataParallel
	opt    *optim.Grouped
	scaler *amp.GradScaler
	from   int          // the first step
	plan   *memory.Plan // of -plan
}

// train is what a rank does, simulated or not. With share the figures of all ranks are exchanged.
func (o *options) trainRank(w *work, dev device.Device, c comm.Comm, steps int) (f figures, all [][]float64, err error) {
	r := &rank{options: o, work: w, dev: dev, comm: c}
	if r.exec, err = tensor.On(dev); err != nil {
		return f, nil, err
	}
	if o.Plan {
		if r.plan, err = stepplan.Begin(r.exec.Allocator()); err != nil {
			return f, nil, err
		}
		defer func() { err = errors.Join(err, r.plan.Close()) }()
	}
	model, err := w.model()
	if err != nil {
		return f, nil, err
	}
	if err := model.To(dev, nn.Seed(o.Seed)); err != nil {
		return f, nil, err
	}
	defer model.Release()
	if r.d, err = parallel.Data(model, c, parallel.ZeRO(o.ZeRO)); err != nil {
		return f, nil, err
	}
	defer func() { err = errors.Join(err, r.d.Close()) }()
	r.opt = optim.AdamW(r.d.Parameters(), optim.LR(o.LR))
	defer r.opt.Release()
	r.scaler = amp.NewGradScaler(amp.Enabled(o.AMP == "fp16"), amp.AgreedBy(r.d))
	defer r.scaler.Release()
	if err := r.goOn(); err != nil {
		return f, nil, err
	}
	if f, err = r.steps(steps); err != nil {
		return f, nil, err
	}
	if err := r.keep(r.from + steps); err != nil {
		return f, nil, err
	}
	own := []float64{float64(f.held), float64(f.peak), float64(f.sent), f.second, float64(f.first), float64(f.reserved), float64(f.plan.Served), float64(f.plan.Deviations())}
	all, err = r.d.Gather(append(own, f.losses...)...)
	return f, all, err
}

// checkpoint is what a run goes on from.
func (r *rank) checkpoint() *parallel.Checkpoint {
	return parallel.NewCheckpoint(r.d).Optimizer("optimizer", r.opt).Add("scaler", checkpoint.State(r.scaler))
}

// goOn reads the checkpoint that -resume names. A simulated rank has none: what it is for, memory, does not depend on values.
func (r *rank) goOn() error {
	if r.resume == "" || !r.exec.Computes() {
		return nil
	}
	saved, err := r.checkpoint().Read(context.Background(), r.resume)
	r.from = saved.Step
	return err
}

// keep writes the checkpoint that -save names.
func (r *rank) keep(step int) error {
	if r.save == "" || !r.exec.Computes() {
		return nil
	}
	return r.checkpoint().Write(context.Background(), r.save, step)
}

// steps trains, and measures from the first step on.
func (r *rank) steps(steps int) (f figures, err error) {
	if err := memory.ResetPeak(r.dev); err != nil { // that of making the model whole
		return f, err
	}
	before, start := r.comm.Stats().Total().Bytes, time.Now()
	f.first = r.from
	for step := r.from; step < r.from+steps; step++ {
		loss, err := r.step(step)
		if err != nil {
			return f, err
		}
		f.losses = append(f.losses, loss)
	}
	if err := r.exec.Stream().Synchronize(context.Background()); err != nil {
		return f, err
	}
	f.second = time.Since(start).Seconds() / float64(steps)
	f.sent = (r.comm.Stats().Total().Bytes - before) / int64(steps)
	f.peak, f.held, f.reserved = memory.MaxAllocated(r.dev), memory.Allocated(r.dev), memory.MaxReserved(r.dev)
	if r.plan != nil {
		f.plan = r.plan.Stats()
	}
	return f, nil
}

// step trains on the rank's part of a batch.
func (r *rank) step(step int) (loss float64, err error) {
	for part := range r.Accumulate {
		pass := func() error {
			v, err := r.pass(step, part)
			loss += v
			return err
		}
		if part < r.Accumulate-1 {
			err = r.d.NoSync(pass)
		} else {
			err = pass()
		}
		if err != nil {
			return 0, err
		}
	}
	if err := r.scaler.Unscale(r.opt); err != nil {
		return 0, err
	}
	if err := r.d.ClipGradNormAsync(r.Clip); err != nil {
		return 0, err
	}
	if err := r.scaler.Step(r.opt); err != nil {
		return 0, err
	}
	r.opt.ZeroGrad()
	return loss, r.scaler.Update()
}

// pass goes forward and backward over a part of the rank's examples, and returns the part of the loss that it is.
func (r *rank) pass(step, part int) (float64, error) {
	rows := r.Batch / r.comm.Size() / r.Accumulate
	x, y, err := r.batch(r.exec, step, (part*r.comm.Size()+r.comm.Rank())*rows, rows)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	defer y.Release()
	opts := r.autocast()
	if part == 0 { // the first part's graph begins the step
		opts = append(opts, autograd.WithPlan(r.plan))
	}
	g := autograd.NewGraph(r.dev, opts...)
	defer g.Release()
	loss := r.loss(r.d.Forward(g.Input(x)), g.Input(y)).MulScalar(1 / float64(r.Accumulate))
	if err := r.scaler.Backward(loss); err != nil {
		return 0, err
	}
	return loss.Item()
}

func (r *rank) autocast() []autograd.Option {
	switch r.AMP {
	case "bf16":
		return []autograd.Option{amp.Autocast(tensor.BFloat16)}
	case "fp16":
		return []autograd.Option{amp.Autocast(tensor.Float16)}
	}
	return nil
}
