package optim_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd/optim"
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
