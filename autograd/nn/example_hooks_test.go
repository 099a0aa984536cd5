package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A hook tells the shapes of what a layer takes and gives, until it is removed.
func ExampleRegisterForwardHook() {
	model := nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
	if err := model.To(host.Default()); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	hook, err := nn.RegisterForwardHook(model.At(0), func(m nn.Module, x, y *autograd.Variable) (*autograd.Variable, error) {
		fmt.Println(m, x.Shape(), y.Shape())
		return nil, nil // the result stays what it is
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		g := autograd.NewGraph(host.Default(), autograd.NoGrad())
		if err := model.Forward(g.Ones(tensor.Float32, 3, 4)).Graph().Err(); err != nil {
			log.Fatal(err)
		}
		g.Release()
		hook.Remove()
	}
	// Output: Linear(in_features=4, out_features=8, bias=True) [3, 4] [3, 8]
}
