package optim_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A warm-up, and half a cosine after it.
func ExampleSequentialLR() {
	opt := optim.AdamW(nil, optim.LR(1e-3))
	schedule := optim.SequentialLR(opt, []*optim.Schedule{
		optim.LinearLR(opt, 0.25, 1, 3),
		optim.CosineAnnealingLR(opt, 4, 0),
	}, []int{3})
	for range 8 {
		fmt.Printf("%.6f ", opt.LR(0))
		if err := schedule.Step(); err != nil {
			fmt.Println(err)
		}
	}
	// Output: 0.000250 0.000500 0.000750 0.001000 0.000854 0.000500 0.000146 0.000000
}

// The rate falls when the loss of the validation set does not.
func ExampleReduceLROnPlateau() {
	opt := optim.SGD(nil, optim.LR(0.1))
	schedule := optim.ReduceLROnPlateau(opt, optim.Patience(1))
	for _, loss := range []float64{1, 0.8, 0.79, 0.8, 0.81, 0.7} {
		if err := schedule.Step(loss); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%.3g ", opt.LR(0))
	}
	// Output: 0.1 0.1 0.1 0.1 0.01 0.01
}

// A step of LBFGS computes the loss as often as it needs, so it takes the function that does.
func ExampleLBFGS() {
	dev := host.Default()
	model := nn.Linear(1, 1)
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	opt := optim.LBFGS(model.Parameters(), optim.MaxIter(10), optim.StrongWolfe())
	defer opt.Release()
	loss := func() (float64, error) {
		opt.ZeroGrad()
		g := autograd.NewGraph(dev)
		defer g.Release()
		x, y := autograd.FromSlice(g, []float32{0, 1, 2, 3}, 4, 1), autograd.FromSlice(g, []float32{1, 3, 5, 7}, 4, 1)
		loss := model.Forward(x).MSELoss(y, autograd.MeanReduction)
		if err := loss.Backward(); err != nil {
			return 0, err
		}
		return loss.Item()
	}
	if _, err := opt.StepClosure(loss); err != nil {
		log.Fatal(err)
	}
	for _, p := range model.Parameters() {
		v, err := tensor.ToSlice[float32](p.Tensor())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.3f\n", v)
	}
	// Output:
	// [2.000]
	// [1.000]
}
