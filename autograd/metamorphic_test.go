package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// place is where the same training runs: on which streams, and with which allocator.
type place struct {
	alloc         func(dev device.Device) memory.Allocator
	params, graph func(dev device.Device) device.Stream // nil for the default stream
}

func caching(dev device.Device) memory.Allocator { return must2(memory.New(dev, memory.Config{})) }
func direct(dev device.Device) memory.Allocator  { return memory.NewDirect(dev) }
func queued(dev device.Device) device.Stream     { return must2(dev.NewStream()) }

// train takes some steps, each on a graph of its own, and returns the loss of each.
func (p place) train(t *testing.T) []float64 {
	dev := host.New(host.CheckBounds())
	alloc := p.alloc(dev)
	model := nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.1), nn.Checkpointed(nn.Linear(16, 16)), nn.Tanh(), nn.Linear(16, 3))
	place := []nn.Option{nn.Seed(1), nn.DType(tensor.Float64), nn.WithAllocator(alloc)}
	if p.params != nil {
		place = append(place, nn.WithStream(p.params(dev)))
	}
	require.NoError(t, model.To(dev, place...))
	opt := optim.AdamW(model.Parameters(), optim.LR(0.01))
	e := must2(tensor.On(dev, tensor.WithAllocator(alloc)))
	x := must(tensor.RandN(e, tensor.NewGenerator(2), tensor.Float64, 12, 6))
	y := must(tensor.FromSlice(e, []int64{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, -100}))
	options := []autograd.Option{autograd.WithAllocator(alloc), autograd.WithGenerator(tensor.NewGenerator(3))}
	if p.graph != nil {
		options = append(options, autograd.WithStream(p.graph(dev)))
	}

	var losses []float64
	for range 6 {
		g := autograd.NewGraph(dev, options...)
		loss := model.Forward(g.Input(x)).CrossEntropy(g.Input(y))
		require.NoError(t, loss.Backward())
		v, err := loss.Item()
		require.NoError(t, err)
		losses = append(losses, v)
		g.Release()
		require.NoError(t, opt.Step())
		opt.ZeroGrad()
	}

	for _, leaf := range []interface{ Release() }{model, opt, x, y} {
		leaf.Release()
	}
	require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	require.NoError(t, alloc.(interface{ Close() error }).Close())
	require.NoError(t, dev.Close())
	return losses
}

func TestTraining_IsTheSameOnAnyStreamsAndWithAnyAllocator(t *testing.T) {
	want := place{alloc: caching}.train(t)
	require.Less(t, want[5], want[0])
	for name, p := range map[string]place{
		"direct":                        {alloc: direct},
		"graph on a stream":             {alloc: caching, graph: queued},
		"parameters on a stream":        {alloc: caching, params: queued},
		"graph and parameters on two":   {alloc: caching, params: queued, graph: queued},
		"direct, graph and parameters":  {alloc: direct, params: queued, graph: queued},
		"the same a second time around": {alloc: caching},
	} {
		require.Equal(t, want, p.train(t), name)
	}
}
