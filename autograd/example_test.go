package autograd_test

import (
	"errors"
	"fmt"
	"log"
	"math"
	"path/filepath"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A network learns the exclusive or. Each step makes a graph, and gives its memory back: what is allocated does not grow.
func Example_trainXOR() {
	dev := host.Default()
	model := nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.Adam(model.Parameters(), optim.LR(0.05))
	defer opt.Release()
	set, err := data.Slices([]float32{0, 0, 0, 1, 1, 0, 1, 1}, []int{2}, []float32{0, 1, 1, 0}, []int{1})
	if err != nil {
		log.Fatal(err)
	}
	loader := data.NewLoader(dev, set, 4)

	step := func(x, y *tensor.Tensor) error {
		g := autograd.NewGraph(dev)
		defer g.Release()
		loss := model.Forward(g.Input(x)).BCEWithLogitsLoss(g.Input(y), autograd.MeanReduction)
		if err := loss.Backward(); err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		opt.ZeroGrad()
		return nil
	}
	for range 200 {
		for x, y := range loader.Batches() {
			if err := step(x, y); err != nil {
				log.Fatal(err)
			}
		}
	}

	for x := range loader.Batches() {
		g := autograd.NewGraph(dev, autograd.NoGrad())
		p, err := model.Forward(g.Input(x)).Sigmoid().Float64s()
		g.Release()
		if err != nil {
			log.Fatal(err)
		}
		for i, in := range []string{"0 0", "0 1", "1 0", "1 1"} {
			fmt.Println(in, "->", math.Round(p[i]))
		}
	}
	if loader.Err() != nil {
		log.Fatal(loader.Err())
	}
	// Output:
	// 0 0 -> 0
	// 0 1 -> 1
	// 1 0 -> 1
	// 1 1 -> 0
}

// After Release the allocator counts exactly what the leaves hold: here the weight and its gradient.
func ExampleGraph_Release() {
	dev := host.New()
	defer dev.Close()
	alloc, err := memory.For(dev)
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Drop(dev)
	allocated := func() int64 { return alloc.Stats().AllocatedBytes.All.Current }

	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	t, err := tensor.Ones(e, tensor.Float32, 64, 64)
	if err != nil {
		log.Fatal(err)
	}
	weight := autograd.NewParameter("weight", t)
	fmt.Println("weight:        ", allocated())

	g := autograd.NewGraph(dev)
	w := g.Param(weight)
	loss := w.MatMul(w).Tanh().Exp().Mean(nil, false)
	fmt.Println("after forward: ", allocated())
	if err := loss.Backward(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("after backward:", allocated())
	g.Release()
	fmt.Println("after release: ", allocated())
	weight.Release()
	fmt.Println("after all:     ", allocated())
	// Output:
	// weight:         16384
	// after forward:  66048
	// after backward: 33280
	// after release:  32768
	// after all:      0
}

// Operations return no errors. The graph keeps the first one, with the shapes and the place.
func ExampleGraph_Err() {
	g := autograd.NewGraph(host.Default())
	defer g.Release()
	make := func(shape ...int) *autograd.Variable {
		return g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, shape...) })
	}
	x, w := make(2, 3), make(4, 5)
	y := x.MatMul(w).ReLU().Sum(nil, false)
	_, err := y.Item()
	fmt.Println(err == g.Err(), err == y.Backward())
	var op *autograd.OpError
	if errors.As(err, &op) { // err.Error() has all of it in one line, with file and line
		fmt.Println(op.Op, op.Operands)
		fmt.Println(filepath.Base(op.Site.File))
		fmt.Println(op.Err)
	}
	// Output:
	// true true
	// matmul [float32[2, 3] float32[4, 5]]
	// example_test.go
	// tensor: MatMul: [2, 3] and [4, 5]: inner dimensions differ (3 and 4)
}

// What a scope makes and does not return is freed when it ends.
func ExampleGraph_Scope() {
	g := autograd.NewGraph(host.Default(), autograd.NoGrad())
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 3) })
	var inside *autograd.Variable
	y := g.Scope(func() *autograd.Variable {
		inside = x.MulScalar(2)
		return inside.AddScalar(1)
	})
	fmt.Println(y.Float64s())
	_, err := inside.Float64s()
	var released *autograd.ReleasedError
	if errors.As(err, &released) {
		fmt.Println(released.Use, released.Operand, released.Reason)
	}
	// Output:
	// [3 3 3] <nil>
	// Float64s float32[3] the scope that made it has ended; return it from the scope to keep it
}
