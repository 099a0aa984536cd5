package nn_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// A server answers requests on several goroutines with one model, each with a graph of its own, on the same stream or on one of its own.
// The race detector looks on.
func TestModules_MayBeReadByManyGoroutines(t *testing.T) {
	r := onHost(t)
	attention := nn.TransformerBlock(4, 2, nn.FeedForward(8), nn.BatchFirst())
	recurrent, images := nn.Sequential(nn.GRU(4, 4), nn.RMSNorm([]int{4})), nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5))
	model := nn.Sequential(nn.Linear(4, 4), nn.GELU(), attention, nn.LayerNorm([]int{4}), recurrent, images, nn.Linear(4, 2))
	r.place(model, nn.Seed(1))
	x := r.tensor([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}, 1, 3, 4)
	r.forward(model, x, autograd.WithGenerator(tensor.NewGenerator(1))) // statistics
	nn.Eval(model)
	want := r.forward(model, x)

	const goroutines, requests = 4, 8
	results := make([][requests][]float64, goroutines)
	errs := make([][requests]error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		opts := []autograd.Option{autograd.NoGrad()}
		if i%2 == 1 {
			s, err := r.dev.NewStream()
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			opts = append(opts, autograd.WithStream(s))
		}
		all.Go(func() {
			for k := range requests {
				g := r.graph(opts...)
				results[i][k], errs[i][k] = model.Forward(g.Input(x)).Float64s()
				_ = model.String()
				g.Release()
			}
		})
	}
	all.Wait()
	for i := range goroutines {
		for k := range requests {
			require.NoError(t, errs[i][k])
			require.Equal(t, want, results[i][k])
		}
	}
}
