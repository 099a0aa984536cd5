package memreport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/oplabel"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// rig is a device with an allocator of its own.
type rig struct {
	t     *testing.T
	dev   device.Device
	alloc *memory.Caching
	exec  tensor.Exec
}

func newRig(t *testing.T, dev device.Device) *rig {
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.False(t, oplabel.Wanted(), "labels are still wanted")
		require.Zero(t, oplabel.Current(), "this goroutine has a label")
		require.NoError(t, alloc.Close())
	})
	return &rig{t, dev, alloc, e}
}

// program is a model, its optimizer, and data.
type program struct {
	*rig
	model         nn.Layer
	opt           optim.Optimizer
	input, target *tensor.Tensor
}

func (r *rig) program(model nn.Layer, opt func([]*autograd.Parameter) optim.Optimizer, input, target func(e tensor.Exec) (*tensor.Tensor, error)) *program {
	require.NoError(r.t, model.To(r.dev, nn.WithAllocator(r.alloc)))
	p := &program{rig: r, model: model, opt: opt(model.Parameters())}
	var err error
	p.input, err = input(r.exec)
	require.NoError(r.t, err)
	p.target, err = target(r.exec)
	require.NoError(r.t, err)
	return p
}

func (p *program) release() {
	p.model.Release()
	p.opt.Release()
	p.opt.ZeroGrad()
	p.input.Release()
	p.target.Release()
}

// step is a training step.
func (p *program) step(opts ...autograd.Option) error {
	g := autograd.NewGraph(p.dev, append(opts, autograd.WithAllocator(p.alloc))...)
	defer g.Release()
	y := p.model.Forward(g.Input(p.input))
	loss := y.Reshape(-1, y.Dim(-1)).CrossEntropy(g.Input(p.target))
	if err := loss.Backward(); err != nil {
		return err
	}
	g.Release()
	if err := p.opt.Step(); err != nil {
		return err
	}
	p.opt.ZeroGrad()
	return nil
}

func mlp(r *rig, opt func([]*autograd.Parameter) optim.Optimizer) *program {
	return r.program(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), opt, values(32, 64), classes(32))
}

func cnn(r *rig, opt func([]*autograd.Parameter) optim.Optimizer) *program {
	m := nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(1), nn.Linear(8*7*7, 10))
	return r.program(m, opt, values(4, 3, 16, 16), classes(4))
}

func gpt(r *rig, opt func([]*autograd.Parameter) optim.Optimizer) *program {
	layers := []nn.Layer{nn.Embedding(50, 32)}
	for range 3 {
		layers = append(layers, nn.Checkpointed(nn.TransformerBlock(32, 4, nn.NormFirst(), nn.CausalBlock(), nn.ActivationGELU())))
	}
	layers = append(layers, nn.LayerNorm([]int{32}), nn.Linear(32, 50))
	return r.program(nn.Sequential(layers...), opt, func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Int64, 2, 16) }, classes(32))
}

func values(shape ...int) func(e tensor.Exec) (*tensor.Tensor, error) {
	return func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, shape...) }
}

func classes(n int) func(e tensor.Exec) (*tensor.Tensor, error) {
	return func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Int64, n) }
}

func sgd(ps []*autograd.Parameter) optim.Optimizer {
	return optim.SGD(ps, optim.LR(0.1), optim.Momentum(0.9))
}
func adam(ps []*autograd.Parameter) optim.Optimizer { return optim.Adam(ps) }

var models = map[string]func(*rig, func([]*autograd.Parameter) optim.Optimizer) *program{"mlp": mlp, "cnn": cnn, "gpt": gpt}

// requireExact checks that each way to divide the peak adds up to it.
func requireExact(t *testing.T, rep *memreport.Report, peak uint64) {
	t.Helper()
	require.Equal(t, peak, rep.Peak, "the peak is the allocator's")
	require.Equal(t, peak, rep.AtPeak.Total(), "categories")
	for what, rows := range map[string][]memreport.Row{"modules": rep.Modules, "operations": rep.Operations, "breakdown": rep.Breakdown} {
		var sum, moved, saved uint64
		for _, r := range rows {
			sum += r.AtPeak.Total()
			moved += r.Allocated - r.Freed
			saved += r.Saved
		}
		require.Equal(t, peak, sum, what)
		require.Equal(t, rep.End-rep.Start, moved, "%s: allocated less freed", what)
		require.NotZero(t, saved, what)
	}
}

// requireCategories compares a report with what the program knows of its memory.
func requireCategories(t *testing.T, p *program, rep *memreport.Report, step int) {
	t.Helper()
	var parameters uint64
	for _, n := range nn.NamedState(p.model) {
		parameters += n.Parameter.Tensor().StorageBytes()
	}
	require.Equal(t, parameters, rep.AtPeak.Parameters)
	if step > 0 {
		require.Equal(t, p.opt.StateBytes(), rep.AtPeak.OptimizerState)
	}
	require.Equal(t, p.input.StorageBytes()+p.target.StorageBytes(), rep.AtPeak.Inputs)
	require.NotZero(t, rep.AtPeak.Activations+rep.AtPeak.Gradients)
	require.Zero(t, rep.AtPeak.Other, "everything belongs to something")
}

func TestMeasure_DividesThePeakToTheByte(t *testing.T) {
	for name, model := range models {
		for optName, opt := range map[string]func([]*autograd.Parameter) optim.Optimizer{"SGD": sgd, "Adam": adam} {
			for on, dev := range map[string]device.Device{"host": host.New(), "sim": sim.New(device.GiB)} {
				t.Run(name+"/"+optName+"/"+on, func(t *testing.T) {
					r := newRig(t, dev)
					p := model(r, opt)
					for i := range 2 {
						r.alloc.ResetPeakStats()
						rep, err := memreport.Measure(dev, func() error { return p.step() }, memreport.WithAllocator(r.alloc))
						require.NoError(t, err)
						requireCategories(t, p, rep, i)
						requireExact(t, rep, uint64(r.alloc.Stats().AllocatedBytes.All.Peak))
						require.Equal(t, uint64(r.alloc.Stats().AllocatedBytes.All.Current), rep.End)
					}
					p.release()
					require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current)
				})
			}
		}
	}
}

// A model or optimizer that is nil is a mistake of the caller, not nothing to look at.
func TestStart_RefusesNilModels(t *testing.T) {
	dev := sim.New(device.GiB)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	rec, err := memreport.Start(dev)
	require.NoError(t, err)
	defer rec.Stop()
	for _, m := range []nn.Module{nil, (*nn.LinearLayer)(nil)} {
		_, err := memreport.Start(dev, memreport.WithModel(m))
		for _, err := range []error{err, rec.Add(memreport.WithModel(m))} {
			var wrong *memory.ArgumentError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, "memreport.WithModel", wrong.Call)
		}
	}
}
