package dense_test

import (
	"fmt"
	"log"

	gorgonia "gorgonia.org/tensor"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
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

// The memory of a gorgonia program is counted and limited by package memory: the engine is the one line that changes.
func ExampleEngine() {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	exec, err := tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		log.Fatal(err)
	}
	engine, err := dense.NewEngine(exec)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	x := gorgonia.New(gorgonia.WithShape(512, 512), gorgonia.Of(gorgonia.Float32), gorgonia.WithEngine(engine))
	for range 3 {
		end := engine.Scope()
		y, err := gorgonia.MatMul(x, x)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := gorgonia.Sum(y); err != nil {
			log.Fatal(err)
		}
		if err := end(); err != nil { // y and the sum
			log.Fatal(err)
		}
	}
	s := alloc.Stats()
	fmt.Println(s.AllocatedBytes.All.Current, s.AllocatedBytes.All.Peak, s.Allocation.All.Allocated)
	// Output: 1048576 2097664 7
}
