package soak_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

var errSoak = errors.New("an error in the middle of a step")

// events are what happens in the life of a training run. Each leaves the world as it was.
var events = map[string]func(w *world){
	"step":   func(w *world) { require.NoError(w.t, w.train(w.graph(), nil)) },
	"epoch":  (*world).epoch,
	"save":   (*world).save,
	"stream": (*world).onNewStream,
	"checkpointed": func(w *world) {
		require.NoError(w.t, w.train(w.graph(), func(h *autograd.Variable) *autograd.Variable {
			return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return in[0].Tanh().Exp() }, h)
		}))
	},
	"offloaded": func(w *world) {
		require.NoError(w.t, w.train(w.graph(autograd.WithSavedTensorHooks(autograd.SaveOnCPU(w.rng.IntN(2) == 0))), nil))
	},
	"evaluation": (*world).evaluate,
	"workers":    (*world).workers,
	"wrong shape": func(w *world) {
		require.Error(w.t, w.train(w.graph(), func(h *autograd.Variable) *autograd.Variable { return h.Reshape(maxBatch+1, 2) }))
	},
	"hook fails": func(w *world) {
		require.ErrorIs(w.t, w.train(w.graph(), hooked(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return nil, errSoak })), errSoak)
	},
	"hook panics": func(w *world) {
		require.PanicsWithError(w.t, errSoak.Error(), func() {
			_ = w.train(w.graph(), hooked(func(*tensor.Tensor) (*tensor.Tensor, error) { panic(errSoak) }))
		})
	},
	"handles are dropped": func(w *world) {
		require.NoError(w.t, w.train(w.graph(), hooked(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
			_, err := grad.Neg()
			return nil, err
		})))
	},
	"a graph is dropped": func(w *world) {
		g := w.graph()
		g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 1+w.rng.IntN(64)) }).Exp()
		require.NoError(w.t, g.Err())
	},
	"cache is emptied": func(w *world) { require.NoError(w.t, w.alloc.EmptyCache()) },
}

func hooked(f autograd.Hook) func(h *autograd.Variable) *autograd.Variable {
	return func(h *autograd.Variable) *autograd.Variable {
		h.RegisterHook(f)
		return h
	}
}

// epoch goes through the data, and leaves the loop early at times.
func (w *world) epoch() {
	defer w.opt.ZeroGrad()
	loader, last := w.loader(), w.rng.IntN(6)
	n := 0
	for x, y := range loader.Batches() {
		g := w.graph()
		err := w.loss(g, x, y, nil).Backward()
		g.Release()
		require.NoError(w.t, err)
		require.NoError(w.t, w.opt.Step())
		w.opt.ZeroGrad()
		if n++; n > last {
			break
		}
	}
	require.NoError(w.t, loader.Err())
}

// save writes a checkpoint to a file and to memory, and reads the file.
func (w *world) save() {
	step := 1
	c := func() *checkpoint.Checkpoint {
		return checkpoint.New().Add("model", checkpoint.Module(w.model)).Add("optimizer", checkpoint.Optimizer(w.opt)).Add("step", checkpoint.Value(&step))
	}
	ctx := context.Background()
	require.NoError(w.t, c().WriteFile(ctx, w.path))
	require.NoError(w.t, c().ReadFile(ctx, w.path))
	var text bytes.Buffer
	require.NoError(w.t, c().Write(ctx, &text))
	require.Error(w.t, c().Read(ctx, bytes.NewReader(text.Bytes()[:w.rng.IntN(text.Len())])), "a file that was cut off")
}

// onNewStream makes a step on a stream of its own.
func (w *world) onNewStream() {
	s, err := w.dev.NewStream()
	require.NoError(w.t, err)
	require.NoError(w.t, w.train(w.graph(autograd.OnStream(s)), nil))
	require.NoError(w.t, s.Synchronize(context.Background()))
	require.NoError(w.t, w.dev.DefaultStream().Synchronize(context.Background()))
	require.NoError(w.t, s.Close())
}

// evaluate runs the model without gradients.
func (w *world) evaluate() {
	for x := range w.loader().Batches() {
		g := w.graph(autograd.NoGrad())
		out, err := w.model.Forward(g.Input(x)).Take()
		g.Release()
		require.NoError(w.t, err)
		out.Release()
	}
}

// workers are goroutines with a stream, a loader and graphs each.
func (w *world) workers() {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		s, err := w.dev.NewStream()
		require.NoError(w.t, err)
		loader := w.loader(data.OnStream(s))
		wg.Go(func() { errs[i] = errors.Join(w.work(s, loader), s.Synchronize(context.Background()), s.Close()) })
	}
	wg.Wait()
	require.NoError(w.t, errors.Join(errs...))
}

func (w *world) work(s device.Stream, loader *data.Loader) error {
	for x, y := range loader.Batches() {
		g := w.graph(autograd.OnStream(s))
		v := g.Input(x, autograd.RequiresGrad())
		err := v.Tanh().Mul(g.Input(y)).Sum(nil, false).Backward()
		g.Release()
		if err != nil {
			return err
		}
	}
	return loader.Err()
}

// duration is how long a soak takes, warm-up included.
func duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CISTERN_SOAK")
	if text == "" {
		return 1500 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "CISTERN_SOAK")
	return d
}

// names are the events in the order of the alphabet, so that a seed stands for a program.
func names() []string { return slices.Sorted(maps.Keys(events)) }

func TestSoak_NothingGrows(t *testing.T) {
	for name, open := range map[string]func() device.Device{
		"host": func() device.Device { return host.New() },
		"sim":  func() device.Device { return sim.New(1 << 30) },
	} {
		t.Run(name, func(t *testing.T) { soak(t, open(), duration(t)) })
	}
}

// soak lets events happen for a time. All have happened, in the first third at the least, when what is used is measured first.
func soak(t *testing.T, dev device.Device, d time.Duration) {
	seed := uint64(time.Now().UnixNano())
	w := newWorld(t, dev, seed)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	list := names()
	start := time.Now()
	for range 3 {
		for _, name := range list {
			events[name](w)
		}
	}
	n := w.run(list, start.Add(d/3))
	before := w.measure(t)
	require.Equal(t, w.base, before.device, "bytes of the device after the warm-up")
	n += w.run(list, start.Add(d))
	now := w.measure(t)
	t.Logf("%d events: %+v, then %+v", n, before, now)
	requireFlat(t, before, now)
	w.close()
}

// run lets events happen, at least some, until the time has come.
func (w *world) run(list []string, until time.Time) (n int) {
	for n < 2*len(list) || time.Now().Before(until) {
		events[list[w.rng.IntN(len(list))]](w)
		n++
	}
	return n
}
