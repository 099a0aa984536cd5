package nn_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// The source is encoded once, and the decoder reads one position after the other.
func ExampleCachedLayers() {
	dev := host.Default()
	model := nn.Transformer(8, 2, 2, 3, nn.FeedForward(16), nn.BatchFirst(), nn.CausalBlock())
	if err := model.To(dev, nn.Seed(1)); err != nil {
		log.Fatal(err)
	}
	defer model.Release()
	nn.Eval(model)
	size := nn.KVCacheSize{Layers: 3, Batch: 1, Heads: 2, MaxLen: 16, HeadDim: 4}
	positions, err := nn.NewKVCache(dev, size)
	if err != nil {
		log.Fatal(err)
	}
	defer positions.Release()
	memories, err := nn.NewKVCache(dev, size)
	if err != nil {
		log.Fatal(err)
	}
	defer memories.Release()

	g := autograd.NewGraph(dev, autograd.NoGrad())
	memory, err := model.Encoder.Forward(g.Ones(tensor.Float32, 1, 5, 8)).Take()
	g.Release()
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Release()
	for range 4 {
		g := autograd.NewGraph(dev, autograd.NoGrad()) // one for each step
		self, cross := []nn.AttendOption{nn.CachedLayers(positions)}, []nn.AttendOption{nn.CachedLayers(memories)}
		y := model.Decoder.Decode(g.Ones(tensor.Float32, 1, 1, 8), g.Input(memory), self, cross)
		fmt.Println(y.Shape(), g.Err(), positions.Len(), memories.Len())
		g.Release()
	}
	// Output:
	// [1, 1, 8] <nil> 1 5
	// [1, 1, 8] <nil> 2 5
	// [1, 1, 8] <nil> 3 5
	// [1, 1, 8] <nil> 4 5
}
