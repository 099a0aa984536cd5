package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/tensor"
)

// BenchmarkGPT2Step is what Go takes to enqueue a training step of GPT-2's 12 layers, with autocast, dropout, a gradient scaler and clipping: each operation
// by itself, and as one graph. The emulated driver's launches do nothing, so that a small width, which changes no number of operations, tells the same. The
// two ways take turns; the figures are medians.
func BenchmarkGPT2Step(b *testing.B) {
	dev, _ := emulatedtest.NewPTX(b, func(l *fakecuda.Library) { l.Set("instant_launch", "1") })
	model, err := models.NewGPT(models.GPTConfig{Vocab: 64, Context: 16, Layers: 12, Width: 24, Heads: 12, Dropout: 0.1})
	require.NoError(b, err)
	require.NoError(b, model.To(dev, nn.Seed(1)))
	defer model.Release()
	opt, scaler := optim.AdamW(model.Parameters()), amp.NewGradScaler()
	defer opt.Release()
	defer scaler.Release()
	step, err := stepgraph.New(dev, func(_ *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
		logits := model.Forward(in[0])
		loss := logits.Reshape(-1, logits.Dim(-1)).CrossEntropy(in[1].Reshape(-1))
		for _, f := range []func() error{
			func() error { return scaler.Backward(loss) },
			func() error { return scaler.Unscale(opt) },
			func() error { return optim.ClipGradNormAsync(model.Parameters(), 1) },
			func() error { return scaler.Step(opt) },
			func() error { return scaler.Update() },
		} {
			if err := f(); err != nil {
				return nil, err
			}
		}
		return []*autograd.Variable{loss}, nil
	}, stepgraph.Modules(model), stepgraph.GraphOptions(amp.Autocast(tensor.BFloat16)))
	require.NoError(b, err)
	defer func() { require.NoError(b, step.Close()) }()
	e, err := tensor.On(dev)
	require.NoError(b, err)
	x, err := tensor.Zeros(e, tensor.Int64, 2, 16)
	require.NoError(b, err)
	defer x.Release()
	took := func(run func(...*tensor.Tensor) ([]*tensor.Tensor, error)) time.Duration {
		require.NoError(b, dev.Synchronize(context.Background()))
		start := time.Now()
		_, err := run(x, x)
		require.NoError(b, err)
		return time.Since(start)
	}
	for range 5 {
		took(step.Run)
	}
	require.Equal(b, 2, step.Stats().Replays)
	var eager, replayed []time.Duration
	for b.Loop() {
		eager, replayed = append(eager, took(step.Eager)), append(replayed, took(step.Run))
	}
	for name, all := range map[string][]time.Duration{"eager-µs/step": eager, "replayed-µs/step": replayed} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, name)
	}
}
