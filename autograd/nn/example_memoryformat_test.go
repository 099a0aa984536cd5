package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A convolutional network in channels_last: the model is converted once, images as they come, and what is in between follows.
func ExampleMemoryFormat() {
	dev := host.Default()
	model := nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
	if err := model.To(dev, nn.Seed(1), nn.MemoryFormat(tensor.ChannelsLast)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	g := autograd.NewGraph(dev)
	defer g.Release()
	x := g.RandN(tensor.Float32, 2, 3, 8, 8).ToMemoryFormat(tensor.ChannelsLast)
	y := model.Forward(x)
	if err := g.Err(); err != nil {
		log.Fatal(err)
	}
	for _, v := range []*autograd.Variable{x, y} {
		t, err := v.Tensor()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Shape(), t.Strides(), v.MemoryFormat())
	}
	if err := y.Square().Mean(nil, false).Backward(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Parameters()[0].Grad().MemoryFormat())
	// Output:
	// [2, 3, 8, 8] [192 1 24 3] channels_last
	// [2, 8, 3, 3] [72 1 24 8] channels_last
	// channels_last
}
