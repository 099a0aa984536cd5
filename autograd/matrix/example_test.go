package matrix_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/matrix"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// The gradient of the logarithm of a determinant is the inverse.
func ExampleSlogDet() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromSlice(e, []float64{2, 0, 0, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	a := g.Input(x, autograd.RequiresGrad())
	_, logDet := matrix.SlogDet(a)
	if err := logDet.Backward(); err != nil {
		log.Fatal(err)
	}
	grad, err := a.Grad().Float64s()
	fmt.Printf("%.2f %v\n", grad, err)
	// Output: [0.50 0.00 0.00 0.25] <nil>
}
