package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// A copy starts with the same weights and goes its own way, as a target network does.
func ExampleClone() {
	online := nn.Sequential(nn.Linear(2, 1, nn.WeightInit(nn.Ones)))
	if err := online.To(host.Default()); err != nil {
		log.Fatal(err)
	}
	defer online.Release()
	target, err := nn.Clone(online)
	if err != nil {
		log.Fatal(err)
	}
	defer target.Release()
	if err := online.At(0).(*nn.LinearLayer).Weight.Tensor().FillInPlace(3); err != nil {
		log.Fatal(err)
	}
	for _, m := range []*nn.SequentialModule{online, target} {
		w, err := m.At(0).(*nn.LinearLayer).Weight.Tensor().Float64s()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(w)
	}
	// Output:
	// [3 3]
	// [1 1]
}
