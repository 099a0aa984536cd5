package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// An encoder pools, and a decoder puts the elements back where they were.
func ExampleMaxUnpool2d() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	image := autograd.FromSlice(g, []float32{1, 2, 3, 9, 5, 6, 7, 8}, 1, 2, 4)
	values, indices := nn.MaxPool2dIndices(2).Forward(image)
	restored := nn.MaxUnpool2d(2).Forward(values, indices)
	v, err := restored.Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(restored.Shape(), v)
	// Output: [1, 2, 4] [0 0 0 9 0 6 0 0]
}
