package dense_test

import (
	"fmt"
	"log"

	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/dense"
)

// Data enters and leaves as gorgonia.org/tensor values.
func Example() {
	e, err := tensor.On(host.New())
	if err != nil {
		log.Fatal(err)
	}
	x, err := dense.ToTensor(e, gorgonia.New(gorgonia.WithShape(2, 2), gorgonia.WithBacking([]float64{1, 4, 9, 16})))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	root, err := x.Sqrt()
	if err != nil {
		log.Fatal(err)
	}
	defer root.Release()
	d, err := dense.FromTensor(root)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Data(), d.Shape())
	// Output: [1 2 3 4] (2, 2)
}
