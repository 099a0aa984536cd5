package soak

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// run is a program that trains.
type run struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	dev   device.Device
	alloc *memory.Caching
	exec  tensor.Exec
	gen   *tensor.Generator
	set   data.Dataset
	file  string

	model    nn.Layer
	opt      *optim.Grouped
	schedule *optim.Schedule
	scaler   *amp.GradScaler
}

const width = 16

func newRun(t *testing.T, seed uint64) *run {
	t.Helper()
	r := &run{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), dev: host.New(), gen: tensor.NewGenerator(seed)}
	alloc, exec := open(t, r.dev)
	r.alloc, r.exec, r.file = alloc.(*memory.Caching), exec, filepath.Join(t.TempDir(), "run.safetensors")
	x, y := make([]float32, 200*width), make([]int64, 200)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	for i := range y {
		y[i] = int64(i % 4)
	}
	var err error
	r.set, err = data.Slices(x, []int{width}, y, nil)
	require.NoError(t, err)
	r.model = nn.Sequential(nn.Linear(width, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Checkpointed(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1),
		nn.GELU())), nn.LayerNorm([]int{64}), nn.Linear(64, 4))
	require.NoError(t, r.model.To(r.dev, nn.WithAllocator(r.alloc), nn.Seed(seed)))
	r.opt = optim.AdamW(r.model.Parameters(), optim.LR(1e-3))
	r.schedule = optim.StepLR(r.opt, 100, 0.99)
	r.scaler = amp.NewGradScaler(amp.InitScale(1024))
	t.Cleanup(func() {
		r.model.Release()
		r.opt.Release()
		r.scaler.Release()
		require.Zero(t, r.allocated(), "bytes were lost")
	})
	return r
}

func (r *run) allocated() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }

func (r *run) ones(n int) *tensor.Tensor {
	t, err := tensor.Ones(r.exec, tensor.Float32, n)
	require.NoError(r.t, err)
	return t
}

// event is something that happens to a program. It returns an error only if it was not what was to happen.
type event struct {
	name string
	run  func(r *run) error
}

var events = []event{
	{"step", func(r *run) error { return r.step() }},
	{"step in float16", func(r *run) error { return r.step(amp.Autocast(tensor.Float16)) }},
	{"step with offloading", func(r *run) error { return r.step(autograd.WithSavedTensorHooks(autograd.SaveOnCPU(false))) }},
	{"step with anomaly detection", func(r *run) error { return r.step(autograd.DetectAnomaly()) }},
	{"epoch", (*run).epoch},
	{"checkpoint", (*run).saveAndLoad},
	{"states", (*run).states},
	{"loop that is left", (*run).leaveLoop},
	{"loop that panics", func(r *run) error {
		thrown, _, _ := attempt(func() error {
			for range r.loader(8).Batches() {
				panic(panicked)
			}
			return nil
		})
		return wants(thrown == panicked, "%v", thrown)
	}},
	{"overflow", (*run).overflow},
	{"bad shapes", func(r *run) error {
		err := r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable { return y.View(7) })
		var shape *tensor.ShapeError
		return wants(errors.As(err, &shape), "%v", err)
	}},
	{"hook that panics", func(r *run) error {
		thrown, _, _ := attempt(func() error {
			return r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable {
				y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { panic(panicked) })
				return y.Exp().Sum(nil, false)
			})
		})
		return wants(thrown == panicked, "%v", thrown)
	}},
	{"hook that fails", func(r *run) error {
		p := r.model.Parameters()[0]
		defer p.RegisterHook(func(t *tensor.Tensor) (*tensor.Tensor, error) { return t.Retain(), errUser }).Remove()
		err := r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable { return y.Sum(nil, false) })
		return wants(errors.Is(err, errUser), "%v", err)
	}},
	{"graph that is released in the middle", func(r *run) error {
		err := r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable {
			y.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { g.Release(); return nil, nil })
			return y.Exp().Sum(nil, false)
		})
		return wants(errors.Is(err, autograd.ErrReleased), "%v", err)
	}},
	{"out of memory by the limit", (*run).limited},
	{"out of memory on a small device", smallDevice},
	{"stream", (*run).newStream},
	{"pool", (*run).newPool},
	{"allocator and history", (*run).newAllocator},
	{"cache given back", func(r *run) error { return r.alloc.EmptyCache() }},
}

func wants(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("not what was expected: "+format, args...)
}

func (r *run) loader(batch int) *data.Loader {
	return data.NewLoader(r.dev, r.set, batch, data.WithAllocator(r.alloc), data.Shuffle(r.gen))
}

// forward runs the model on a batch of some size, and goes backward from what f makes of its result.
func (r *run) forward(f func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable, opts ...autograd.Option) error {
	for x := range r.loader(2 + r.rng.IntN(100)).Batches() {
		g := autograd.NewGraph(r.dev, append(opts, autograd.WithAllocator(r.alloc), autograd.WithGenerator(r.gen))...)
		defer g.Release()
		return f(g, r.model.Forward(g.Input(x))).Backward()
	}
	return nil
}

// step trains on one batch of a random size.
func (r *run) step(opts ...autograd.Option) error {
	l := r.loader(2 + r.rng.IntN(100))
	for x, y := range l.Batches() {
		return r.train(x, y, opts...)
	}
	return l.Err()
}

func (r *run) train(x, y *tensor.Tensor, opts ...autograd.Option) error {
	g := autograd.NewGraph(r.dev, append(opts, autograd.WithAllocator(r.alloc), autograd.WithGenerator(r.gen))...)
	defer g.Release()
	if err := r.scaler.Backward(r.model.Forward(g.Input(x)).CrossEntropy(g.Input(y))); err != nil {
		return err
	}
	return errors.Join(r.scaler.Step(r.opt), r.scaler.Update(), r.schedule.Step())
}

func (r *run) epoch() error {
	l := r.loader(64)
	for x, y := range l.Batches() {
		if err := r.train(x, y); err != nil {
			return err
		}
		r.opt.ZeroGrad()
	}
	return l.Err()
}

func (r *run) leaveLoop() error {
	l, left := r.loader(8), r.rng.IntN(5)
	for x, y := range l.Batches() {
		if left--; left < 0 {
			break
		}
		if err := r.train(x, y); err != nil {
			return err
		}
	}
	return l.Err()
}

// overflow trains on an input that is infinite: the step is left out and the scale falls.
func (r *run) overflow() error {
	x, err := tensor.Full(r.exec, math.Inf(1), tensor.Float32, 3, width)
	if err != nil {
		return err
	}
	defer x.Release()
	y, err := tensor.Zeros(r.exec, tensor.Int64, 3)
	if err != nil {
		return err
	}
	defer y.Release()
	eval, train := nn.Eval, nn.Train // running statistics stay finite
	eval(r.model)
	defer train(r.model)
	if err := r.train(x, y); err != nil {
		return err
	}
	r.scaler.SetGrowthFactor(2)
	return r.scaler.Update(amp.NewScale(1024))
}

func (r *run) state() *checkpoint.Checkpoint {
	return checkpoint.New().Add("model", checkpoint.Module(r.model)).Add("opt", checkpoint.Optimizer(r.opt)).
		Add("schedule", checkpoint.State(r.schedule)).Add("scaler", checkpoint.State(r.scaler)).Add("gen", checkpoint.Generator(r.gen))
}

func (r *run) saveAndLoad() error {
	if err := r.state().WriteFile(context.Background(), r.file); err != nil {
		return err
	}
	if err := r.state().ReadFile(context.Background(), r.file); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := errors.Join(r.state().WriteFile(ctx, r.file), r.state().ReadFile(ctx, r.file))
	return wants(errors.Is(err, context.Canceled), "%v", err)
}

// states takes the states of optimizer, scaler and schedule out and puts them back, after one that does not fit.
func (r *run) states() error {
	d, err := r.opt.StateDict()
	if err != nil {
		return err
	}
	wrong := d
	wrong.Groups = nil
	if err := r.opt.LoadStateDict(wrong); err == nil {
		return errors.New("a state without groups was loaded")
	}
	sc, err := r.scaler.State()
	if err != nil {
		return err
	}
	sch, err := r.schedule.State()
	if err != nil {
		return err
	}
	return errors.Join(r.opt.LoadStateDict(d), r.scaler.LoadState(sc), r.schedule.LoadState(sch))
}

// limited trains with so little memory that a batch does not fit.
func (r *run) limited() error {
	if err := r.alloc.EmptyCache(); err != nil {
		return err
	}
	r.alloc.SetMemoryLimit(uint64(r.alloc.Stats().ReservedBytes.All.Current))
	defer r.alloc.SetMemoryLimit(0)
	err := r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable {
		return y.Repeat(1<<10, 1<<8).Exp().Sum(nil, false)
	})
	return wants(errors.Is(err, memory.ErrLimit), "%v", err)
}

// smallDevice trains on a device of its own until its memory is full.
func smallDevice(r *run) (err error) {
	dev := sim.New(8 << 20)
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alloc.Close(), dev.Close()) }()
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		return err
	}
	m := nn.Linear(64, 64)
	defer m.Release()
	if err := m.To(dev, nn.WithAllocator(alloc)); err != nil {
		return err
	}
	g := autograd.NewGraph(dev, autograd.WithAllocator(alloc))
	defer g.Release()
	x := g.New(func(tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2000, 64) })
	for range 20 {
		x = m.Forward(x)
	}
	failed := x.Sum(nil, false).Backward()
	return wants(errors.Is(failed, memory.ErrDeviceFull), "%v", failed)
}

// newStream trains on a stream that lives for one step.
func (r *run) newStream() error {
	s, err := r.dev.NewStream()
	if err != nil {
		return err
	}
	err = r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable { return y.Exp().Sum(nil, false) }, autograd.WithStream(s))
	r.opt.ZeroGrad()
	return errors.Join(err, s.Synchronize(context.Background()), s.Close())
}

// newPool trains in the memory of a private pool that lives for one step.
func (r *run) newPool() error {
	p := r.alloc.NewPool()
	if err := r.alloc.BeginRoute(p, func(device.Stream) bool { return true }); err != nil {
		return err
	}
	err := r.forward(func(g *autograd.Graph, y *autograd.Variable) *autograd.Variable { return y.Exp().Sum(nil, false) })
	r.opt.ZeroGrad()
	return errors.Join(err, r.alloc.EndRoute(p), p.Close())
}

// newAllocator opens a second allocator of the device, with history, for one inference.
func (r *run) newAllocator() (err error) {
	alloc, err := memory.New(r.dev, memory.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alloc.Close()) }()
	if err := alloc.RecordHistory(memory.HistoryOptions{}); err != nil {
		return err
	}
	m := nn.Linear(width, 4)
	defer m.Release()
	if err := m.To(r.dev, nn.WithAllocator(alloc)); err != nil {
		return err
	}
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(alloc), autograd.NoGrad())
	defer g.Release()
	y := m.Forward(g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 5, width) }))
	_, failed := y.Float64s()
	_ = alloc.Snapshot()
	return failed
}
