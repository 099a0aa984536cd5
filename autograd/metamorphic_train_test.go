package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// way is how the same recurrent model is trained.
type way struct {
	place
	saving     autograd.SavedTensorHooks
	inBackward bool // the optimizer steps in backward
	held       bool // hooks hold on to gradients, so that no rule writes over them
}

// sequences trains for some steps and returns the parameters.
func (w way) sequences(t *testing.T) (all [][]float64) {
	dev := host.New(host.CheckBounds())
	alloc := w.alloc(dev)
	net, head := nn.LSTM(3, 5, nn.Layers(2), nn.Bidirectional()), nn.Linear(10, 2)
	place := []nn.Option{nn.Seed(1), nn.WithAllocator(alloc)}
	if w.params != nil {
		place = append(place, nn.WithStream(w.params(dev)))
	}
	params := append(net.Parameters(), head.Parameters()...)
	for _, m := range []nn.Layer{net, head} {
		require.NoError(t, m.To(dev, place...))
	}
	opt := optim.RMSprop(params, optim.LR(0.01), optim.Momentum(0.5), optim.Centered(), optim.Eps(1e-2))
	if w.inBackward {
		defer opt.StepInBackward()()
	}
	e := must2(tensor.On(dev, tensor.WithAllocator(alloc)))
	x := must(tensor.RandN(e, tensor.NewGenerator(2), tensor.Float32, 6, 4, 3))
	options := []autograd.Option{autograd.WithAllocator(alloc), autograd.WithSavedTensorHooks(w.saving)}
	if w.graph != nil {
		options = append(options, autograd.WithStream(w.graph(dev)))
	}
	for range 4 {
		g := autograd.NewGraph(dev, options...)
		h := net.Forward(g.Input(x))
		y := head.Forward(h.Tanh().MulScalar(2).Sigmoid())
		var kept []*tensor.Tensor
		if w.held {
			for _, v := range []*autograd.Variable{h, y} {
				v.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
					kept = append(kept, grad.Retain())
					return nil, nil
				})
			}
		}
		require.NoError(t, y.Mul(y).Mean(nil, false).Backward())
		g.Release()
		for _, k := range kept {
			k.Release()
		}
		if !w.inBackward {
			require.NoError(t, optim.ClipGradNormAsync(params, 1e6)) // measures, and leaves them as they are
			require.NoError(t, opt.Step())
			opt.ZeroGrad()
		}
	}
	for _, p := range params {
		all = append(all, values(t, p.Tensor()))
	}
	for _, leaf := range []interface{ Release() }{net, head, opt, x} {
		leaf.Release()
	}
	require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	require.NoError(t, alloc.(interface{ Close() error }).Close())
	require.NoError(t, memory.Drop(dev))
	require.NoError(t, dev.Close())
	return all
}

func TestTrainingOfSequences_IsTheSameInEveryWay(t *testing.T) {
	want := way{place: place{alloc: caching}}.sequences(t)
	two := place{alloc: direct, params: queued, graph: queued}
	for name, w := range map[string]way{
		"direct":                      {place: place{alloc: direct}},
		"streams":                     {place: place{alloc: caching, params: queued, graph: queued}},
		"saved on the host":           {place: place{alloc: caching}, saving: autograd.SaveOnCPU(false)},
		"saved on the host, streams":  {place: two, saving: autograd.SaveOnCPU(true)},
		"pinned, one stream":          {place: place{alloc: caching, graph: queued}, saving: autograd.SaveOnCPU(true)},
		"steps in backward":           {place: place{alloc: caching}, inBackward: true},
		"steps in backward, streams":  {place: two, inBackward: true, saving: autograd.SaveOnCPU(true)},
		"gradients held":              {place: place{alloc: caching}, held: true},
		"gradients held, two streams": {place: two, held: true, inBackward: true},
	} {
		require.Equal(t, want, w.sequences(t), name)
	}
}
