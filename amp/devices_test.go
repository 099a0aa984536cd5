package amp_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// waits are the calls of the driver that block the host.
func waits(d *sim.Device) (n uint64) {
	c := d.Calls().Count
	for _, kind := range []sim.CallKind{sim.CallCopyToHost, sim.CallStreamSync, sim.CallDeviceSync, sim.CallEventSync} {
		n += c[kind]
	}
	return n
}

// unfused hides that an optimizer is a FusedStepper.
type unfused struct{ opt *optim.Grouped }

func (u *unfused) Parameters() []*autograd.Parameter { return u.opt.Parameters() }
func (u *unfused) Step() error                       { return u.opt.Step() }

func TestScaling_WaitsForTheDeviceOnlyToDecideAStepThatIsNotFused(t *testing.T) {
	dev := sim.New(1 << 30)
	r := newRig(t, dev)
	ps := []*autograd.Parameter{r.param(1, 64, 64), r.param(1, 64)}
	opt := &unfused{optim.SGD(ps)}
	s := amp.NewGradScaler()
	defer s.Release()
	for range 3 {
		g := r.graph(amp.Autocast(tensor.Float16))
		x := g.Input(r.full(1, tensor.Float32, 64, 64))
		require.NoError(t, s.Backward(x.Linear(g.Param(ps[0]), g.Param(ps[1])).Sum(nil, false)))
		g.Release()
		require.NoError(t, s.Unscale(opt))
		before := waits(dev)
		require.NoError(t, s.Step(opt))
		require.Equal(t, before+1, waits(dev), "the decision")
		require.NoError(t, s.Update())
		opt.opt.ZeroGrad()
		require.Equal(t, before+1, waits(dev))
	}
	require.EqualValues(t, 3, waits(dev))
}

func TestUnscale_IsOneLaunchForAllGradientsOfAType(t *testing.T) {
	dev := sim.New(1 << 30)
	r := newRig(t, dev)
	opt := &counter{}
	for range 50 {
		opt.params = append(opt.params, r.with(r.param(0, 2), tensor.Float32, 1, 2))
	}
	s := r.scaled()
	before := dev.Calls().Count[sim.CallSubmit]
	require.NoError(t, s.Unscale(opt))
	require.EqualValues(t, 3+1, dev.Calls().Count[sim.CallSubmit]-before, "three launches for 1/scale, one for 50 gradients")
}

func TestScaling_OnSeveralDevices(t *testing.T) {
	a, b := onHost(t), onHost(t)
	s := amp.NewGradScaler(amp.InitScale(8), amp.GrowthInterval(1))
	defer s.Release()
	opt := &counter{params: []*autograd.Parameter{a.param(1, 1), b.param(1, 1)}}
	backward := func(overflow float64) {
		for i, r := range []*rig{a, b} {
			opt.params[i].ZeroGrad()
			g := r.graph()
			require.NoError(t, s.Backward(g.Param(opt.params[i]).MulScalar(3).Sum(nil, false)))
			g.Release()
		}
		if overflow != 0 {
			a.with(opt.params[0], tensor.Float32, 1)
			b.with(opt.params[1], tensor.Float32, overflow)
		}
	}
	backward(0)
	require.Equal(t, 24.0, item(t, opt.params[1].Grad()))
	require.NoError(t, s.Unscale(opt))
	found := s.FoundInf(opt)
	require.Len(t, found, 2, "one flag for each device")
	require.Equal(t, a.dev.ID(), found[0].Device().ID())
	require.Equal(t, b.dev.ID(), found[1].Device().ID())
	require.Equal(t, 3.0, item(t, opt.params[0].Grad()))
	require.Equal(t, 3.0, item(t, opt.params[1].Grad()))
	require.NoError(t, s.Step(opt))
	require.NoError(t, s.Update())
	require.Equal(t, 16.0, scaleOf(t, s))

	backward(math.Inf(1))
	require.NoError(t, s.Step(opt))
	require.True(t, skipped(t, s, opt), "the gradient of the other device overflowed")
	require.Equal(t, []float64{0, 1}, []float64{item(t, s.FoundInf(opt)[0]), item(t, s.FoundInf(opt)[1])})
	require.NoError(t, s.Update())
	require.Equal(t, 8.0, scaleOf(t, s))
	require.Equal(t, 1, opt.steps)
}

// ordering is what a simulated device was asked to do on several streams: launches, records and waits, with the stream's number.
func ordering(calls []sim.Call) (log []string) {
	names := map[sim.CallKind]string{
		sim.CallSubmit: "launch", sim.CallEventRecord: "record", sim.CallStreamWait: "wait", sim.CallCopyToHost: "read",
	}
	for _, c := range calls {
		if name := names[c.Kind]; name != "" {
			log = append(log, fmt.Sprint(name, " ", c.Stream))
		}
	}
	return log
}

// The scaler lives on stream 1, the graph on 2, the parameters on 3: everything that reads or writes what another stream has
// written or read waits for it.
func TestScaling_OrdersTheStreams(t *testing.T) {
	var calls []sim.Call
	dev := sim.New(1<<30, sim.OnCall(func(c sim.Call) { calls = append(calls, c) }))
	r := newRig(t, dev)
	on := func(s device.Stream) tensor.Exec {
		e, err := tensor.On(dev, tensor.WithStream(s), tensor.WithAllocator(r.alloc))
		require.NoError(t, err)
		return e
	}
	step := func(f func() error) []string {
		t.Helper()
		calls = nil
		require.NoError(t, f())
		return ordering(calls)
	}
	home, graphs, params := on(r.newStream()), on(r.newStream()), on(r.newStream())
	s := amp.NewGradScaler()
	defer s.Release()
	x := r.keep(tensor.Ones(home, tensor.Float32))
	r.keep(s.ScaleTensor(x))
	y := r.keep(tensor.Ones(graphs, tensor.Float32))
	require.Equal(t, []string{"record 1", "wait 2", "launch 2", "record 2", "wait 1"}, step(func() error {
		scaled, err := s.ScaleTensor(y)
		scaled.Release()
		return err
	}))

	w, err := tensor.Ones(params, tensor.Float32)
	require.NoError(t, err)
	p := autograd.NewParameter("w", w)
	defer p.Release()
	g := r.graph(autograd.WithStream(graphs.Stream()))
	loss := g.Param(p).MulScalar(1)
	require.Equal(t, []string{"record 1", "wait 2", "launch 2", "record 2", "wait 1"}, step(func() error {
		loss = s.Scale(loss)
		return g.Err()
	}))
	done := step(func() error { return loss.Backward() })
	require.ElementsMatch(t, []string{"record 2", "wait 3", "record 2", "wait 1"}, done[len(done)-4:], "at the end of backward")
	g.Release()

	opt := optim.SGD([]*autograd.Parameter{p})
	require.Equal(t, []string{"launch 1", "launch 1", "launch 1", "record 3", "wait 1", "launch 1", "record 1", "wait 3"},
		step(func() error { return s.Unscale(opt) }))
	require.Equal(t, []string{"record 1", "wait 3", "launch 3", "record 3", "wait 1"}, step(func() error { return s.Step(opt) }))
	require.Equal(t, []string{"launch 1", "record 3"}, step(func() error { return s.Update() }), "the flag is freed after its use on 3")
	require.Equal(t, []string{"launch 1", "launch 1", "launch 1", "record 3", "wait 1", "launch 1", "record 1", "wait 3", "read 1", "launch 3"},
		step(func() error { return s.Step(&unfused{opt}) }))
	require.NoError(t, s.Update())

	f := &blind{counter{params: []*autograd.Parameter{p}}}
	require.Equal(t, []string{"launch 1", "record 3", "wait 1", "launch 1", "record 1", "wait 3", "record 1", "wait 3", "record 3", "wait 1"},
		step(func() error { return s.Step(f) }))
	other := r.keep(tensor.Ones(graphs, tensor.Float32))
	require.Equal(t, []string{"record 2", "wait 1", "record 1", "wait 2"},
		step(func() error { return s.Update(amp.NewScaleTensor(other)) }))
}

func TestStep_WaitsOnceForEachStreamOfTheParameters(t *testing.T) {
	var calls []sim.Call
	r, other := newRig(t, sim.New(1<<30, sim.OnCall(func(c sim.Call) { calls = append(calls, c) }))), onSim(t)
	param := func(r *rig, s device.Stream) *autograd.Parameter {
		e, err := tensor.On(r.dev, tensor.WithStream(s), tensor.WithAllocator(r.alloc))
		require.NoError(t, err)
		w, err := tensor.Ones(e, tensor.Float32)
		require.NoError(t, err)
		p := autograd.NewParameter("w", w)
		t.Cleanup(p.Release)
		g, err := tensor.Ones(e, tensor.Float32)
		require.NoError(t, err)
		require.NoError(t, p.SetGrad(g))
		return p
	}
	home, near, far := r.dev.DefaultStream(), r.newStream(), other.newStream()
	require.Equal(t, near.ID(), far.ID(), "streams of two devices have the same numbers")
	opt := &blind{counter{params: []*autograd.Parameter{param(other, far), param(r, near), param(r, near), param(r, home)}}}
	s := r.scaled()
	require.NoError(t, s.Unscale(opt))
	calls = nil
	require.NoError(t, s.Step(opt))
	order := slices.DeleteFunc(ordering(calls), func(call string) bool { return strings.HasPrefix(call, "launch") })
	require.Equal(t, []string{"record 0", "wait 1", "record 1", "wait 0"}, order)
}

// newStream makes a stream that is closed before its device.
func (r *rig) newStream() device.Stream {
	r.t.Helper()
	s, err := r.dev.NewStream()
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, s.Close()) })
	return s
}

// Graphs, parameters and scaler on three asynchronous streams give the numbers of one inline stream.
func TestScaling_OnSeveralStreamsGivesTheSameNumbers(t *testing.T) {
	train := func(r *rig, graphs, params device.Stream) (w, scale []float64) {
		m := nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
		require.NoError(t, m.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc), nn.WithStream(params)))
		defer m.Release()
		opt := optim.SGD(m.Parameters(), optim.LR(0.05))
		s := amp.NewGradScaler(amp.GrowthInterval(3), amp.InitScale(1<<15))
		defer s.Release()
		x, err := s.ScaleTensor(r.full(1, tensor.Float32)) // the scaler's stream is the default one
		require.NoError(t, err)
		x.Release()
		in := r.random(7, tensor.Float32, 8, 16)
		for range 12 {
			g := r.graph(amp.Autocast(tensor.Float16), autograd.WithStream(graphs))
			y := m.Forward(g.Input(in))
			require.NoError(t, s.Backward(y.MSELoss(g.Input(r.full(1, tensor.Float32, 8, 1)), autograd.MeanReduction)))
			g.Release()
			require.NoError(t, s.Unscale(opt))
			require.NoError(t, s.Step(opt))
			require.NoError(t, s.Update())
			opt.ZeroGrad()
			scale = append(scale, scaleOf(t, s))
		}
		require.NoError(t, r.dev.Synchronize(context.Background()))
		for _, p := range m.Parameters() {
			w = append(w, values(t, p.Tensor())...)
		}
		return w, scale
	}
	r := onHost(t)
	w, scales := train(r, r.dev.DefaultStream(), r.dev.DefaultStream())
	require.Contains(t, scales, 1.0*(1<<15))
	for range 5 {
		r := onHost(t)
		v, others := train(r, r.newStream(), r.newStream())
		require.Equal(t, w, v)
		require.Equal(t, scales, others)
	}
}
