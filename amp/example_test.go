package amp_test

import (
	"fmt"
	"log"
	"math"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A training loop in mixed precision: matrix products in float16, losses in float32, weights and their updates in float32.
func Example_trainingStep() {
	dev, err := device.Open("host") // device.Default() is a GPU if there is one
	if err != nil {
		log.Fatal(err)
	}
	model := nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters(), optim.LR(1e-2))
	defer opt.Release()
	scaler := amp.NewGradScaler()
	defer scaler.Release()

	step := func(images, labels *tensor.Tensor) (float64, error) {
		g := autograd.NewGraph(dev, amp.Autocast(tensor.Float16))
		defer g.Release() // device memory is back in the pool
		logits := model.Forward(g.Input(images))
		loss := logits.CrossEntropy(g.Input(labels)).Keep()
		if err := scaler.Backward(loss); err != nil { // the first error of the whole chain
			return 0, err
		}
		if err := scaler.Step(opt); err != nil { // left out if a gradient overflowed
			return 0, err
		}
		opt.ZeroGrad()
		if err := scaler.Update(); err != nil {
			return 0, err
		}
		return loss.Item()
	}

	// Points left and right of a circle's middle.
	points := make([]float32, 0, 64)
	sides := make([]int64, 0, 32)
	for i := range 32 {
		a := 2 * math.Pi * (float64(i) + 0.5) / 32
		points = append(points, float32(math.Cos(a)), float32(math.Sin(a)))
		side := int64(0)
		if math.Cos(a) > 0 {
			side = 1
		}
		sides = append(sides, side)
	}
	set, err := data.Slices(points, []int{2}, sides, nil)
	if err != nil {
		log.Fatal(err)
	}
	batches := data.NewLoader(dev, set, 16)
	var loss float64
	for epoch := range 40 {
		for images, labels := range batches.Batches() {
			if loss, err = step(images, labels); err != nil {
				log.Fatal(err)
			}
		}
		if epoch%39 == 0 {
			fmt.Printf("epoch %2d: loss %.1f\n", epoch+1, loss)
		}
	}
	if batches.Err() != nil {
		log.Fatal(batches.Err())
	}
	scale, err := scaler.GetScale()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("scale", scale)
	// Output:
	// epoch  1: loss 0.7
	// epoch 40: loss 0.1
	// scale 65536
}

// Each operation has a class; a region inside a graph can choose another precision, or none.
func ExampleRegion() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	t, err := tensor.Ones(e, tensor.Float32, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Release()

	g := autograd.NewGraph(dev, amp.Autocast(tensor.Float16))
	defer g.Release()
	x := g.Input(t)
	y := x.MatMul(x)
	fmt.Println("matmul", y.DType())
	fmt.Println("relu  ", y.ReLU().DType())
	fmt.Println("sum   ", y.Sum(nil, false).DType())
	amp.Region(g, amp.Enabled(false), func() { fmt.Println("off   ", x.MatMul(x).DType()) })
	amp.Region(g, amp.DType(tensor.BFloat16), func() { fmt.Println("other ", x.MatMul(x).DType()) })
	fmt.Println(g.Err())
	// Output:
	// matmul float16
	// relu   float16
	// sum    float32
	// off    float32
	// other  bfloat16
	// <nil>
}

// A gradient overflows: the step is left out, and the scale backs off. It grows again when that has not happened for a while.
func ExampleGradScaler() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	e, err := tensor.On(dev)
	if err != nil {
		log.Fatal(err)
	}
	t, err := tensor.Ones(e, tensor.Float32, 1)
	if err != nil {
		log.Fatal(err)
	}
	w := autograd.NewParameter("w", t)
	defer w.Release()
	opt := optim.SGD([]*autograd.Parameter{w}, optim.LR(0.1))
	scaler := amp.NewGradScaler(amp.InitScale(4), amp.GrowthInterval(2))
	defer scaler.Release()

	for _, slope := range []float64{5, 20000, 5, 5} {
		g := autograd.NewGraph(dev)
		loss := g.Param(w).To(tensor.Float16).MulScalar(slope).Sum(nil, false)
		err := scaler.Backward(loss)
		g.Release()
		if err != nil {
			log.Fatal(err)
		}
		if err := scaler.Step(opt); err != nil {
			log.Fatal(err)
		}
		skipped, err := scaler.Skipped(opt)
		if err != nil {
			log.Fatal(err)
		}
		if err := scaler.Update(); err != nil {
			log.Fatal(err)
		}
		opt.ZeroGrad()
		scale, err := scaler.GetScale()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("skipped", skipped, "scale", scale)
	}
	// Output:
	// skipped false scale 4
	// skipped true scale 2
	// skipped false scale 2
	// skipped false scale 4
}

// Clipping looks at gradients as they are, so they are unscaled before it.
func ExampleGradScaler_Unscale() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	model := nn.Linear(2, 1, nn.WeightInit(nn.Ones), nn.NoBias())
	if err := model.To(dev); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.SGD(model.Parameters(), optim.LR(1))
	scaler := amp.NewGradScaler()
	defer scaler.Release()

	g := autograd.NewGraph(dev)
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float32{3, 4}, 1, 2) })
	err = scaler.Backward(model.Forward(x).Sum(nil, false))
	g.Release()
	if err != nil {
		log.Fatal(err)
	}
	if err := scaler.Unscale(opt); err != nil {
		log.Fatal(err)
	}
	norm, err := optim.ClipGradNorm(model.Parameters(), 1)
	if err != nil {
		log.Fatal(err)
	}
	if err := scaler.Step(opt); err != nil {
		log.Fatal(err)
	}
	if err := scaler.Update(); err != nil {
		log.Fatal(err)
	}
	w, err := model.Weight.Tensor().Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("norm %.0f, weights %.1f\n", norm, w)
	// Output: norm 5, weights [0.4 0.2]
}

// The casts of weights live as long as the graph, and no longer.
func ExampleAutocast() {
	dev, err := device.Open("host:1GiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	model := nn.Linear(1024, 1024, nn.NoBias())
	if err := model.To(dev); err != nil {
		log.Fatal(err)
	}
	defer memory.Drop(dev)
	defer model.Release()
	alloc, err := memory.For(dev)
	if err != nil {
		log.Fatal(err)
	}
	weights := alloc.Stats().AllocatedBytes.All.Current
	report := func(when string) {
		fmt.Println(when, (alloc.Stats().AllocatedBytes.All.Current-weights)>>10, "KiB")
	}

	g := autograd.NewGraph(dev, amp.Autocast(tensor.Float16), autograd.NoGrad())
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float16, 1, 1024) })
	for range 3 {
		x = model.Forward(x)
	}
	report("three layers with one weight of 4096 KiB:")
	g.Release()
	report("after Release:")
	// Output:
	// three layers with one weight of 4096 KiB: 2056 KiB
	// after Release: 0 KiB
}
