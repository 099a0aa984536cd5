package soak_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

const (
	features = 8
	hidden   = 64
	examples = 96
	maxBatch = 48
)

// world is a device with a model in training.
type world struct {
	t     *testing.T
	dev   device.Device
	alloc *memory.Caching
	pool  *memory.Pinned
	exec  tensor.Exec
	rng   *rand.Rand
	model *nn.SequentialModule
	opt   *optim.Grouped
	set   data.Dataset
	path  string // of the checkpoint
	base  int64  // bytes that model, optimizer and data hold
}

func newWorld(t *testing.T, dev device.Device, seed uint64) *world {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	w := &world{t: t, dev: dev, alloc: alloc, rng: rand.New(rand.NewPCG(seed, 1)), path: filepath.Join(t.TempDir(), "run.safetensors")}
	w.pool = pinnedOf(t, w)
	w.exec, err = tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	w.model = nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
	require.NoError(t, w.model.To(dev, nn.Seed(1), nn.WithAllocator(alloc)))
	w.opt = optim.AdamW(w.model.Parameters(), optim.LR(1e-3))
	w.set, err = data.Slices(make([]float32, examples*features), []int{features}, make([]float32, examples), []int{1})
	require.NoError(t, err)
	w.train(w.graph(), nil) // the optimizer has its state from now on
	w.opt.ZeroGrad()
	w.base = w.allocated()
	return w
}

// close releases everything and demands that nothing is left.
func (w *world) close() {
	w.opt.Release()
	w.model.Release()
	w.base = 0
	require.Zero(w.t, w.measure(w.t).device, "bytes of the device at the end")
	require.NoError(w.t, w.alloc.Close())
	require.NoError(w.t, memory.Drop(w.dev))
	require.NoError(w.t, w.dev.Close())
}

// graph makes a graph on the world's device.
func (w *world) graph(opts ...autograd.Option) *autograd.Graph {
	return autograd.NewGraph(w.dev, append([]autograd.Option{autograd.WithAllocator(w.alloc)}, opts...)...)
}

// loader reads the data in batches of a random size.
func (w *world) loader(opts ...data.Option) *data.Loader {
	opts = append(opts, data.WithAllocator(w.alloc), data.Shuffle(tensor.NewGenerator(w.rng.Uint64())))
	return data.NewLoader(w.dev, w.set, 1+w.rng.IntN(maxBatch), opts...)
}

// loss is the model's loss on a batch, which spoil may change on the way.
func (w *world) loss(g *autograd.Graph, x, y *tensor.Tensor, spoil func(h *autograd.Variable) *autograd.Variable) *autograd.Variable {
	h := w.model.Forward(g.Input(x))
	if spoil != nil {
		h = spoil(h)
	}
	return h.MSELoss(g.Input(y), autograd.MeanReduction)
}

// train makes one step on one batch in g, which it releases, and returns the step's error.
func (w *world) train(g *autograd.Graph, spoil func(h *autograd.Variable) *autograd.Variable) (err error) {
	defer g.Release()
	defer w.opt.ZeroGrad()
	loader := w.loader()
	for x, y := range loader.Batches() {
		if err = w.loss(g, x, y, spoil).Backward(); err != nil {
			return err
		}
		if err = w.opt.Step(); err != nil {
			return err
		}
		break
	}
	return loader.Err()
}
