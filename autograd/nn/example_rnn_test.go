package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A sequence in two halves: the state goes from one to the other.
func ExampleRNNLayer_ForwardState() {
	dev := host.Default()
	net := nn.LSTM(8, 16, nn.Layers(2), nn.BatchFirst())
	if err := net.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer net.Release()
	fmt.Println(net)
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
		return tensor.RandN(e, tensor.NewGenerator(2), tensor.Float32, 4, 10, 8)
	})
	whole, _, _ := net.ForwardState(x, nil, nil)
	first, h, c := net.ForwardState(x.Narrow(1, 0, 5), nil, nil)
	second, _, _ := net.ForwardState(x.Narrow(1, 5, 5), h, c)
	difference, err := autograd.Cat([]*autograd.Variable{first, second}, 1).Sub(whole).Abs().Max(nil, false).Item()
	fmt.Println(whole.Shape(), h.Shape(), difference < 1e-6, err)
	// Output:
	// LSTM(8, 16, num_layers=2, batch_first=True)
	// [4, 10, 16] [2, 4, 16] true <nil>
}
