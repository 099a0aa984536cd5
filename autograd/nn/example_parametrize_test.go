package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// The critic of a GAN has weights whose largest singular value is 1. For inference the weight is baked in.
func ExampleSpectralNorm() {
	critic := nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
	for i := range critic.Len() {
		if l, ok := critic.At(i).(*nn.LinearLayer); ok {
			if err := nn.SpectralNorm(l); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := critic.To(host.Default(), nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer critic.Release()
	for _, n := range nn.NamedState(critic)[:2] {
		fmt.Println(n.Name)
	}
	nn.Eval(critic)
	for _, i := range []int{0, 2} {
		if err := nn.RemoveParametrization(critic.At(i), "weight"); err != nil {
			log.Fatal(err)
		}
	}
	for _, n := range nn.NamedState(critic)[:2] {
		fmt.Println(n.Name)
	}
	// Output:
	// 0.bias
	// 0.parametrizations.weight.original
	// 0.weight
	// 0.bias
}
