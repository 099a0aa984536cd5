package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// The average of the weights is updated after each step, and evaluated instead of the model.
func ExampleEMA() {
	model := nn.Linear(1, 1, nn.NoBias())
	if err := model.To(host.Default()); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	ema, err := nn.EMA(model, 0.9)
	if err != nil {
		log.Fatal(err)
	}
	defer ema.Release()
	for step := range 3 {
		if err := model.Weight.Tensor().FillInPlace(float64(step)); err != nil { // stands for opt.Step()
			log.Fatal(err)
		}
		if err := ema.Update(model); err != nil {
			log.Fatal(err)
		}
	}
	nn.Eval(ema.Module)
	w, err := ema.Module.Weight.Tensor().Float64s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", w)
	for _, n := range nn.NamedState(ema) {
		fmt.Println(n.Name)
	}
	// Output:
	// [0.29]
	// module.weight
	// n_averaged
}
