package data_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// Two workers make examples ahead of the loop; the order and the noise are those of the seed.
func ExampleNewSourceLoader() {
	dev := host.New()
	defer dev.Close()
	squares := data.Func(6, func(_ context.Context, i int64, r *rand.Rand) (data.Example, error) {
		noise := r.Float32() / 100
		x, err := data.NewArray([]float32{float32(i) + noise, float32(i*i) + noise})
		return data.Example{x, data.Scalar(i)}, err
	})
	loader := data.NewSourceLoader(dev, squares, 2, data.Workers(2), data.Shuffle(tensor.NewGenerator(3)))
	defer loader.Close()
	for b, err := range loader.All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(b.Index, b.Tensors[0].Shape(), b.Tensors[1].DType())
	}
	// Output:
	// [3 1] [2, 2] int64
	// [0 4] [2, 2] int64
	// [5 2] [2, 2] int64
}

// Sequences of several lengths are padded by a function of the program.
func ExampleWithCollate() {
	dev := host.New()
	defer dev.Close()
	texts := [][]int64{{5, 6, 7}, {8}, {9, 10}}
	source := data.Func(len(texts), func(_ context.Context, i int64, _ *rand.Rand) (data.Example, error) {
		ids, err := data.NewArray(texts[i])
		return data.Example{ids}, err
	})
	pad := func(examples []data.Example) (data.Example, error) {
		longest := 0
		for _, ex := range examples {
			longest = max(longest, ex[0].Len())
		}
		ids, lengths := make([]int64, len(examples)*longest), make([]int64, len(examples))
		for k, ex := range examples {
			text, err := data.Elements[int64](ex[0])
			if err != nil {
				return nil, err
			}
			copy(ids[k*longest:], text)
			lengths[k] = int64(len(text))
		}
		a, err := data.NewArray(ids, len(examples), longest)
		if err != nil {
			return nil, err
		}
		b, err := data.NewArray(lengths)
		return data.Example{a, b}, err
	}
	loader := data.NewSourceLoader(dev, source, 3, data.WithCollate(pad))
	for ids, lengths := range loader.Batches() {
		padded, err := ids.Float64s()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ids.Shape(), padded, lengths.Shape())
	}
	if err := loader.Err(); err != nil {
		log.Fatal(err)
	}
	// Output: [3, 3] [5 6 7 8 0 0 9 10 0] [3]
}

func ExampleExampleError() {
	dev := host.New()
	defer dev.Close()
	source := data.Func(4, func(_ context.Context, i int64, _ *rand.Rand) (data.Example, error) {
		return data.Example{data.Scalar(100 / (2 - i))}, nil // divides by zero
	})
	loader := data.NewSourceLoader(dev, source, 1, data.Workers(2))
	defer loader.Close()
	for b, err := range loader.All(context.Background()) {
		var bad *data.ExampleError
		if errors.As(err, &bad) {
			fmt.Println(bad.Index, err)
			break
		}
		fmt.Println(b.Number)
	}
	// Output:
	// 0
	// 1
	// 2 data: example 2: panic: runtime error: integer divide by zero
}

func ExampleWithProgress() {
	dev := host.New()
	defer dev.Close()
	source := data.Func(5, func(_ context.Context, i int64, _ *rand.Rand) (data.Example, error) {
		return data.Example{data.Scalar(i)}, nil
	})
	loader := data.NewSourceLoader(dev, source, 2, data.WithProgress(func(p data.Progress) {
		fmt.Printf("%d/%d batches, %d examples\n", p.Batch, p.Batches, p.Examples) // and p.Waiting, p.Working
	}))
	for range loader.Batches() {
	}
	// Output:
	// 1/3 batches, 2 examples
	// 2/3 batches, 4 examples
	// 3/3 batches, 5 examples
}

// One class has few examples and is drawn as often as the other.
func ExampleWeightedSampler() {
	classes := []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	weights := make([]float64, len(classes))
	for i, c := range classes {
		weights[i] = []float64{1. / 9, 1}[c]
	}
	sampler, err := data.WeightedSampler(tensor.NewGenerator(1), weights, 1000, true)
	if err != nil {
		log.Fatal(err)
	}
	order, err := sampler.Order()
	if err != nil {
		log.Fatal(err)
	}
	rare := 0
	for i := range order {
		rare += classes[i]
	}
	fmt.Println(rare > 450 && rare < 550)
	// Output: true
}
