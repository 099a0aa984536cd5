package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A long sequence in pieces, each with a graph of its own: the state is carried over, gradients are not.
func ExampleRNNLayer_ForwardState_carried() {
	dev := host.Default()
	net := nn.LSTM(3, 4)
	if err := net.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer net.Release()
	gen := tensor.NewGenerator(2)
	var h, c *tensor.Tensor // of the piece before
	piece := func() error {
		g := autograd.NewGraph(dev)
		defer g.Release()
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.RandN(e, gen, tensor.Float32, 5, 2, 3) })
		var h0, c0 *autograd.Variable // nil, zeros, at first
		if h != nil {
			h0, c0 = g.Input(h), g.Input(c)
			h.Release() // the graph has its own handles
			c.Release()
			h, c = nil, nil
		}
		out, last, lastCell := net.ForwardState(x, h0, c0)
		last.Keep()
		lastCell.Keep()
		if err := out.Mul(out).Mean(nil, false).Backward(); err != nil {
			return err
		}
		var err error
		if h, err = last.Take(); err != nil {
			return err
		}
		c, err = lastCell.Take()
		return err
	}
	for range 3 {
		if err := piece(); err != nil {
			log.Fatal(err)
		}
		fmt.Println(h.Shape(), c.Shape())
	}
	h.Release()
	c.Release()
	// Output:
	// [1, 2, 4] [1, 2, 4]
	// [1, 2, 4] [1, 2, 4]
	// [1, 2, 4] [1, 2, 4]
}

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
