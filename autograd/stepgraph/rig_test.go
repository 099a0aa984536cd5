package stepgraph_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// training is a model with what trains it: the step under test, whether it is captured or not.
type training struct {
	t      *testing.T
	dev    device.Device
	model  nn.Layer
	opt    *optim.Grouped
	scaler *amp.GradScaler
	gen    *tensor.Generator
	clip   float64 // no clipping if 0
	step   *stepgraph.Step
}

const (
	rows, inputs, outputs = 8, 6, 3
	dropout               = 0.25
)

// newTraining makes a model and its step. Those of one optimizer begin alike.
func newTraining(t *testing.T, dev device.Device, make func([]*autograd.Parameter) *optim.Grouped, opts ...stepgraph.Option) *training {
	t.Helper()
	r := &training{t: t, dev: dev, gen: tensor.NewGenerator(5), scaler: amp.NewGradScaler(amp.Enabled(false))}
	r.model = nn.Sequential(nn.Linear(inputs, 16), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm([]int{16}), nn.Linear(16, outputs))
	require.NoError(t, r.model.To(dev, nn.Seed(1)))
	r.opt = make(r.model.Parameters())
	var err error
	r.step, err = stepgraph.New(dev, r.run, append([]stepgraph.Option{stepgraph.Modules(r.model), stepgraph.WithGenerator(r.gen)}, opts...)...)
	require.NoError(t, err)
	return r
}

// run is the step.
func (r *training) run(_ *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
	loss := r.model.Forward(in[0]).MSELoss(in[1], autograd.MeanReduction)
	if err := r.scaler.Backward(loss); err != nil {
		return nil, err
	}
	if r.clip > 0 {
		if err := errors.Join(r.scaler.Unscale(r.opt), optim.ClipGradNormAsync(r.model.Parameters(), r.clip)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(r.scaler.Step(r.opt), r.scaler.Update()); err != nil {
		return nil, err
	}
	return []*autograd.Variable{loss}, nil
}

// batch is the data of a turn, on the device.
func (r *training) batch(turn, rows int) (x, y *tensor.Tensor) {
	r.t.Helper()
	e, err := tensor.On(r.dev)
	require.NoError(r.t, err)
	a, b := make([]float32, rows*inputs), make([]float32, rows*outputs)
	for i := range a {
		a[i] = float32((i*7+turn*13)%23-11) / 8
	}
	for i := range b {
		b[i] = float32((i*5+turn*11)%19-9) / 8
	}
	x, err = tensor.FromSlice(e, a, rows, inputs)
	require.NoError(r.t, err)
	y, err = tensor.FromSlice(e, b, rows, outputs)
	require.NoError(r.t, err)
	return x, y
}

// take takes a step with the data of a turn, and returns the loss.
func (r *training) take(turn int) float64 {
	r.t.Helper()
	loss, err := r.try(turn, rows, r.step.Run)
	require.NoError(r.t, err)
	return loss
}

func (r *training) try(turn, rows int, run func(...*tensor.Tensor) ([]*tensor.Tensor, error)) (float64, error) {
	r.t.Helper()
	x, y := r.batch(turn, rows)
	defer x.Release()
	defer y.Release()
	if turn == overflows {
		require.NoError(r.t, y.FillInPlace(math.Inf(1)))
	}
	out, err := run(x, y)
	if err != nil {
		return 0, err
	}
	loss, err := out[0].Item()
	require.NoError(r.t, err)
	return loss, nil
}

// overflows is the turn whose gradients are infinite or NaN.
const overflows = 1 << 20

// state is what there is to know, to the bit.
func (r *training) state() (list []string) {
	r.t.Helper()
	scale, err := r.scaler.State()
	require.NoError(r.t, err)
	dict, err := r.opt.StateDict()
	require.NoError(r.t, err)
	list = append(list, fmt.Sprint(scale, r.gen.State().Offset))
	add := func(name string, x *tensor.Tensor) {
		if x == nil {
			return
		}
		v, err := x.Float64s()
		require.NoError(r.t, err)
		for _, v := range v {
			list = append(list, fmt.Sprintf("%s %x", name, math.Float64bits(v)))
		}
	}
	for i, p := range r.model.Parameters() {
		add(p.Name(), p.Tensor())
		list = append(list, fmt.Sprint("step ", dict.State[i].Step))
		for _, name := range []string{"exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum", "max_exp_avg_sq"} {
			add(name, dict.State[i].Tensors[name])
		}
	}
	return list
}

// release gives everything back: nothing may be left.
func (r *training) release() {
	r.t.Helper()
	require.NoError(r.t, r.step.Close())
	r.model.Release()
	r.opt.Release()
	r.scaler.Release()
}

// nothingLeft checks that a device's allocator holds no bytes.
func nothingLeft(t *testing.T, dev device.Device) {
	t.Helper()
	a, err := memory.For(dev)
	require.NoError(t, err)
	require.NoError(t, a.EmptyCache())
	s := a.Stats()
	require.Zero(t, s.AllocatedBytes.All.Current)
	require.Zero(t, s.ReservedBytes.All.Current)
	require.NoError(t, memory.Drop(dev))
}
