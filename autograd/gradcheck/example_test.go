package gradcheck_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A gradient is right, and one that Detach has cut in half is found.
func ExampleCheck() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromSlice(e, []float64{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	square := func(in []*autograd.Variable) *autograd.Variable { return in[0].Mul(in[0]) }
	half := func(in []*autograd.Variable) *autograd.Variable { return in[0].Mul(in[0].Detach()) }
	fmt.Println(gradcheck.Check(host.Default(), square, []*tensor.Tensor{x}))
	fmt.Println(gradcheck.Check(host.Default(), half, []*tensor.Tensor{x}) != nil)
	// Output:
	// <nil>
	// true
}
