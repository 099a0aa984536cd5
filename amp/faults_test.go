package amp_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// faultRig runs iterations on a simulated device without a cache, so that each allocation is a call of the driver. Graph,
// parameters and scaler are on three streams.
type faultRig struct {
	t      *testing.T
	dev    *sim.Device
	alloc  memory.Allocator
	graphs device.Stream
	params []*autograd.Parameter
	opt    *optim.Grouped
	fused  bool
	scaler *amp.GradScaler
}

func newFaultRig(t *testing.T, fused bool) *faultRig {
	r := &faultRig{t: t, fused: fused, dev: sim.New(1 << 30), scaler: amp.NewGradScaler()}
	r.alloc = memory.NewDirect(r.dev)
	graphs, err := r.dev.NewStream()
	require.NoError(t, err)
	other, err := r.dev.NewStream()
	require.NoError(t, err)
	r.graphs = graphs
	e, err := tensor.On(r.dev, tensor.WithAllocator(r.alloc), tensor.WithStream(other))
	require.NoError(t, err)
	for range 2 {
		w, err := tensor.Ones(e, tensor.Float32, 8, 8)
		require.NoError(t, err)
		r.params = append(r.params, autograd.NewParameter("w", w))
	}
	r.opt = optim.AdamW(r.params)
	t.Cleanup(func() {
		for _, p := range r.params {
			p.Release()
		}
		require.NoError(t, r.dev.Close())
	})
	return r
}

func (r *faultRig) allocated() int64 { return r.alloc.Stats().AllocatedBytes.All.Current }

// iteration stops at the first error, and lets go of what it had.
func (r *faultRig) iteration() error {
	home, err := tensor.On(r.dev, tensor.WithAllocator(r.alloc))
	if err != nil {
		return err
	}
	one, err := tensor.Ones(home, tensor.Float32)
	if err != nil {
		return err
	}
	defer one.Release()
	first, err := r.scaler.ScaleTensor(one) // puts the scaler on the default stream
	if err != nil {
		return err
	}
	first.Release()
	if err := r.backward(); err != nil {
		return err
	}
	gaps, err := r.params[1].Grad().T() // a gradient that is unscaled in a copy
	if err != nil {
		return err
	}
	require.NoError(r.t, r.params[1].SetGrad(gaps))
	if err := r.scaler.Step(r.stepper()); err != nil {
		return err
	}
	if err := r.elsewhere(one); err != nil {
		return err
	}
	if err := r.scaler.Update(); err != nil {
		return err
	}
	if _, err := r.scaler.State(); err != nil {
		return err
	}
	e, err := tensor.On(r.dev, tensor.WithAllocator(r.alloc), tensor.WithStream(r.graphs))
	if err != nil {
		return err
	}
	there := one.On(e)
	defer there.Release()
	if err := r.scaler.Update(amp.NewScaleTensor(there)); err != nil {
		return err
	}
	return r.scaler.LoadState(amp.State{Scale: 2, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 1})
}

// elsewhere scales a tensor of another stream than the scaler's, and has a second optimizer's gradients looked at.
func (r *faultRig) elsewhere(one *tensor.Tensor) error {
	e, err := tensor.On(r.dev, tensor.WithAllocator(r.alloc), tensor.WithStream(r.graphs))
	if err != nil {
		return err
	}
	there := one.On(e)
	defer there.Release()
	scaled, err := r.scaler.ScaleTensor(there)
	if err != nil {
		return err
	}
	scaled.Release()
	return r.scaler.Unscale(optim.SGD(r.params[:1]))
}

func (r *faultRig) stepper() amp.Optimizer {
	if r.fused {
		return r.opt
	}
	return &unfused{r.opt}
}

func (r *faultRig) backward() error {
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.WithStream(r.graphs), amp.Autocast(tensor.Float16))
	defer g.Release()
	return r.scaler.Backward(g.Param(r.params[0]).MatMul(g.Param(r.params[1])).Sum(nil, false))
}

// Every call of the driver fails once, in every place where an iteration makes it: the error comes out, and no memory stays.
func TestScaling_ReturnsEveryErrorOfTheDriverAndLosesNothing(t *testing.T) {
	for kind, least := range map[sim.CallKind]int{
		sim.CallMalloc: 18, sim.CallSubmit: 15, sim.CallFill: 3, sim.CallCopyToHost: 2,
		sim.CallEventCreate: 8, sim.CallEventRecord: 8, sim.CallStreamWait: 8, sim.CallEventClose: 8,
	} {
		for name, fused := range map[string]bool{"fused": true, "not fused": false} {
			t.Run(kind.String()+" "+name, func(t *testing.T) { newFaultRig(t, fused).failEach(kind, least) })
		}
	}
}

func (r *faultRig) failEach(kind sim.CallKind, least int) {
	base := r.allocated()
	cause := errors.New("injected")
	want := cause
	if kind == sim.CallMalloc {
		cause, want = device.ErrOutOfMemory, memory.ErrOutOfMemory
	}
	failed := 0
	for nth := 1; ; nth++ {
		r.dev.FailNext(kind, nth, cause)
		err := r.iteration()
		r.opt.ZeroGrad()
		r.opt.Release()
		r.scaler.Release()
		require.Equal(r.t, base, r.allocated(), "the parameters are left")
		if err == nil {
			break
		}
		require.ErrorIs(r.t, err, want)
		failed++
	}
	require.GreaterOrEqual(r.t, failed, least)
}
