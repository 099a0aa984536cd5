package autograd_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// cube is x³ as one operation: it saves x alone, and its gradient is 3x² times what comes in.
var cube = autograd.Function[struct{}]{
	Name: "cube",
	Forward: func(c *autograd.Context, _ struct{}, in []*tensor.Tensor) (*tensor.Tensor, error) {
		c.Save(in[0])
		return in[0].PowScalar(3)
	},
	Backward: func(c *autograd.Context, _ struct{}, grad *tensor.Tensor) ([]*tensor.Tensor, error) {
		square, err := c.Saved(0).PowScalar(2)
		if err != nil {
			return nil, err
		}
		defer square.Release()
		if err := square.MulScalarInPlace(3); err != nil {
			return nil, err
		}
		dx, err := grad.Mul(square)
		return []*tensor.Tensor{dx}, err
	},
}

func ExampleFunction() {
	dev := host.Default()
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.FromSlice(e, []float32{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	g := autograd.NewGraph(dev)
	defer g.Release()
	v := g.Input(x, autograd.RequiresGrad())
	if err := cube.Apply(struct{}{}, v).Sum(nil, false).Backward(); err != nil {
		log.Fatal(err)
	}
	grad, err := v.Grad().Float64s()
	fmt.Println(grad, err)
	// Output: [3 12 27] <nil>
}

// power is x to the power of n, with a gradient of variables: it can be differentiated again.
var power = autograd.Function[float64]{
	Name: "power",
	Forward: func(c *autograd.Context, n float64, in []*tensor.Tensor) (*tensor.Tensor, error) {
		c.Save(in[0])
		return in[0].PowScalar(n)
	},
	BackwardVariables: func(c *autograd.Context, n float64, grads []*autograd.Variable) []*autograd.Variable {
		return []*autograd.Variable{c.SavedVariable(0).PowScalar(n - 1).MulScalar(n).Mul(grads[0])}
	},
}

func ExampleFunction_backwardVariables() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	x := g.Input(mustTensor(autograd.FromSlice(g, []float32{1, 2, 3}).Take()), autograd.RequiresGrad())
	grads, err := autograd.Grad([]*autograd.Variable{power.Apply(3, x).Sum(nil, false)}, []*autograd.Variable{x}, autograd.CreateGraph())
	if err != nil {
		log.Fatal(err)
	}
	if err := grads[0].Square().Sum(nil, false).Backward(); err != nil { // of 9 x**4
		log.Fatal(err)
	}
	second, err := x.Grad().Float64s()
	fmt.Println(second, err)
	// Output: [36 288 972] <nil>
}

// A hook limits the gradient at one place of a model, and another looks at it.
func ExampleVariable_RegisterHook() {
	dev := host.Default()
	g := autograd.NewGraph(dev)
	defer g.Release()
	v := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float32{1, -2, 30}) })
	w := autograd.NewParameter("w", mustTensor(v.Clamp(-1, 1).Take()))
	defer w.Release()
	y := g.Param(w).Mul(v)
	y.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) { return grad.Clamp(-5, 5) })
	y.RegisterHook(func(grad *tensor.Tensor) (*tensor.Tensor, error) {
		values, err := grad.Float64s()
		fmt.Println("gradient of y:", values)
		return nil, err
	})
	if err := y.Mul(y).Sum(nil, false).Backward(); err != nil {
		log.Fatal(err)
	}
	values, err := w.Grad().Float64s()
	fmt.Println("gradient of w:", values, err)
	// Output:
	// gradient of y: [2 4 5]
	// gradient of w: [2 -8 150] <nil>
}

func mustTensor(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		log.Fatal(err)
	}
	return t
}
