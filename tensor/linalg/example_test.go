package linalg_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/linalg"
)

func ExampleSolve() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	a, err := tensor.FromSlice(e, []float64{2, 1, 1, 3}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	b, err := tensor.FromSlice(e, []float64{3, 5})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release()
	x, err := linalg.Solve(a, b)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	values, err := x.Float64s()
	fmt.Printf("%.1f %v\n", values, err)
	// Output: [0.8 1.4] <nil>
}
