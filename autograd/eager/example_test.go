package eager_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/eager"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A function with settings is wrapped in one that has the tensor alone.
func ExampleOf() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromSlice(e, []float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	turned, err := eager.Of(x, func(v *autograd.Variable) *autograd.Variable { return v.Rot90(1, 0, 1) })
	if err != nil {
		log.Fatal(err)
	}
	defer turned.Release()
	fmt.Println(turned.Float64s())
	// Output: [2 4 1 3] <nil>
}

// A model is a function of a variable too.
func ExampleOf_model() {
	model := nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
	if err := model.To(host.Default(), nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.Ones(e, tensor.Float32, 5, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := eager.Of(x, model.Forward)
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()
	fmt.Println(y.Shape())
	// Output: [5, 2]
}

func ExampleOf2() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromSlice(e, []float32{1, 0, 0})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := tensor.FromSlice(e, []float32{0, 1, 0})
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()
	similarity, err := eager.Of2(x, y, func(v, u *autograd.Variable) *autograd.Variable { return v.CosineSimilarity(u, 0, 1e-8) })
	if err != nil {
		log.Fatal(err)
	}
	defer similarity.Release()
	fmt.Println(similarity.Item())
	// Output: 0 <nil>
}

func ExampleAll() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromSlice(e, []float32{1, 2, 3, 4, 5})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	pieces, err := eager.All([]*tensor.Tensor{x}, func(v []*autograd.Variable) []*autograd.Variable { return v[0].TensorSplit(2, 0) })
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range pieces {
		fmt.Println(p.Float64s())
		p.Release()
	}
	// Output:
	// [1 2 3] <nil>
	// [4 5] <nil>
}
