package autograd_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// The anchor of the first row is as near to the negative as to the positive, that of the second row far nearer to the positive.
func ExampleVariable_TripletMarginLoss() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	anchor := autograd.FromSlice(g, []float64{0, 0, 0, 0}, 2, 2)
	positive := autograd.FromSlice(g, []float64{3, 4, 0, 1}, 2, 2)
	negative := autograd.FromSlice(g, []float64{4, 3, 6, 8}, 2, 2)
	losses, err := anchor.TripletMarginLoss(positive, negative, 1, autograd.Triplet{}, autograd.NoReduction).Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f\n", losses)
	// Output: [1.0 0.0]
}

// Two classes and a blank over three steps, all as likely: of the 27 paths 6 give the label 1 alone.
func ExampleVariable_CTCLoss() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	steps := g.Zeros(tensor.Float64, 3, 3).LogSoftmax(-1)
	loss := steps.CTCLoss(autograd.FromSlice(g, []int64{1}), []int{3}, []int{1}, autograd.CTC{}, autograd.NoReduction)
	paths, err := loss.Neg().Exp().MulScalar(27).Item()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f\n", paths)
	// Output: 6.000
}

func ExampleVariable_Quantile() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	x := autograd.FromSlice(g, []float64{8, 1, 4, 2})
	q, err := x.Quantile(0.5, 0, false, autograd.Linear).Item()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(q)
	// Output: 3
}

func ExampleVariable_PixelShuffle() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	x := g.Arange(0, 4, 1, tensor.Float64).Reshape(1, 4, 1, 1).PixelShuffle(2)
	values, err := x.Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Shape(), values)
	// Output: [1, 1, 2, 2] [0 1 2 3]
}
