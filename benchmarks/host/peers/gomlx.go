package main

import (
	"math/rand/v2"
	"runtime"
	"strconv"

	"github.com/gomlx/gomlx/backends"
	_ "github.com/gomlx/gomlx/backends/simplego"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/layers"
	"github.com/gomlx/gomlx/pkg/ml/layers/activations"
	"github.com/gomlx/gomlx/pkg/ml/train"
	"github.com/gomlx/gomlx/pkg/ml/train/losses"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"
)

// gomlxMLP is a step of GoMLX on its backend of Go, with AdamW, as in steps.go.
func gomlxMLP() (func() error, error) {
	backend, err := backends.NewWithConfig("go:parallelism=" + strconv.Itoa(runtime.GOMAXPROCS(0)))
	if err != nil {
		return nil, err
	}
	model := func(ctx *context.Context, _ any, inputs []*Node) []*Node {
		x := activations.Relu(layers.Dense(ctx.In("one"), inputs[0], true, hidden))
		x = activations.Relu(layers.Dense(ctx.In("two"), x, true, hidden))
		return []*Node{layers.Dense(ctx.In("three"), x, true, classes)}
	}
	trainer := train.NewTrainer(backend, context.New(), model, losses.SparseCategoricalCrossEntropyLogits,
		optimizers.Adam().LearningRate(rate).Epsilon(1e-8).WeightDecay(0.01).Done(), nil, nil)
	x, y := batchOf()
	labels := make([]int64, batch)
	for i, v := range y {
		labels[i] = int64(v)
	}
	inputs := []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, batch, pixels)}
	targets := []*tensors.Tensor{tensors.FromFlatDataAndDimensions(labels, batch, 1)}
	return func() error {
		metrics, err := trainer.TrainStep(nil, inputs, targets)
		if err != nil {
			return err
		}
		_ = metrics[0].Value() // the loss, as the others read it
		for _, m := range metrics {
			m.MustFinalizeAll()
		}
		return nil
	}, nil
}

// The case of all libraries.
const (
	batch, pixels, hidden, classes = 128, 784, 512, 10
	rate                           = 1e-4
)

// batchOf makes images with numbers from -1 to 1, and classes.
func batchOf() (x []float32, y []int) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, y = make([]float32, batch*pixels), make([]int, batch)
	for i := range x {
		x[i] = 2*rng.Float32() - 1
	}
	for i := range y {
		y[i] = rng.IntN(classes)
	}
	return x, y
}
