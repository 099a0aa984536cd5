package autograd_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A penalty on the length of a gradient, as for a critic in WGAN-GP: the gradient of the critic's score is part of the loss.
func ExampleCreateGraph() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	input := must(tensor.FromSlice(g.Exec(), []float64{1, 2}))
	defer input.Release()
	w := autograd.NewParameter("w", must(tensor.FromSlice(g.Exec(), []float64{3, 4})))
	defer w.Release()

	x := g.Input(input, autograd.RequiresGrad())
	score := x.Mul(g.Param(w)).Sum(nil, false)
	grads, err := autograd.Grad([]*autograd.Variable{score}, []*autograd.Variable{x}, autograd.CreateGraph())
	if err != nil {
		fmt.Println(err)
		return
	}
	penalty := grads[0].Norm(2, nil, false).SubScalar(1).Square() // (|w| - 1)**2
	if err := penalty.Backward(); err != nil {
		fmt.Println(err)
		return
	}
	p, _ := penalty.Item()
	fmt.Println(p)
	d, _ := w.Grad().Float64s()
	fmt.Printf("%.1f\n", d)
	// Output:
	// 16
	// [4.8 6.4]
}
