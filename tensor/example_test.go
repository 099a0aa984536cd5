package tensor_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func ExampleTensor_MatMul() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	a, err := tensor.FromSlice(e, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	t, err := a.T()
	if err != nil {
		log.Fatal(err)
	}
	defer t.Release() // a view: it shares a's memory
	p, err := a.MatMul(t)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Release()
	fmt.Println(p)
	// Output:
	// float32 [2, 2] on host
	// ⎡14  32⎤
	// ⎣32  77⎦
}

// onTheHost is the set-up of the example above, for those below.
func onTheHost() tensor.Exec {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// Operations broadcast and promote as PyTorch does.
func ExampleTensor_Add() {
	e := onTheHost()
	counts, err := tensor.FromSlice(e, []int64{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	defer counts.Release()
	column, err := tensor.FromSlice(e, []float32{0.5, 10}, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer column.Release()
	sum, err := counts.Add(column)
	if err != nil {
		log.Fatal(err)
	}
	defer sum.Release()
	fmt.Println(sum)
	// Output:
	// float32 [2, 3] on host
	// ⎡1.5  2.5  3.5⎤
	// ⎣ 11   12   13⎦
}

// Memory goes back to its allocator when the last handle is released, at once.
func ExampleTensor_Release() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		log.Fatal(err)
	}
	allocated := func() int64 { return alloc.Stats().AllocatedBytes.All.Current }

	x, err := tensor.Zeros(e, tensor.Float32, 1024, 1024)
	if err != nil {
		log.Fatal(err)
	}
	row, err := x.Select(0, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(allocated())
	x.Release()
	fmt.Println(allocated(), "held by the view")
	row.Release()
	fmt.Println(allocated())
	_, err = row.Exp()
	fmt.Println(err, errors.Is(err, tensor.ErrReleased))
	// Output:
	// 4194304
	// 4194304 held by the view
	// 0
	// tensor: Exp: use after Release true
}

// A simulated device tells what a computation needs, without the memory.
func Example_peak() {
	dev := sim.New(80 * device.GiB)
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		log.Fatal(err)
	}
	a, err := tensor.Zeros(e, tensor.BFloat16, 65536, 65536)
	if err != nil {
		log.Fatal(err)
	}
	defer a.Release()
	p, err := a.MatMul(a)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Release()
	fmt.Println(device.FormatBytes(uint64(alloc.Stats().AllocatedBytes.All.Peak)))
	// Output: 16GiB
}
